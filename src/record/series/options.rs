//! Defines the options for series as plain data.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::error::BuildError;
use crate::record::sink::WriteOrder;
use crate::serde_object::object_only;

/// The shortest duration that the options accept.
const SHORTEST: Duration = Duration::from_millis(1);

/// The largest `cache_size` that the options accept.
const MAX_SERIES: usize = 1 << 24;

/// Options for the series in which a recording counts repeated events that have an event time.
///
/// The first event of a series is stored as a new event. Later equal events are counted in the
/// stored event's `series`, which holds the number of times the event was seen and the time when
/// the event was last seen. Two events are considered equal if they have the same type, reason,
/// action, reporter, object and related object. Unless [`message_in_key`](Self::message_in_key) is
/// set, the messages of equal events may differ, and the stored event keeps the first message.
///
/// The options can be read from a configuration file, with the setters' names as keys. A duration
/// is a string such as `6m`, or a number of seconds. If a key is missing, the option's default is
/// used. An unknown key causes an error. If a value is out of range, starting the recording returns
/// an error that names the option.
///
/// # Examples
///
/// ```
/// use eventcast::record::{SeriesOptions, SeriesUpdate};
/// use std::time::Duration;
///
/// let options = SeriesOptions::default().update(SeriesUpdate::Every(Duration::from_secs(10)));
/// let read: SeriesOptions = serde_json::from_str(r#"{"update": {"every": "10s"}}"#)?;
/// assert_eq!(read, options);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[must_use = "options do nothing until a recording has them"]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct SeriesOptions {
    #[serde(serialize_with = "crate::duration::serialize")]
    pub(super) finish_after: Duration,
    #[serde(serialize_with = "crate::duration::serialize")]
    pub(super) refresh_every: Duration,
    pub(super) update: SeriesUpdate,
    pub(super) cache_size: usize,
    pub(super) message_in_key: bool,
}

/// The fields that `serde` reads for [`SeriesOptions`].
#[derive(Deserialize)]
#[serde(
    remote = "SeriesOptions",
    default = "SeriesOptions::default",
    deny_unknown_fields,
    expecting = "options of series, as an object"
)]
struct SeriesOptionsObject {
    #[serde(deserialize_with = "crate::duration::deserialize")]
    finish_after: Duration,
    #[serde(deserialize_with = "crate::duration::deserialize")]
    refresh_every: Duration,
    update: SeriesUpdate,
    cache_size: usize,
    message_in_key: bool,
}

object_only!(SeriesOptions, SeriesOptionsObject);

/// Selects which repeats are written immediately. All other repeats are counted, and the count is
/// included in a later write.
///
/// If the store refuses a write or the write runs out of attempts, the selection does not change.
/// The next write still happens at its regular time, and includes the count of all events.
///
/// # Examples
///
/// ```
/// use eventcast::record::SeriesUpdate;
///
/// let read: SeriesUpdate = serde_json::from_str(r#""always""#)?;
/// assert_eq!(read, SeriesUpdate::Always);
/// assert_eq!(SeriesUpdate::default(), SeriesUpdate::AsClientGo);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum SeriesUpdate {
    /// Only the first repeat is written immediately, as in client-go. If the first event is not
    /// stored yet, the first event and its repeat are stored in one write. Later repeats are
    /// written when the series is refreshed or ends.
    #[default]
    AsClientGo,
    /// The first repeat is written immediately. After that, each series is written at most once per
    /// interval, which must be 1 ms or more. The latest count is written when the interval has
    /// elapsed.
    Every(#[serde(with = "crate::duration")] Duration),
    /// Every repeat is written immediately. If the sink is slow, several repeats are combined into
    /// one write.
    Always,
}

impl Default for SeriesOptions {
    fn default() -> Self {
        // The first two values are client-go's `finishTime` and `refreshTime`. client-go's cache is
        // unbounded, whereas this cache has the same size as the correlator's caches.
        Self {
            finish_after: Duration::from_secs(6 * 60),
            refresh_every: Duration::from_secs(30 * 60),
            update: SeriesUpdate::AsClientGo,
            cache_size: 4096,
            message_in_key: false,
        }
    }
}

impl SeriesOptions {
    /// Sets the time after which a series ends if no further event of the series is seen. When the
    /// series ends, its last count is written. A later event begins a new series. The time must be
    /// 1 ms or more. Defaults to 6 minutes.
    pub fn finish_after(mut self, silence: Duration) -> Self {
        self.finish_after = silence;
        self
    }

    /// Sets how long after its last write a series is written again, if it has been seen since
    /// then. Refreshing a series keeps the count in the store current, and prevents a store with a
    /// time to live from expiring the event. If the store's time to live
    /// ([`EventSink::ttl`](crate::EventSink::ttl)) is less than twice this time, a series is
    /// written after half of the time to live. The time must be 1 ms or more. Defaults to 30
    /// minutes.
    pub fn refresh_every(mut self, time: Duration) -> Self {
        self.refresh_every = time;
        self
    }

    /// Sets which repeats are written immediately. Defaults to [`SeriesUpdate::AsClientGo`].
    pub fn update(mut self, update: SeriesUpdate) -> Self {
        self.update = update;
        self
    }

    /// Sets the maximum number of series that the recording keeps. If this number is exceeded, the
    /// least recently seen series ends, and its last count is written. The number must be from 1 to
    /// 16,777,216. Defaults to 4096.
    pub fn cache_size(mut self, series: usize) -> Self {
        self.cache_size = series;
        self
    }

    /// Sets whether events with different messages belong to different series. Defaults to `false`,
    /// as in client-go.
    pub fn message_in_key(mut self, in_key: bool) -> Self {
        self.message_in_key = in_key;
        self
    }

    /// Returns the default options for a recording with this write order.
    pub(crate) fn of(order: WriteOrder) -> Self {
        match order {
            WriteOrder::Bus => Self::default().update(SeriesUpdate::Always),
            _ => Self::default(),
        }
    }

    /// Adjusts the options for a store that keeps an event for `ttl` after the event's last write.
    pub(crate) fn within(mut self, ttl: Option<Duration>) -> Self {
        let half = ttl.map_or(Duration::MAX, |ttl| (ttl / 2).max(SHORTEST));
        self.refresh_every = self.refresh_every.min(half);
        self
    }

    pub(crate) fn check(&self) -> Result<(), BuildError> {
        let mut times = vec![("finish_after", self.finish_after), ("refresh_every", self.refresh_every)];
        if let SeriesUpdate::Every(time) = self.update {
            times.push(("update", time));
        }
        for (name, time) in times {
            let (value, allowed) = (format!("{time:?}"), format!("{SHORTEST:?} or more"));
            BuildError::require(time >= SHORTEST, name, value, allowed)?;
        }
        let (size, allowed) = (self.cache_size, format!("1 to {MAX_SERIES} series"));
        BuildError::require((1..=MAX_SERIES).contains(&size), "cache_size", size, allowed)
    }
}
