//! Implements recordings, each of which takes events from its own watcher, correlates the events,
//! and writes the results to a sink.
//!
//! A recording runs as a handler on its own thread, so flush and shutdown wait for a recording in
//! the same way as for any other handler. Each recording has its own correlator, so two sinks count
//! events independently. A recording uses the following threads:
//!
//! - The [`driver`] makes a decision about each event in order. For each stored event, the driver
//!   keeps the newest state that has not reached the store yet ([`pending`]).
//! - The [`writers`] call the sink. Each writer takes a batch of the writes that are currently
//!   pending.
//!
//! An event that has not been written counts against the capacity of the watcher's queue, unless a
//! later state of the same stored event covers the event. When the recording is stopped or the bus
//! is closed, the pauses between attempts end immediately. The recording then tries to write each
//! remaining event once.

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
