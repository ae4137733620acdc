//! Recording: builds an event about an object on the caller's own thread, and puts it in the queue.
//!
//! A call builds the event, scrubs and truncates it, and tries to publish it. Only the event's name
//! is generated later, by the dispatcher, if there is one. A call does not wait, except for the
//! lock of an inline bus. If the event cannot be recorded, the call returns a value, increments a
//! counter and calls one hook. Without a hook, the feature `tracing` logs a warning.
//!
//! - `context` is the state that the recorders of one broadcaster share.
//! - `draft` is the long form of a call.
//! - `object` is a recorder for one object.
//! - `fake` is the other end of the queue, for tests.

mod context;
mod destination;
mod draft;
mod fake;
mod handle;
mod object;
mod recorded;

pub(crate) use context::{DEFAULT_MAX_MESSAGE_LEN, RecorderContext, Scrub};

pub use context::RecorderStats;
pub use draft::EventDraft;
pub use fake::FakeRecorder;
pub use handle::Recorder;
pub use object::ObjectRecorder;
pub use recorded::Recorded;
