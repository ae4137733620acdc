//! eventcast

#![cfg_attr(not(eventcast_loom), forbid(unsafe_code))]

mod bus;
mod clock;
mod error;
mod stats;
mod sync;

pub use crate::bus::{
    Batch, Broadcaster, BusOptions, Delivery, Events, IntoIter, Iter, OverflowPolicy, Publisher, Runner,
    StopHandle, WatchBuilder, WatchHandle, Watcher,
};
pub use crate::clock::{Clock, FakeClock};
pub use crate::error::{
    BuildError, FlushError, PublishError, RecvError, RecvTimeoutError, TryRecvError, WatchError,
};
pub use crate::stats::{BusStats, DropCounts, DropReason, ShutdownReport, WatcherStats};
