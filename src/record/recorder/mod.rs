//! Recording: from a few words about an object to an event in the queue, on the caller's own thread.
//!
//! A call makes the event, has it scrubbed and cut, and tries to publish it. It waits for nothing and logs nothing; what
//! cannot be recorded is a value, a counter and a call of one hook. `context` is what the recorders of one broadcaster
//! share, `draft` the long form of a call, `fake` the other end of the queue for tests.

mod context;
mod destination;
mod draft;
mod fake;
mod handle;
mod recorded;

pub(crate) use context::{DEFAULT_MAX_MESSAGE_LEN, RecorderContext, Scrub};

pub use context::RecorderStats;
pub use draft::EventDraft;
pub use fake::FakeRecorder;
pub use handle::{ObjectRecorder, Recorder};
pub use recorded::Recorded;
