//! A correlator's options, which are plain data and four functions.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::clock::Clock;
use crate::error::BuildError;
use crate::record::event::{Event, Text};
use crate::serde_object::object_only;
use crate::sync::Arc;

use super::stage_options::{Aggregation, SpamFilter};

pub(super) type KeyFn = Arc<dyn Fn(&Event) -> (Text, Text) + Send + Sync>;
pub(super) type MessageFn = Arc<dyn Fn(&Event) -> Text + Send + Sync>;
pub(super) type SpamKeyFn = Arc<dyn Fn(&Event) -> Text + Send + Sync>;
pub(super) type SkipFn = Arc<dyn Fn(&Event) + Send + Sync>;

/// The maximum cache size, in entries, that the options accept.
const MAX_ENTRIES: usize = 1 << 24;

/// Options for an [`EventCorrelator`](super::EventCorrelator). The defaults are client-go's.
///
/// The options can be read from a configuration file, in which the keys are the names of the
/// setters. client-go's names are accepted as well. An interval is a string such as `10m`, or a
/// number of seconds. `null` disables a stage. If a key is missing, its option takes the default
/// value. An unknown key is an error. If a value is out of range, building a correlator or a
/// broadcaster, or starting a recording, fails with an error that names the option.
///
/// # Examples
///
/// ```
/// use eventcast::correlator::{Aggregation, EventCorrelator, SpamFilter};
/// use eventcast::CorrelatorOptions;
/// use std::time::Duration;
///
/// let options = CorrelatorOptions::default()
///     .cache_size(10_000)
///     .aggregation(Aggregation::default().max_events(3).max_interval(Duration::from_secs(90)))
///     .spam_filter(SpamFilter::default().burst(50));
/// assert!(EventCorrelator::new(options).is_ok());
///
/// let options: CorrelatorOptions =
///     serde_json::from_str(r#"{"aggregation": {"max_events": 3, "max_interval": "90s"}, "spam_filter": null}"#)?;
/// let written = serde_json::to_value(&options)?;
/// assert_eq!(written["aggregation"]["max_interval"], "1m30s");
/// assert!(written["spam_filter"].is_null());
///
/// let error = EventCorrelator::new(CorrelatorOptions::default().cache_size(0)).unwrap_err();
/// assert_eq!(error.to_string(), "cache_size must be 1 to 16777216 entries, got 0");
/// # Ok::<(), serde_json::Error>(())
/// ```
#[must_use = "options do nothing until a correlator is built with them"]
#[derive(Clone, Serialize)]
pub struct CorrelatorOptions {
    pub(crate) cache_size: usize,
    pub(super) aggregation: Option<Aggregation>,
    pub(super) spam_filter: Option<SpamFilter>,
    #[serde(skip)]
    pub(super) functions: Functions,
    #[serde(skip)]
    pub(super) clock: Clock,
}

/// The fields that `serde` reads for [`CorrelatorOptions`].
#[derive(Deserialize)]
#[serde(
    remote = "CorrelatorOptions",
    default = "CorrelatorOptions::default",
    deny_unknown_fields,
    expecting = "a correlator's options, as an object"
)]
struct CorrelatorOptionsObject {
    #[serde(alias = "LRUCacheSize", alias = "lruCacheSize")]
    cache_size: usize,
    aggregation: Option<Aggregation>,
    spam_filter: Option<SpamFilter>,
    #[serde(skip)]
    functions: Functions,
    #[serde(skip)]
    clock: Clock,
}

object_only!(CorrelatorOptions, CorrelatorOptionsObject);

#[derive(Clone, Default)]
pub(super) struct Functions {
    pub(super) aggregate_key: Option<KeyFn>,
    pub(super) aggregate_message: Option<MessageFn>,
    pub(super) spam_key: Option<SpamKeyFn>,
    pub(super) on_skip: Option<SkipFn>,
}

impl Default for CorrelatorOptions {
    fn default() -> Self {
        Self {
            // A constant of client-go's `tools/record/events_cache.go`.
            cache_size: 4096,
            aggregation: Some(Aggregation::default()),
            spam_filter: Some(SpamFilter::default()),
            functions: Functions::default(),
            clock: Clock::default(),
        }
    }
}

impl CorrelatorOptions {
    /// Returns options for a correlator that neither folds similar events nor skips any events.
    /// [`aggregation`](Self::aggregation) and [`spam_filter`](Self::spam_filter) are `None`.
    ///
    /// Events are still counted. An event with the same source, object (ignoring its resource
    /// version), type, reason and message as an earlier event is not stored again. Instead, the
    /// event updates the stored event, which keeps its name and first timestamp. The stored event's
    /// count is incremented. The correlator keeps [`cache_size`](Self::cache_size) events for this
    /// purpose. If the correlator has evicted an event, the next occurrence of the event is stored
    /// as a new event with its own name.
    ///
    /// # Examples
    ///
    /// ```
    /// use eventcast::correlator::{Correlation, EventCorrelator};
    /// use eventcast::{CorrelatorOptions, Event};
    ///
    /// let correlator = EventCorrelator::new(CorrelatorOptions::off())?;
    /// let mut event = Event::default();
    /// event.count = 1;
    /// for number in 0..100 {
    ///     event.message = format!("message {number}").into();
    ///     assert!(matches!(correlator.correlate(&event), Correlation::Create { .. }));
    /// }
    /// let Correlation::Update { event, .. } = correlator.correlate(&event) else { panic!() };
    /// assert_eq!(event.count, 2);
    /// # Ok::<(), eventcast::error::BuildError>(())
    /// ```
    pub fn off() -> Self {
        Self { aggregation: None, spam_filter: None, ..Self::default() }
    }

    /// Sets the maximum number of entries in each of the three caches, which hold groups of similar
    /// events, events, and budgets. The number defaults to 4096, and must be between 1 and
    /// 16,777,216. A full cache evicts its least recently used entry.
    /// [`EventCorrelator`](super::EventCorrelator) documents when the eviction order is
    /// approximate.
    ///
    /// # Examples
    ///
    /// ```
    /// use eventcast::correlator::{Correlation, EventCorrelator};
    /// use eventcast::{CorrelatorOptions, Event};
    ///
    /// let correlator = EventCorrelator::new(CorrelatorOptions::off().cache_size(2))?;
    /// let mut event = Event::default();
    /// event.count = 1;
    /// for message in ["a", "b", "c", "a"] {
    ///     event.message = message.into();
    ///     assert!(matches!(correlator.correlate(&event), Correlation::Create { .. }));
    /// }
    /// assert_eq!(correlator.stats().evicted, 2);
    /// # Ok::<(), eventcast::error::BuildError>(())
    /// ```
    #[doc(alias = "LRUCacheSize")]
    pub fn cache_size(mut self, entries: usize) -> Self {
        self.cache_size = entries;
        self
    }

    /// Sets when similar events are folded into one event. `None` disables folding.
    ///
    /// # Examples
    ///
    /// ```
    /// use eventcast::correlator::Aggregation;
    /// use eventcast::CorrelatorOptions;
    ///
    /// let options = CorrelatorOptions::default().aggregation(Aggregation::default().max_events(3));
    /// assert!(format!("{options:?}").contains("max_events: 3"));
    /// let options = options.aggregation(None);
    /// assert!(format!("{options:?}").contains("aggregation: None"));
    /// ```
    pub fn aggregation(mut self, aggregation: impl Into<Option<Aggregation>>) -> Self {
        self.aggregation = aggregation.into();
        self
    }

    /// Sets the budget for each combination of source, object and type. `None` disables the filter.
    ///
    /// # Examples
    ///
    /// ```
    /// use eventcast::correlator::{Correlation, EventCorrelator, SpamFilter};
    /// use eventcast::{CorrelatorOptions, Event};
    ///
    /// for (filter, is_limited) in [(Some(SpamFilter::default().burst(1)), true), (None, false)] {
    ///     let correlator = EventCorrelator::new(CorrelatorOptions::default().spam_filter(filter))?;
    ///     let is_skipped = || matches!(correlator.correlate(&Event::default()), Correlation::Skip);
    ///     assert_eq!([is_skipped(), is_skipped()], [false, is_limited]);
    /// }
    /// # Ok::<(), eventcast::error::BuildError>(())
    /// ```
    pub fn spam_filter(mut self, filter: impl Into<Option<SpamFilter>>) -> Self {
        self.spam_filter = filter.into();
        self
    }

    /// Sets a hook that is called for every event that the spam filter skips or holds. By default,
    /// no hook is set.
    ///
    /// The hook receives the event as it was passed to the correlator. The hook runs on the thread
    /// that correlates the event. The thread does not hold any of the library's locks during the
    /// call to the hook. If the options belong to a recording, the hook runs on the recording's own
    /// thread. The hook must be fast, and must not wait for its own broadcaster. If the hook itself
    /// records an event, that event may be skipped too, and the hook is then called for that event
    /// as well. If the hook panics, the panic is caught and the event is still skipped or held. A
    /// recording counts the panic in [`panics`](crate::stats::RecordingStats::panics).
    ///
    /// # Examples
    ///
    /// ```
    /// use eventcast::EventType::Warning;
    /// use eventcast::{CorrelatorOptions, EventBroadcaster, MemorySink, ObjectReference};
    /// use std::sync::{Arc, Mutex};
    ///
    /// let skipped = Arc::new(Mutex::new(Vec::new()));
    /// let noted = skipped.clone();
    /// let options = CorrelatorOptions::default().on_skip(move |event| {
    ///     noted.lock().unwrap().push(event.message.to_string());
    /// });
    /// let events = EventBroadcaster::builder().correlator(options).build()?;
    /// events.record_to(MemorySink::new())?;
    ///
    /// let (recorder, job) = (events.recorder("jobs"), ObjectReference::new("Job", "backup"));
    /// for file in 1..=27 {
    ///     recorder.event(&job, Warning, "Unreadable", format_args!("file {file}"));
    /// }
    /// events.shutdown();
    /// assert_eq!(*skipped.lock().unwrap(), ["file 26", "file 27"]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn on_skip(mut self, hook: impl Fn(&Event) + Send + Sync + 'static) -> Self {
        self.functions.on_skip = Some(Arc::new(hook));
        self
    }

    /// Sets the function that decides which events are similar. The first string that the function
    /// returns identifies the group, and the second string identifies the member within the group.
    /// By default, the first string is derived from everything except the message and the field
    /// path, and the second string is the message.
    ///
    /// # Examples
    ///
    /// ```
    /// use eventcast::correlator::{Aggregation, EventCorrelator};
    /// use eventcast::{CorrelatorOptions, Event, ObjectReference};
    ///
    /// // Events with the same reason are similar, whatever they are about.
    /// let options = CorrelatorOptions::default()
    ///     .aggregation(Aggregation::default().max_events(2))
    ///     .aggregate_key(|event| (event.reason.clone(), event.involved_object.name.clone()));
    /// let correlator = EventCorrelator::new(options)?;
    /// for name in ["web-0", "web-1", "web-2"] {
    ///     let mut event = Event::default();
    ///     event.involved_object = ObjectReference::new("Pod", name);
    ///     correlator.correlate(&event);
    /// }
    /// assert_eq!(correlator.stats().aggregated, 2);
    /// # Ok::<(), eventcast::error::BuildError>(())
    /// ```
    #[doc(alias = "EventAggregatorKeyFunc")]
    #[doc(alias = "EventAggregatorByReasonFunc")]
    #[doc(alias = "KeyFunc")]
    pub fn aggregate_key(mut self, key: impl Fn(&Event) -> (Text, Text) + Send + Sync + 'static) -> Self {
        self.functions.aggregate_key = Some(Arc::new(key));
        self
    }

    /// Sets the function that generates an aggregate event's message from the latest event in the
    /// group. By default, the aggregate event's message is the latest event's message with the
    /// prefix `(combined from similar events): `.
    ///
    /// # Examples
    ///
    /// ```
    /// use eventcast::correlator::{Aggregation, Correlation, EventCorrelator};
    /// use eventcast::{CorrelatorOptions, Event};
    ///
    /// let options = CorrelatorOptions::default()
    ///     .aggregation(Aggregation::default().max_events(1))
    ///     .aggregate_message(|latest| format!("many, the latest: {}", latest.message).into());
    /// let mut event = Event::default();
    /// event.message = "disk 3".into();
    /// let decision = EventCorrelator::new(options)?.correlate(&event);
    /// let Correlation::Create { event: folded, .. } = decision else { panic!() };
    /// assert_eq!(folded.message, "many, the latest: disk 3");
    /// # Ok::<(), eventcast::error::BuildError>(())
    /// ```
    #[doc(alias = "EventAggregatorMessageFunc")]
    #[doc(alias = "EventAggregatorByReasonMessageFunc")]
    #[doc(alias = "MessageFunc")]
    pub fn aggregate_message(mut self, message: impl Fn(&Event) -> Text + Send + Sync + 'static) -> Self {
        self.functions.aggregate_message = Some(Arc::new(message));
        self
    }

    /// Sets the function that decides which events share a budget. By default, events with the same
    /// source, object and type share a budget.
    ///
    /// # Examples
    ///
    /// ```
    /// use eventcast::correlator::{Correlation, EventCorrelator, SpamFilter};
    /// use eventcast::{CorrelatorOptions, Event};
    ///
    /// // Each reason has its own budget.
    /// let options = CorrelatorOptions::default()
    ///     .spam_filter(SpamFilter::default().burst(1))
    ///     .spam_key(|event| event.reason.clone());
    /// let correlator = EventCorrelator::new(options)?;
    /// let is_skipped = ["Pulled", "Started", "Started"].map(|reason| {
    ///     let mut event = Event::default();
    ///     event.reason = reason.into();
    ///     matches!(correlator.correlate(&event), Correlation::Skip)
    /// });
    /// assert_eq!(is_skipped, [false, false, true]);
    /// # Ok::<(), eventcast::error::BuildError>(())
    /// ```
    #[doc(alias = "EventSpamKeyFunc")]
    #[doc(alias = "SpamKeyFunc")]
    pub fn spam_key(mut self, key: impl Fn(&Event) -> Text + Send + Sync + 'static) -> Self {
        self.functions.spam_key = Some(Arc::new(key));
        self
    }

    /// Sets the clock that is used for group intervals, for the timestamps of aggregate events, and
    /// for budgets.
    ///
    /// # Examples
    ///
    /// ```
    /// use eventcast::correlator::{Correlation, EventCorrelator, SpamFilter};
    /// use eventcast::testing::FakeClock;
    /// use eventcast::{CorrelatorOptions, Event};
    /// use std::time::{Duration, SystemTime};
    ///
    /// let clock = FakeClock::new(SystemTime::UNIX_EPOCH);
    /// let one_a_second = SpamFilter::default().burst(1).qps(1.0);
    /// let options = CorrelatorOptions::default().spam_filter(one_a_second).clock(clock.clock());
    /// let correlator = EventCorrelator::new(options)?;
    /// let is_skipped = || matches!(correlator.correlate(&Event::default()), Correlation::Skip);
    /// assert_eq!([is_skipped(), is_skipped()], [false, true]);
    /// clock.advance(Duration::from_secs(1));
    /// assert_eq!([is_skipped(), is_skipped()], [false, true]);
    /// # Ok::<(), eventcast::error::BuildError>(())
    /// ```
    pub fn clock(mut self, clock: Clock) -> Self {
        self.clock = clock;
        self
    }

    pub(super) fn check(&self) -> Result<(), BuildError> {
        let (size, allowed) = (self.cache_size, format!("1 to {MAX_ENTRIES} entries"));
        BuildError::require((1..=MAX_ENTRIES).contains(&size), "cache_size", size, allowed)?;
        self.aggregation.as_ref().map_or(Ok(()), Aggregation::check)?;
        self.spam_filter.as_ref().map_or(Ok(()), SpamFilter::check)
    }
}

impl fmt::Debug for CorrelatorOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CorrelatorOptions")
            .field("cache_size", &self.cache_size)
            .field("aggregation", &self.aggregation)
            .field("spam_filter", &self.spam_filter)
            .finish_non_exhaustive()
    }
}
