//! eventcast

#![cfg_attr(not(eventcast_loom), forbid(unsafe_code))]
#![warn(clippy::dbg_macro, clippy::print_stderr, clippy::print_stdout, clippy::todo, clippy::unwrap_used)]

mod bus;
mod clock;
#[cfg(feature = "recorder")]
mod correlator;
mod error;
#[cfg(feature = "recorder")]
mod escape;
#[cfg(feature = "recorder")]
mod event;
mod stats;
mod sync;

pub use crate::bus::{
    Batch, Broadcaster, BusOptions, Delivery, Events, IntoIter, Iter, OverflowPolicy, Publisher, Runner,
    StopHandle, WatchBuilder, WatchHandle, Watcher,
};
pub use crate::clock::{Clock, FakeClock};
#[cfg(feature = "recorder")]
pub use crate::correlator::{
    Aggregation, Correlation, CorrelationKey, CorrelatorOptions, CorrelatorStats, EventCorrelator,
    SkipReason, SpamFilter,
};
pub use crate::error::{
    BuildError, FlushError, PublishError, RecvError, RecvTimeoutError, TryRecvError, WatchError,
};
#[cfg(feature = "recorder")]
pub use crate::event::{
    Event, EventJsonError, EventPatch, EventSeries, EventSource, EventType, ObjectMeta, ObjectReference,
    Text, Timestamp, TimestampError,
};
pub use crate::stats::{BusStats, DropCounts, DropReason, ShutdownReport, WatcherStats};
