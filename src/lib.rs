//! eventcast

#![cfg_attr(not(eventcast_loom), forbid(unsafe_code))]
#![warn(clippy::dbg_macro, clippy::print_stderr, clippy::print_stdout, clippy::todo, clippy::unwrap_used)]

mod bus;
mod clock;
#[cfg(feature = "recorder")]
mod correlator;
#[cfg(feature = "recorder")]
mod duration;
mod error;
#[cfg(feature = "recorder")]
mod escape;
#[cfg(feature = "recorder")]
mod event;
#[cfg(feature = "recorder")]
mod event_broadcaster;
mod guard;
#[cfg(feature = "recorder")]
mod loss;
#[cfg(feature = "recorder")]
mod recorder;
#[cfg(feature = "recorder")]
mod recording;
#[cfg(feature = "recorder")]
mod sink;
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
#[cfg(feature = "recorder")]
pub use crate::event_broadcaster::{EventBroadcaster, EventBroadcasterBuilder, EventBroadcasterStats};
#[cfg(feature = "recorder")]
pub use crate::loss::{Loss, LossReason};
#[cfg(feature = "recorder")]
pub use crate::recorder::{EventDraft, FakeRecorder, ObjectRecorder, Recorded, Recorder, RecorderStats};
#[cfg(feature = "recorder")]
pub use crate::recording::{RecordingBuilder, RecordingHandle, RetryPolicy};
#[cfg(feature = "recorder")]
pub use crate::sink::{
    EventSink, MemorySink, MemorySinkOptions, MemorySinkStats, SinkError, SinkErrorKind, SinkOp,
};
#[cfg(feature = "recorder")]
pub use crate::stats::RecordingStats;
pub use crate::stats::{BusStats, DropCounts, DropReason, ShutdownReport, WatcherStats};
