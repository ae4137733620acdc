//! The options of two of a correlator's stages. These options are plain data, which is validated
//! together with the correlator's options.
//!
//! Every default is taken from a constant in client-go's `tools/record/events_cache.go`.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::error::BuildError;
use crate::serde_object::object_only;

/// Options that determine when similar events are folded into one event.
///
/// # Examples
///
/// ```
/// use eventcast::correlator::{Aggregation, Correlation, EventCorrelator};
/// use eventcast::{CorrelatorOptions, Event};
///
/// // The second message is the first that is folded.
/// let options = CorrelatorOptions::default().aggregation(Aggregation::default().max_events(2));
/// let correlator = EventCorrelator::new(options)?;
/// let mut event = Event::default();
/// let messages = ["disk 1", "disk 2", "disk 3"].map(|message| {
///     event.message = message.into();
///     match correlator.correlate(&event) {
///         Correlation::Create { event, .. } | Correlation::Update { event, .. } => event.message,
///         _ => panic!("nothing is held back"),
///     }
/// });
/// assert_eq!(messages[0], "disk 1");
/// assert_eq!(messages[2], "(combined from similar events): disk 3");
/// # Ok::<(), eventcast::error::BuildError>(())
/// ```
#[must_use = "options do nothing until a correlator is built with them"]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Aggregation {
    pub(super) max_events: usize,
    #[serde(serialize_with = "crate::duration::serialize")]
    pub(super) max_interval: Duration,
}

/// The fields that `serde` reads for [`Aggregation`].
#[derive(Deserialize)]
#[serde(
    remote = "Aggregation",
    default = "Aggregation::default",
    deny_unknown_fields,
    expecting = "options of the aggregation, as an object"
)]
struct AggregationObject {
    #[serde(alias = "MaxEvents", alias = "maxEvents")]
    max_events: usize,
    #[serde(
        alias = "MaxIntervalInSeconds",
        alias = "maxIntervalInSeconds",
        deserialize_with = "crate::duration::deserialize"
    )]
    max_interval: Duration,
}

/// The budget for events of one type from one source about one object.
///
/// Events share the budget regardless of their reason, so a flood of events with one reason uses up
/// the budget for all other reasons. [`spam_key`](crate::CorrelatorOptions::spam_key) can give each
/// reason a separate budget.
///
/// With the default budget, a burst of 25 events passes, and then one event every five minutes. The
/// outcome for an event that does not pass depends on whether the store has the event:
///
/// - If the store has the event, the recording holds its count and writes it later: at a flush,
///   when the recording ends, after
///   [`refresh_every`](crate::record::RecordingBuilder::refresh_every), or with the next equal
///   event that passes. Writing a held count does not use the budget. After the write, the count
///   and the last timestamp in the store are exact, and the events count as updated.
/// - If no equal event has passed, the event is skipped, and a sink never receives the event. A
///   recording counts the event in [`skipped`](crate::stats::RecordingStats::skipped), and does not
///   report the event to `on_loss`.
///
/// You can change this behaviour in four ways:
///
/// - [`spam_filter(None)`](crate::CorrelatorOptions::spam_filter) disables the filter, so no events
///   are skipped.
/// - [`burst`](Self::burst) and [`qps`](Self::qps) make the budget larger.
/// - [`exempt_warnings`](Self::exempt_warnings) lets all warnings pass.
/// - [`on_skip`](crate::CorrelatorOptions::on_skip) reports each event that does not pass.
///
/// # Examples
///
/// ```
/// use eventcast::EventType::Warning;
/// use eventcast::{CorrelatorOptions, EventBroadcaster, MemorySink, ObjectReference};
///
/// let [limited, whole] = [MemorySink::new(), MemorySink::new()];
/// let events = EventBroadcaster::new()?;
/// let off = CorrelatorOptions::default().aggregation(None).spam_filter(None);
/// let budget = CorrelatorOptions::default().aggregation(None);
/// events.recording().correlator(budget).start(limited.clone())?;
/// events.recording().correlator(off).start(whole.clone())?;
///
/// let (recorder, job) = (events.recorder("jobs"), ObjectReference::new("Job", "backup"));
/// for file in 0..40 {
///     recorder.event(&job, Warning, "Unreadable", format_args!("file {file}"));
/// }
/// let report = events.shutdown();
/// assert_eq!((limited.len(), report.recordings[0].skipped), (25, 15));
/// assert_eq!((whole.len(), report.recordings[1].skipped), (40, 0));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use = "options do nothing until a correlator is built with them"]
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct SpamFilter {
    pub(super) burst: u32,
    pub(super) qps: f32,
    pub(super) exempt_warnings: bool,
}

/// The fields that `serde` reads for [`SpamFilter`].
#[derive(Deserialize)]
#[serde(
    remote = "SpamFilter",
    default = "SpamFilter::default",
    deny_unknown_fields,
    expecting = "options of the spam filter, as an object"
)]
struct SpamFilterObject {
    #[serde(alias = "BurstSize", alias = "burstSize")]
    burst: u32,
    #[serde(alias = "QPS")]
    qps: f32,
    exempt_warnings: bool,
}

object_only!(Aggregation, AggregationObject);
object_only!(SpamFilter, SpamFilterObject);

impl Default for Aggregation {
    fn default() -> Self {
        Self { max_events: 10, max_interval: Duration::from_secs(600) }
    }
}

impl Default for SpamFilter {
    fn default() -> Self {
        Self { burst: 25, qps: 1.0 / 300.0, exempt_warnings: false }
    }
}

impl Aggregation {
    /// Sets the number of different messages at which folding begins. Similar events with one of
    /// the first `messages - 1` messages stay separate events. The minimum is 1, which folds all
    /// events. Defaults to 10.
    pub fn max_events(mut self, messages: usize) -> Self {
        self.max_events = messages;
        self
    }

    /// Sets how long a group is kept after its most recent event. The interval must be more than
    /// zero, and defaults to 10 minutes.
    ///
    /// # Examples
    ///
    /// ```
    /// use eventcast::correlator::{Aggregation, EventCorrelator};
    /// use eventcast::testing::FakeClock;
    /// use eventcast::{CorrelatorOptions, Event};
    /// use std::time::{Duration, SystemTime};
    ///
    /// let (clock, minute) = (FakeClock::new(SystemTime::UNIX_EPOCH), Duration::from_secs(60));
    /// let aggregation = Aggregation::default().max_events(2).max_interval(minute);
    /// let options = CorrelatorOptions::default().aggregation(aggregation).clock(clock.clock());
    /// let correlator = EventCorrelator::new(options)?;
    /// let folded = ["a", "b", "c"].map(|message| {
    ///     let mut event = Event::default();
    ///     event.message = message.into();
    ///     correlator.correlate(&event);
    ///     clock.advance(if message == "b" { 2 * minute } else { minute });
    ///     correlator.stats().aggregated
    /// });
    /// assert_eq!(folded, [0, 1, 1], "the third event comes after the group was forgotten");
    /// # Ok::<(), eventcast::error::BuildError>(())
    /// ```
    #[doc(alias = "MaxIntervalInSeconds")]
    pub fn max_interval(mut self, time: Duration) -> Self {
        self.max_interval = time;
        self
    }

    pub(super) fn check(&self) -> Result<(), BuildError> {
        BuildError::require(self.max_events > 0, "max_events", 0, "1 or more")?;
        BuildError::require(!self.max_interval.is_zero(), "max_interval", "0s", "more than zero")
    }
}

impl SpamFilter {
    /// Sets the number of events that may pass in a burst. The number must be at least 1, and
    /// defaults to 25.
    #[doc(alias = "BurstSize")]
    pub fn burst(mut self, events: u32) -> Self {
        self.burst = events;
        self
    }

    /// Sets the number of additional events per second that may pass in the long run. The rate must
    /// be more than zero, and defaults to 1/300.
    pub fn qps(mut self, events: f32) -> Self {
        self.qps = events;
        self
    }

    /// Sets whether events of type `Warning` always pass without using the budget. Defaults to
    /// `false`.
    ///
    /// # Examples
    ///
    /// ```
    /// use eventcast::correlator::{Correlation, EventCorrelator, SpamFilter};
    /// use eventcast::{CorrelatorOptions, Event};
    ///
    /// let filter = SpamFilter::default().burst(1).exempt_warnings(true);
    /// let correlator = EventCorrelator::new(CorrelatorOptions::default().spam_filter(filter))?;
    /// for type_ in ["Normal", "Warning"] {
    ///     let mut event = Event::default();
    ///     event.type_ = type_.into();
    ///     correlator.correlate(&event);
    ///     let is_skipped = matches!(correlator.correlate(&event), Correlation::Skip);
    ///     assert_eq!(is_skipped, type_ == "Normal");
    /// }
    /// # Ok::<(), eventcast::error::BuildError>(())
    /// ```
    pub fn exempt_warnings(mut self, exempt: bool) -> Self {
        self.exempt_warnings = exempt;
        self
    }

    pub(super) fn check(&self) -> Result<(), BuildError> {
        BuildError::require(self.burst > 0, "burst", 0, "1 or more")?;
        let is_rate = self.qps > 0.0 && self.qps.is_finite();
        BuildError::require(is_rate, "qps", self.qps, "finite and more than zero")
    }
}
