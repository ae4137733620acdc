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

/// The most entries that a cache can be asked to hold.
const MAX_ENTRIES: usize = 1 << 24;

/// Options of an [`EventCorrelator`](super::EventCorrelator). The defaults are client-go's.
///
/// In configuration files the keys are the fields' names; client-go's names are understood as well, an interval is text
/// such as `10m` or a number of seconds, `null` switches a stage off, and an unknown key is an error.
///
/// # Examples
///
/// ```
/// use eventcast::{CorrelatorOptions, EventCorrelator};
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
    /// How many entries each of the three caches holds: groups of similar events, events, and budgets. 1 to 16,777,216,
    /// default 4096.
    #[serde(alias = "LRUCacheSize", alias = "lruCacheSize")]
    pub lru_cache_size: usize,
    /// Folding of similar events into one; `None` switches it off.
    pub aggregation: Option<Aggregation>,
    /// The budget of each source and object; `None` switches it off.
    pub spam_filter: Option<SpamFilter>,
    #[serde(skip)]
    pub(super) functions: Functions,
    #[serde(skip)]
    pub(super) clock: Clock,
}

/// When similar events are folded into one.
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
    /// How many messages of similar events it takes: the events before that stay events of their own. At least 1, which
    /// folds all; default 10.
    #[serde(alias = "MaxEvents", alias = "maxEvents")]
    pub max_events: usize,
    /// How long after the last similar event the group is forgotten. More than zero, default 10 minutes.
    #[doc(alias = "MaxIntervalInSeconds")]
    #[serde(alias = "MaxIntervalInSeconds", alias = "maxIntervalInSeconds")]
    #[serde(with = "crate::duration")]
    pub max_interval: Duration,
    /// Whether an event that stands for a group has labels, annotations, reporting controller and reporting instance of
    /// the latest of them. client-go leaves them out; default false.
    pub keep_metadata: bool,
    /// Whether the name under which a store has an event that stands for a group is taken over from its answer. client-go
    /// never hears of it, and goes on with the name that it gave; default false.
    pub keep_stored_name: bool,
    /// Whether two groups about one object that are first folded in the same nanosecond get names of their own. With
    /// client-go they share one, and the store refuses the second; default false.
    pub own_names: bool,
}

/// How many events of one source about one object are let through.
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
    /// How many at once. At least 1, default 25.
    #[doc(alias = "BurstSize")]
    #[serde(alias = "BurstSize", alias = "burstSize")]
    pub burst: u32,
    /// How many more each second, in the long run. More than zero, default 1/300.
    #[serde(alias = "QPS")]
    pub qps: f32,
    /// Whether events of type `Warning` always pass, and use nothing up. Default false.
    pub exempt_warnings: bool,
    /// Whether the first event that passes after others were skipped brings a summary, an event with the reason
    /// `EventsSuppressed` and a message such as `7 events suppressed`: see
    /// [`Correlation::Summarized`](super::Correlation::Summarized). Default false.
    ///
    /// Events that are skipped and never followed by one that passes, or whose budget is forgotten to make room, have no
    /// summary.
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
    /// Decides which events are similar: the first text names the group, the second the member. The default is
    /// everything but the message (and the field path), and the message.
    #[doc(alias = "EventAggregatorKeyFunc")]
    #[doc(alias = "EventAggregatorByReasonFunc")]
    #[doc(alias = "KeyFunc")]
    pub fn aggregate_key(mut self, key: impl Fn(&Event) -> (Text, Text) + Send + Sync + 'static) -> Self {
        self.functions.aggregate_key = Some(Arc::new(key));
        self
    }

    /// Writes the message of an event that stands for a group, from the latest of them. The default is its message after
    /// `(combined from similar events): `.
    #[doc(alias = "EventAggregatorMessageFunc")]
    #[doc(alias = "EventAggregatorByReasonMessageFunc")]
    #[doc(alias = "MessageFunc")]
    pub fn aggregate_message(mut self, message: impl Fn(&Event) -> Text + Send + Sync + 'static) -> Self {
        self.functions.aggregate_message = Some(Arc::new(message));
        self
    }

    /// Decides which events share a budget. The default is source, object and type.
    #[doc(alias = "EventSpamKeyFunc")]
    #[doc(alias = "SpamKeyFunc")]
    pub fn spam_key(mut self, key: impl Fn(&Event) -> Text + Send + Sync + 'static) -> Self {
        self.functions.spam_key = Some(Arc::new(key));
        self
    }

    /// The clock for the interval of a group, the times of an event that stands for one, and the budgets.
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
                return Err(BuildError::new(
                    "max_events",
                    max_events,
                    "1 or more; None switches aggregation off",
                ));
            }
            if max_interval.is_zero() {
                return Err(BuildError::new("max_interval", "0s", "more than zero"));
            }
        }
        if let Some(SpamFilter { burst, qps, .. }) = self.spam_filter {
            if burst == 0 {
                return Err(BuildError::new("burst", burst, "1 or more; None switches the filter off"));
            }
            if !(qps > 0.0 && qps.is_finite()) {
                return Err(BuildError::new("qps", qps, "more than zero; None switches the filter off"));
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
