//! A bounded in-process event bus, and a Kubernetes-style event recorder built on top of it.
//!
//! ```text
//! Publisher ─┐                                     ┌─> queue ─> Watcher (a thread, a task, a Select)
//! Publisher ─┼─> incoming queue ─> dispatcher ─────┼─> queue ─> handler (a thread of the bus)
//! Recorder ──┘   (the one order)   (one thread)    └─> queue ─> correlator ─> EventSink (a recording)
//! ```
//!
//! * [`Broadcaster<T>`](Broadcaster) is the bus. [Publishers](Publisher) on any threads publish to
//!   any number of [watchers](Watcher). Each watcher has its own queue, and its own
//!   [policy](OverflowPolicy) for a full queue. The bus counts every loss by reason, and reports it
//!   to the watcher as [`Delivery::Lagged`], at the point in the sequence where it occurred. A
//!   watcher's queue is bounded by credit, which means that the bus sends only as many events as
//!   the queue has capacity for. The queue allocates memory only as it fills, so a large queue does
//!   not cost an idle watcher anything.
#![cfg_attr(
    feature = "recorder",
    doc = "* [`EventBroadcaster`] is the recorder: [`Recorder`]s turn what happens to your objects into core/v1 [`Event`]s, a
[correlator] folds repeats and suppresses floods, and an [`EventSink`] stores the remaining events. It behaves like
client-go's `tools/record`, except where `tools/record` loses events silently."
)]
#![cfg_attr(
    feature = "topics",
    doc = "* [`Topics`](topics::Topics) is publish-subscribe by key: an inline bus for each key that is watched, and readers of
all keys that match a pattern such as `orders.*.created`."
)]
//!
//! The library is synchronous and does not need a runtime. Waiting threads sleep instead of
//! polling. Every wait can also be awaited on any executor, and tasks can share a bus with threads.
//! With the `select` feature, a watcher can be one of several channels in a crossbeam `Select`.
//!
//! # The bus in ten lines
//!
//! ```
//! use eventcast::{Broadcaster, Delivery, OverflowPolicy};
//!
//! let bus = Broadcaster::new()?;
//! let mut journal = bus.watch_builder().name("journal").overflow(OverflowPolicy::Wait).watch()?;
//! bus.watch_builder().name("view").queue_capacity(16).spawn(|delivery| match delivery {
//!     Delivery::Event(tick) => assert!(*tick < 3),
//!     Delivery::Lagged(missed) => assert!(missed > 0),
//! })?;
//! let publisher = bus.publisher();
//! for tick in 0..3 {
//!     publisher.try_publish(tick)?;
//! }
//! assert!(bus.shutdown().complete);
//! assert_eq!(journal.events().collect::<Vec<_>>(), [0, 1, 2]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! [`Watcher`] documents the items that a watcher receives, including losses, and the ways to wait
//! for them. [`Publisher`] documents the ways to publish.
#![cfg_attr(
    feature = "recorder",
    doc = r#"
# The recorder in ten lines

```
use eventcast::{EventBroadcaster, MemorySink, ObjectReference};

let store = MemorySink::new();
let events = EventBroadcaster::new()?;
events.record_to(store.clone())?;
let recorder = events.recorder("door-controller");
let door = ObjectReference::new("Door", "front");
recorder.normal(&door, "Opened", "somebody came in");
for tries in 1..=3 {
    recorder.warning(&door, "Jammed", format_args!("after {tries} tries"));
}
assert!(events.shutdown().complete);
assert_eq!(store.events().len(), 4);
# Ok::<(), Box<dyn std::error::Error>>(())
```

The [`record`] module contains the recorder's parts, [`sink`] the stores, and [`correlator`] the handling of repeats."#
)]
//!
//! # Which policy to choose
//!
//! | the watcher | its policy | what happens when its queue is full |
//! |---|---|---|
//! | a journal that must have every event | [`Wait`](OverflowPolicy::Wait) | the dispatcher waits, and eventually the publishers too |
//! | a journal that must not stop the others | [`WaitFor`](OverflowPolicy::WaitFor) | the dispatcher waits up to the given time, then the event is lost |
//! | a view that shows the latest events | [`DropOldest`](OverflowPolicy::DropOldest) | the oldest event is dropped |
//! | a gauge | `DropOldest`, with a queue capacity of one | only the newest event is kept |
//! | a remote client | [`DropIncoming`](OverflowPolicy::DropIncoming), the default | the event is lost, and the client sees the gap |
//! | a remote client that can reconnect | [`Evict`](OverflowPolicy::Evict) | the watcher ends, and the client's next watcher [continues](WatchBuilder::start) from the [history](BusOptions::history) |
//!
//! If the incoming queue is full, [`publish`](Publisher::publish) waits for capacity, and
//! [`try_publish`](Publisher::try_publish) returns the event. A watcher with `Wait` receives every
//! accepted event. Read such a watcher without long pauses, because all other watchers have to wait
//! for it.
//!
//! [`WatcherStats`](stats::WatcherStats) shows how full a watcher's queue has been, and how many
//! events the watcher has lost.
//!
//! # Threads of the bus
//!
//! A bus has one dispatcher thread, unless it is [inline](Broadcaster::new_inline), and one thread
//! for each handler that is spawned on it. While a task is waiting with a deadline, an additional
//! thread runs the timer.
//!
//! Code on the bus's threads never waits for the bus itself, because such a wait could never end.
//! The rule applies to filters, hooks, handlers and wakers, to an event's `Clone` and `Drop` when
//! they run on these threads, and to the destructors of everything owned by any of these. If a call
//! would otherwise wait, it returns instead:
//!
//! - A publish call that would wait returns `Full`.
//! - [`flush`](Broadcaster::flush) returns [`WouldDeadlock`](error::FlushError::WouldDeadlock).
//! - [`shutdown`](Broadcaster::shutdown) closes the bus, and returns a report that is not complete.
//!
//! On a target without threads, such as `wasm32-unknown-unknown`, an
//! [inline](Broadcaster::new_inline) bus works, and [`Broadcaster::new`] returns an error.
//! `wasm32-unknown-unknown` has no clock either, so every timeout expires immediately. A wait
//! without a timeout never ends if the waiting thread is the only one that could end it.
//!
//! If a process forks, the child has none of the bus's threads. The child's copy of a bus therefore
//! has no dispatcher. A publisher may still deliver an event directly, but queued events stay
//! queued, and a thread that waits for these events waits forever. Create the bus after the fork.
//!
//! # Panics
//!
//! The bus catches panics in user code (handlers, filters, hooks, `Clone`, `Drop`) and does not
//! propagate them. [`WatcherStats::panics`](stats::WatcherStats::panics) counts the caught panics,
//! except panics in `Drop`, which may happen on any thread. A panic in `Clone` during a receive is
//! not caught, and propagates to the caller. With `panic = "abort"`, no panic can be caught.
//!
//! # Modules
//!
//! The crate root contains the types that you create, implement or match on to publish, watch,
//! record and store events, and the types that their methods take. The [`error`] module contains
//! the errors, and [`stats`] contains statistics and reports.
#![cfg_attr(
    feature = "recorder",
    doc = "The other types that their methods return are in [`bus`], [`record`], [`event`], [`correlator`] and [`sink`]."
)]
#![cfg_attr(not(feature = "recorder"), doc = "The other types that their methods return are in [`bus`].")]
//!
//! # Models of your program
//!
//! With `--cfg eventcast_loom`, the bus and your code around it run under the model checker
//! [loom](https://docs.rs/loom). A bug such as a lost shutdown signal then makes a test fail every
//! time. With `--cfg eventcast_loom`, the [`testing`] module contains the parts that such a test
//! needs. `docs/model-checking.md` in the repository shows the `Cargo.toml` to start with, and
//! `examples/bus/model_checking.rs` contains such a test.
//!
//! # The book
//!
//! `docs/README.md` in the repository is the first page of a book, which ranges from a first bus in
//! five minutes to sizing queues and running a bus in production. `docs/guarantees.md` states each
//! guarantee, together with the tests and models that check it.

#![cfg_attr(docsrs, feature(doc_cfg))]
#![cfg_attr(not(eventcast_loom), forbid(unsafe_code))]
#![deny(clippy::disallowed_types, clippy::disallowed_methods)]
#![warn(clippy::dbg_macro, clippy::print_stderr, clippy::print_stdout, clippy::todo, clippy::unwrap_used)]

#[cfg(all(eventcast_loom, feature = "recorder"))]
compile_error!(
    "cannot build the feature `recorder` with `--cfg eventcast_loom`: models only support the bus. Turn the default \
     features of eventcast off"
);

pub mod bus;
mod catch;
mod clock;
#[cfg(feature = "serde")]
pub mod duration;
pub mod error;
pub mod escape;
#[cfg(feature = "metrics")]
pub mod metrics;
#[cfg(feature = "recorder")]
pub mod record;
mod remote_state;
#[cfg(feature = "serde")]
mod serde_object;
mod sync;
pub mod testing;
#[cfg(feature = "topics")]
pub mod topics;

/// Events in the form that recorders create, sinks store and a Kubernetes API server accepts.
#[cfg(feature = "recorder")]
pub mod event {
    #[doc(alias = "EventList")]
    pub use crate::record::event::EventReader;
    pub use crate::record::event::{
        Event, EventField, EventJsonError, EventReadError, EventReadErrorKind, EventSeries, EventSource,
        EventType, ObjectMeta, ObjectReference, ReadEvent, Text, Timestamp,
    };
}

/// The correlator, which folds repeats into counts, folds similar events into one event, and
/// suppresses floods.
///
/// Every recording has its own correlator. A program can also use a correlator without a recording.
#[cfg(feature = "recorder")]
pub mod correlator {
    #[doc(alias = "EventAggregate")]
    #[doc(alias = "EventAggregator")]
    #[doc(alias = "NewEventAggregator")]
    pub use crate::record::correlator::Aggregation;
    #[doc(alias = "EventCorrelateResult")]
    #[doc(alias = "Skip")]
    pub use crate::record::correlator::Correlation;
    #[doc(alias = "EventSourceObjectSpamFilter")]
    #[doc(alias = "NewEventSourceObjectSpamFilter")]
    pub use crate::record::correlator::SpamFilter;
    pub use crate::record::correlator::{CorrelationKey, CorrelatorOptions, EventCorrelator};
}

/// Sinks, including the contract that a store implements, the stores that the library provides, and
/// the types for reading them.
#[cfg(feature = "recorder")]
pub mod sink {
    #[doc(alias = "block_on")]
    #[doc(alias = "Blocking")]
    #[doc(alias = "spawn")]
    pub use crate::record::sink::AsyncSink;
    #[doc(alias = "file")]
    #[doc(alias = "jsonl")]
    #[doc(alias = "ndjson")]
    pub use crate::record::sink::JsonLinesSink;
    pub use crate::record::sink::rules;
    pub use crate::record::sink::{
        AsyncEventSink, EventCursor, EventPage, EventQuery, EventSink, EventTable, JsonLinesOptions,
        MemoryEvents, MemorySink, MemorySinkOptions, NeededThread, QueryLimit, SinkBatch, SinkCall,
        SinkError, SinkErrorKind, SinkMode, SinkOp, SinkOpError, Stored, WriteOrder,
    };
}

/// Counter snapshots for a bus, its watchers, its recordings and their sinks, and the status of
/// each component that depends on a remote service.
pub mod stats {
    pub use crate::bus::counters::{BusStats, DropCounts, DropReason, WatcherStats};
    pub use crate::bus::report::ShutdownReport;
    pub use crate::bus::slow::{SlowNotice, Slowness};
    #[cfg(feature = "recorder")]
    pub use crate::record::broadcaster::{EventBroadcasterReport, EventBroadcasterStats};
    #[cfg(feature = "recorder")]
    pub use crate::record::correlator::CorrelatorStats;
    #[cfg(feature = "recorder")]
    pub use crate::record::recorder::RecorderStats;
    #[cfg(feature = "recorder")]
    pub use crate::record::sink::{JsonLinesStats, MemorySinkStats};
    #[cfg(feature = "recorder")]
    pub use crate::record::stats::{DegradedGroup, RecordingStats, SinkFailure};
    pub use crate::remote_state::RemoteState;
}

#[doc(alias = "bounded")]
#[doc(alias = "mpsc")]
#[doc(alias = "sync_channel")]
#[doc(inline)]
pub use crate::bus::channel;
// If a type's module is private, rustdoc's search finds an alias only on the type's public
// re-export.
#[doc(alias = "broadcast")]
#[doc(alias = "broadcast channel")]
#[doc(alias = "event bus")]
#[doc(alias = "fan-out")]
#[doc(alias = "message queue")]
#[doc(alias = "pub/sub")]
#[doc(alias = "publish-subscribe")]
#[doc(inline)]
pub use crate::bus::Broadcaster;
#[doc(alias = "Receiver")]
#[doc(inline)]
pub use crate::bus::EventWatcher;
#[doc(alias = "backpressure")]
#[doc(alias = "FullChannelBehavior")]
#[doc(alias = "slow consumer")]
#[doc(inline)]
pub use crate::bus::OverflowPolicy;
#[doc(alias = "Sender")]
#[doc(inline)]
pub use crate::bus::Publisher;
#[doc(alias = "Interface")]
#[doc(alias = "Receiver")]
#[doc(alias = "ResultChan")]
#[doc(alias = "Subscriber")]
#[doc(inline)]
pub use crate::bus::Watcher;
#[doc(alias = "InactiveReceiver")]
#[doc(alias = "Weak")]
#[doc(alias = "WeakSender")]
#[doc(inline)]
pub use crate::bus::WeakBroadcaster;
#[doc(inline)]
pub use crate::bus::{BusOptions, Delivery, Start, WatchBuilder, WatchHandle, WatchOptions};
#[doc(inline)]
pub use crate::clock::Clock;
#[cfg(feature = "recorder")]
#[doc(alias = "deduplicate")]
#[doc(inline)]
pub use crate::correlator::CorrelatorOptions;
#[cfg(feature = "recorder")]
#[doc(inline)]
pub use crate::correlator::{Aggregation, SpamFilter};
#[cfg(feature = "recorder")]
#[doc(alias = "Kubernetes event")]
#[doc(inline)]
pub use crate::event::Event;
#[cfg(feature = "recorder")]
#[doc(alias = "ValidateEventType")]
#[doc(inline)]
pub use crate::event::EventType;
#[cfg(feature = "recorder")]
#[doc(alias = "GetReference")]
#[doc(inline)]
pub use crate::event::ObjectReference;
#[cfg(feature = "recorder")]
#[doc(inline)]
pub use crate::event::{EventSeries, EventSource, Text, Timestamp};
#[cfg(feature = "recorder")]
#[doc(alias = "EventRecorder")]
#[doc(alias = "EventRecorderLogger")]
#[doc(inline)]
pub use crate::record::Recorder;
#[cfg(feature = "recorder")]
#[doc(inline)]
pub use crate::record::{EventBroadcaster, EventDraft, Jitter, Recorded, RetryPolicy};
#[cfg(feature = "recorder")]
#[doc(inline)]
pub use crate::sink::{
    EventQuery, EventSink, JsonLinesOptions, JsonLinesSink, MemorySink, MemorySinkOptions, SinkBatch,
    SinkError, SinkErrorKind, SinkOp, Stored,
};

/// The long documents, compiled so that their examples stay correct.
#[cfg(all(doctest, feature = "recorder"))]
mod documents {
    #[doc = include_str!("../README.md")]
    mod readme {}
    #[doc = include_str!("../docs/from-client-go.md")]
    mod from_client_go {}
    #[doc = include_str!("../docs/events-v1.md")]
    mod events_v1 {}
}
