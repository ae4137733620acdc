//! Builds an event about an object on the caller's own thread, and puts it in the queue.
//!
//! A call builds the event, scrubs and truncates it, and tries to publish it. Only the event's name
//! is generated later, by the dispatcher, if there is one. A call does not wait, except for the
//! lock of an inline bus. If the event cannot be recorded, the call increments a counter, calls the
//! `on_loss` hook and returns the reason as a value. Without a hook, the `tracing` feature logs a
//! warning. A disabled recorder only counts the call and returns.
//!
//! - `context` is the state shared by a broadcaster's recorders.
//! - `draft` is the long form of a recording call.
//! - `object` is a recorder for one object.
//! - `fake` creates recorders for tests, and keeps the recorded events in a queue.

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
