//! Builds an event about an object on the caller's own thread, and adds the event to the queue.
//!
//! A recording call builds the event, scrubs and truncates it, and tries to publish it. Only the
//! event's name is generated later, by the dispatcher if there is one. A recording call does not
//! block, except to acquire an inline bus's lock. If the event cannot be recorded, the call
//! increments a counter, calls the `on_loss` hook and returns the reason. If there is no hook, the
//! `tracing` feature logs a warning instead. A disabled recorder only increments a counter and
//! returns.
//!
//! - `context` holds the state shared by all of a broadcaster's recorders.
//! - `draft` defines a builder for events with optional fields.
//! - `object` defines a recorder that is bound to one object.
//! - `fake` creates recorders for tests, and stores the recorded events in a queue.

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
