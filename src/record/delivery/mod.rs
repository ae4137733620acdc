//! Recordings. Each takes events from its own watcher, correlates them, and brings them to a sink.
//!
//! A recording is a handler of the bus, on its own thread, so flush and shutdown wait for it as for
//! any other. It has its own correlator, so two sinks count independently. Its threads:
//!
//! - The [`driver`] decides about one event after the other, in order, and keeps for each stored
//!   event the newest state that the store has yet to be told ([`pending`]).
//! - The [`writers`] call the sink. Each gets a batch of what is pending at that moment.
//!
//! An event that has not been written counts against the watcher's queue, unless a later state of
//! the same stored event stands for it. The pauses between attempts end at once when the recording
//! is stopped or the bus is closed. From then on every event that is left gets one attempt.

mod alerts;
mod breaker;
mod builder;
mod driver;
mod flushes;
mod handle;
mod outage;
mod pending;
mod refused;
mod retry;
mod start;
mod write;
mod writers;

pub use builder::RecordingBuilder;
pub use handle::RecordingHandle;
pub(crate) use handle::Recordings;
pub use outage::Outage;
pub use retry::{Jitter, RetryPolicy};
