//! The recorder on top of the bus.
//!
//! - [`EventBroadcaster`] starts a bus of events. [`EventBroadcasterBuilder`] has its options.
//! - [`Recorder`] and [`ObjectRecorder`] record events, and [`EventDraft`] is an event in the
//!   making. [`Recorded`] says what became of a call.
//! - A recording brings events to a sink. [`RecordingBuilder`] starts one with options of its own,
//!   such as a [`RetryPolicy`], and [`RecordingHandle`] stops it. [`Outage`] is the time in which
//!   the store of a recording does not work.
//! - [`Loss`] is an event that somebody lost, as the hook
//!   [`on_loss`](EventBroadcasterBuilder::on_loss) hears of it.
//!
//! <details>
//! <summary>How the recorder is built, for those who change it</summary>
//!
//! # The way of an event
//!
//! The folders stand in the order in which an event passes them: `event` (the data), `recorder`
//! (makes events), `correlator` (aggregates, counts, limits), `series` (counts events that have an
//! event time), `delivery` (brings the events of a
//! recording to its sink) and `sink` (stores). The `broadcaster` stands above all of them.
//!
//! # Memory orderings
//!
//! As in `bus`, each use carries a line that names its partner, and a test checks every atomic.
//!
//! | atomic | written by | ordering | read by | ordering | what it carries |
//! |---|---|---|---|---|---|
//! | `Numbers::next` | `correlate` | relaxed RMW | `correlate` | same word | numbers that differ |
//! | `RecorderCounters::full`, `RecorderCounters::stopped`, `RecorderCounters::disabled` | recorder | relaxed RMW | `stats` | relaxed | counts |
//! | `RecorderCounters::empty_reason`, `RecorderCounters::invalid` | recorder | relaxed RMW | `stats` | relaxed | counts |
//! | `RecorderCounters::scrub_panics`, `RecorderCounters::truncated` | recorder | relaxed RMW | `stats` | relaxed | counts |
//! | `LossHook::panics` | caller of the hook | relaxed RMW | `stats` | relaxed | a count |
//! | `CounterCell::created`, `CounterCell::updated`, `CounterCell::aggregated` | `correlate` | relaxed RMW | `stats` | relaxed | counts |
//! | `CounterCell::filtered`, `CounterCell::summaries`, `CounterCell::evicted` | `correlate`, `confirm` | relaxed RMW | `stats` | relaxed | counts |
//! | `Flushes::running` | flush | relaxed RMW, fence after | recording | relaxed, fence before | no data: a recording then holds nothing back |
//! | `SqliteStore::unreadable` | reader of a row | relaxed RMW | `stats` | relaxed | a count |
//!
//! </details>

pub(crate) mod broadcaster;
pub(crate) mod correlator;
pub(crate) mod delivery;
pub(crate) mod event;
pub(crate) mod loss;
pub(crate) mod recorder;
pub(crate) mod series;
pub(crate) mod sink;
pub(crate) mod stats;

pub use self::broadcaster::{EventBroadcaster, EventBroadcasterBuilder, LogFormat};
pub use self::delivery::{Jitter, Outage, RecordingBuilder, RecordingHandle, RetryPolicy};
pub use self::loss::{Loss, LossReason};
pub use self::recorder::{EventDraft, ObjectRecorder, RecordError, Recorded, Recorder};
pub use self::series::{SeriesOptions, SeriesUpdate};
