//! The recorder, built on top of the bus.
//!
//! - [`EventBroadcaster`] starts an event bus, and [`EventBroadcasterBuilder`] sets the
//!   broadcaster's options.
//! - [`Recorder`] and [`ObjectRecorder`] record events. An [`EventDraft`] is an event that is still
//!   being built, and [`Recorded`] is the outcome of a recording call.
//! - A recording writes events to a sink. [`RecordingBuilder`] starts a recording with non-default
//!   options, such as a [`RetryPolicy`], and [`RecordingHandle`] stops the recording. An [`Outage`]
//!   reports that a recording's store has become unavailable, or is available again.
//! - A [`Loss`] describes lost events, and is passed to the
//!   [`on_loss`](EventBroadcasterBuilder::on_loss) hook.
//!
//! <details>
//! <summary>How the recorder is built, for contributors</summary>
//!
//! # The path of an event
//!
//! The directories are listed in the order in which an event passes through them: `event` (the
//! data), `recorder` (builds events), `correlator` (aggregates, counts, limits), `series` (counts
//! events that have an event time), `delivery` (writes a recording's events to its sink) and `sink`
//! (stores). The `broadcaster` directory builds on all the others.
//!
//! # Memory orderings
//!
//! As in `bus`, each use of an atomic has a comment that names the operation it pairs with. A test
//! checks that every atomic is listed either in the table below or in the table in `bus`.
//!
//! | atomic | written by | ordering | read by | ordering | what it carries |
//! |---|---|---|---|---|---|
//! | `Numbers::next` | `correlate` | relaxed RMW | `correlate` | same word | unique numbers |
//! | `RecorderCounters::full`, `RecorderCounters::closed`, `RecorderCounters::disabled` | recorder | relaxed RMW | `stats` | relaxed | counts |
//! | `RecorderCounters::empty_reason`, `RecorderCounters::invalid` | recorder | relaxed RMW | `stats` | relaxed | counts |
//! | `RecorderCounters::scrub_panics`, `RecorderCounters::truncated` | recorder | relaxed RMW | `stats` | relaxed | counts |
//! | `LossHook::panics` | caller of the hook | relaxed RMW | `stats` | relaxed | a count |
//! | `CounterCell::created`, `CounterCell::updated`, `CounterCell::aggregated` | `correlate` | relaxed RMW | `stats` | relaxed | counts |
//! | `CounterCell::filtered`, `CounterCell::evicted` | `correlate`, `confirm` | relaxed RMW | `stats` | relaxed | counts |
//! | `Caches::free` | `correlate`, `confirm` | relaxed RMW | the same | relaxed | a count |
//! | `Flushes::running` | flush | relaxed RMW, fence after | recording | relaxed, fence before | no data: while the value is not zero, recordings hold neither writes nor events |
//!
//! # Locks
//!
//! The documentation of `bus` explains the columns of the table below. While the locks in the table
//! are held, no user code runs, except the output that a program passes to a `JsonLinesSink`.
//!
//! | lock | taken by | under | held for |
//! |---|---|---|---|
//! | `Caches::map`, one lock per shard | `correlate`, `confirm` | none | a decision, or the eviction of an entry |
//! | `Caches::orders`, one lock per shard | `correlate`, `confirm` | `Caches::map` | as long as the shard's lock |
//! | `Writers::queue`, `Writer::queue` (the same lock) | recording, writers | none | an update of the list |
//! | `Replies::answers` | recording, writers, threads and tasks of the sink | `MemoryStore::state` | an update of the list |
//! | `Waiting::answer` | caller of an `AsyncSink`'s method, its task | none | an update of the answer |
//! | `Driver::stats`, `RecordingHandle::stats` (the same lock) | recording, `stats` | `Recordings::list` | a copy of the counters |
//! | `Recordings::list` | start of a recording, flush, `stats` | none | a scan of the recordings |
//! | `Shared::handlers` of an `EventBroadcaster` | start of a handler, drop | none | a scan of the handlers |
//! | `Warnings::silent` | thread that reports a loss, if there is no hook | `SharedIntake::intake`, `InlineFront::core` | a scan of the reasons |
//! | `FakeQueue::events` | recorder, test | none | an update of the list |
//! | `MemoryStore::state` | every use of the store | none | a batch, or a scan of a page of events |
//! | `Shared::output` of a `JsonLinesSink` | writes to the sink | none | a write to the output, or the switch to a new file |
//! | `Shared::stats` of a `JsonLinesSink` | writes to the sink, `stats` | `Shared::output` | an update of the counters |
//!
//! </details>

pub(crate) mod broadcaster;
pub(crate) mod correlator;
pub(crate) mod delivery;
pub(crate) mod event;
pub(crate) mod loss;
pub(crate) mod recency;
pub(crate) mod recorder;
pub(crate) mod series;
pub(crate) mod sink;
pub(crate) mod stats;

pub use self::broadcaster::EventBroadcaster;
#[doc(alias = "BroadcasterOption")]
pub use self::broadcaster::EventBroadcasterBuilder;
pub use self::delivery::{Jitter, Outage, RecordingBuilder, RecordingHandle, RetryPolicy};
pub use self::loss::{Loss, LossReason};
pub use self::recorder::{EventDraft, ObjectRecorder, Recorded, Recorder};
pub use self::series::{SeriesOptions, SeriesUpdate};
