//! Options of a correlator: plain data, and three functions.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::clock::Clock;
use crate::error::BuildError;
use crate::record::event::{Event, Text};
use crate::serde_object::object_only;
use crate::sync::Arc;

pub(super) type KeyFn = Arc<dyn Fn(&Event) -> (Text, Text) + Send + Sync>;
pub(super) type MessageFn = Arc<dyn Fn(&Event) -> Text + Send + Sync>;
pub(super) type SpamKeyFn = Arc<dyn Fn(&Event) -> Text + Send + Sync>;

/// The largest number of entries that a cache can be asked to hold.
const MAX_ENTRIES: usize = 1 << 24;

/// Options of an [`EventCorrelator`](super::EventCorrelator). The defaults are client-go's.
///
/// In configuration files the keys are the fields' names, and client-go's names are understood as
/// well. An interval is text such as `10m`, or a number of seconds. `null` switches a stage off. An
/// unknown key is an error.
///
/// # Examples
///
/// ```
/// use eventcast::correlator::EventCorrelator;
/// use eventcast::CorrelatorOptions;
///
/// let mut options = CorrelatorOptions::default();
/// options.lru_cache_size = 10_000;
/// options.spam_filter = None;
/// assert!(EventCorrelator::new(options).is_ok());
///
/// let options: CorrelatorOptions =
///     serde_json::from_str(r#"{"aggregation": {"max_events": 3, "max_interval": "90s"}, "spam_filter": null}"#)?;
/// assert_eq!(options.aggregation.unwrap().max_interval.as_secs(), 90);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Serialize, Deserialize)]
#[serde(remote = "Self", default, deny_unknown_fields, expecting = "a correlator's options, as an object")]
#[non_exhaustive]
pub struct CorrelatorOptions {
    /// The number of entries that each of the three caches holds: groups of similar events, events,
    /// and budgets. 1 to 16,777,216, default 4096.
    #[serde(alias = "LRUCacheSize", alias = "lruCacheSize")]
    pub lru_cache_size: usize,
    /// The options for folding similar events into one. `None` switches folding off.
    pub aggregation: Option<Aggregation>,
    /// The budget of each source and object. `None` switches the filter off.
    pub spam_filter: Option<SpamFilter>,
    #[serde(skip)]
    pub(super) functions: Functions,
    #[serde(skip)]
    pub(super) clock: Clock,
}

/// The options that say when similar events are folded into one.
#[doc(alias = "EventAggregator")]
#[doc(alias = "NewEventAggregator")]
#[doc(alias = "EventAggregate")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(
    remote = "Self",
    default,
    deny_unknown_fields,
    expecting = "options of the aggregation, as an object"
)]
#[non_exhaustive]
pub struct Aggregation {
    /// The number of different messages at which folding begins: similar events with one of the
    /// first `max_events - 1` messages stay separate events. At least 1, which folds all. Default
    /// 10.
    #[serde(alias = "MaxEvents", alias = "maxEvents")]
    pub max_events: usize,
    /// The time after the last similar event until the group is forgotten. More than zero, default
    /// 10 minutes.
    #[doc(alias = "MaxIntervalInSeconds")]
    #[serde(alias = "MaxIntervalInSeconds", alias = "maxIntervalInSeconds")]
    #[serde(with = "crate::duration")]
    pub max_interval: Duration,
    /// Whether an event that stands for a group has the labels, annotations, reporting controller
    /// and reporting instance of the latest event of the group. client-go leaves them out. Default
    /// false.
    pub keep_metadata: bool,
    /// Whether the correlator takes over, from a store's answer, the name of an event that stands
    /// for a group. client-go never learns that name, and continues with the one that it gave.
    /// Default false.
    pub keep_stored_name: bool,
    /// Whether two groups about one object get different names if they are first folded in the same
    /// nanosecond. In client-go they share one name, and the store refuses the second event.
    /// Default false.
    pub own_names: bool,
}

/// The budget for the events of one source about one object.
#[doc(alias = "EventSourceObjectSpamFilter")]
#[doc(alias = "NewEventSourceObjectSpamFilter")]
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(
    remote = "Self",
    default,
    deny_unknown_fields,
    expecting = "options of the spam filter, as an object"
)]
#[non_exhaustive]
pub struct SpamFilter {
    /// The number of events that may come at once. At least 1, default 25.
    #[doc(alias = "BurstSize")]
    #[serde(alias = "BurstSize", alias = "burstSize")]
    pub burst: u32,
    /// The number of further events per second, in the long run. More than zero, default 1/300.
    #[serde(alias = "QPS")]
    pub qps: f32,
    /// Whether events of type `Warning` always pass, and use up nothing. Default false.
    pub exempt_warnings: bool,
    /// Whether the first event that passes after others were skipped brings a summary. A summary is
    /// an event with the reason `EventsSuppressed` and a message such as `7 events suppressed`. See
    /// [`Correlation::Summarized`](super::Correlation::Summarized). Default false.
    ///
    /// Skipped events have no summary if no event of their budget passes later, or if their budget
    /// is forgotten to make room.
    pub summaries: bool,
}

object_only!(CorrelatorOptions, Aggregation, SpamFilter);

#[derive(Clone, Default)]
pub(super) struct Functions {
    pub(super) aggregate_key: Option<KeyFn>,
    pub(super) aggregate_message: Option<MessageFn>,
    pub(super) spam_key: Option<SpamKeyFn>,
}

// Every number here is a constant of client-go's `tools/record/events_cache.go`.

impl Default for CorrelatorOptions {
    fn default() -> Self {
        Self {
            lru_cache_size: 4096,
            aggregation: Some(Aggregation::default()),
            spam_filter: Some(SpamFilter::default()),
            functions: Functions::default(),
            clock: Clock::default(),
        }
    }
}

impl Default for Aggregation {
    fn default() -> Self {
        Self {
            max_events: 10,
            max_interval: Duration::from_secs(600),
            keep_metadata: false,
            keep_stored_name: false,
            own_names: false,
        }
    }
}

impl Default for SpamFilter {
    fn default() -> Self {
        Self { burst: 25, qps: 1.0 / 300.0, exempt_warnings: false, summaries: false }
    }
}

impl CorrelatorOptions {
    /// Sets the function that decides which events are similar. Its first text names the group, the
    /// second the member. By default the first text is made of everything except the message and
    /// the field path, and the second is the message.
    #[doc(alias = "EventAggregatorKeyFunc")]
    #[doc(alias = "EventAggregatorByReasonFunc")]
    #[doc(alias = "KeyFunc")]
    pub fn aggregate_key(mut self, key: impl Fn(&Event) -> (Text, Text) + Send + Sync + 'static) -> Self {
        self.functions.aggregate_key = Some(Arc::new(key));
        self
    }

    /// Sets the function that writes the message of an event that stands for a group, from the
    /// latest event of the group. The default is that event's message after
    /// `(combined from similar events): `.
    #[doc(alias = "EventAggregatorMessageFunc")]
    #[doc(alias = "EventAggregatorByReasonMessageFunc")]
    #[doc(alias = "MessageFunc")]
    pub fn aggregate_message(mut self, message: impl Fn(&Event) -> Text + Send + Sync + 'static) -> Self {
        self.functions.aggregate_message = Some(Arc::new(message));
        self
    }

    /// Sets the function that decides which events share a budget. By default these are the events
    /// with the same source, object and type.
    #[doc(alias = "EventSpamKeyFunc")]
    #[doc(alias = "SpamKeyFunc")]
    pub fn spam_key(mut self, key: impl Fn(&Event) -> Text + Send + Sync + 'static) -> Self {
        self.functions.spam_key = Some(Arc::new(key));
        self
    }

    /// Sets the clock for the interval of a group, the times of an event that stands for a group,
    /// and the budgets.
    pub fn clock(mut self, clock: Clock) -> Self {
        self.clock = clock;
        self
    }

    pub(super) fn check(&self) -> Result<(), BuildError> {
        if !(1..=MAX_ENTRIES).contains(&self.lru_cache_size) {
            return Err(BuildError::new(
                "lru_cache_size",
                self.lru_cache_size,
                format_args!("1 to {MAX_ENTRIES} entries"),
            ));
        }
        if let Some(Aggregation { max_events, max_interval, .. }) = self.aggregation {
            if max_events == 0 {
                return Err(BuildError::new("max_events", max_events, "1 or more"));
            }
            if max_interval.is_zero() {
                return Err(BuildError::new("max_interval", "0s", "more than zero"));
            }
        }
        if let Some(SpamFilter { burst, qps, .. }) = self.spam_filter {
            if burst == 0 {
                return Err(BuildError::new("burst", burst, "1 or more"));
            }
            if !(qps > 0.0 && qps.is_finite()) {
                return Err(BuildError::new("qps", qps, "finite and more than zero"));
            }
        }
        Ok(())
    }
}

impl fmt::Debug for CorrelatorOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CorrelatorOptions")
            .field("lru_cache_size", &self.lru_cache_size)
            .field("aggregation", &self.aggregation)
            .field("spam_filter", &self.spam_filter)
            .finish_non_exhaustive()
    }
}
