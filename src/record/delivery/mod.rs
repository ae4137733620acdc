//! Recordings, each of which takes events from its own watcher, correlates them, and writes them to
//! a sink.
//!
//! A recording runs as a handler on its own thread, so flush and shutdown wait for it as they do
//! for any other handler. It has its own correlator, so two sinks count independently. It uses
//! these threads:
//!
//! - The [`driver`] makes a decision about each event in order. For each stored event, it keeps the
//!   newest state that has not reached the store yet ([`pending`]).
//! - The [`writers`] call the sink. Each writer takes a batch of the writes that are pending at
//!   that time.
//!
//! An event that has not been written counts against the watcher's queue, unless a later state of
//! the same stored event covers it. When the recording is stopped or the bus is closed, the pauses
//! between attempts end immediately. Each remaining event then gets one attempt.

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
