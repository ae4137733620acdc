//! The options of `Topics`.

use crate::bus::BusOptions;
use crate::error::BuildError;
#[cfg(feature = "serde")]
use crate::serde_object::object_only;

/// The default value of [`max_topics`](TopicsOptions::max_topics).
const MAX_TOPICS: usize = 100_000;

/// The options of [`Topics`](super::Topics).
///
/// # Examples
///
/// ```
/// use eventcast::topics::{Topics, TopicsOptions};
/// use eventcast::{BusOptions, OverflowPolicy};
///
/// let bus = BusOptions::default().queue_capacity(16).overflow(OverflowPolicy::DropOldest);
/// let topics = Topics::<String, u8>::with_options(TopicsOptions::default().max_topics(1000).bus(bus))?;
/// assert!(Topics::<String, u8>::with_options(TopicsOptions::default().max_topics(0)).is_err());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[cfg_attr(
    feature = "serde",
    doc = r##"The options can be read from a configuration file, with the setters' names as keys:

```
use eventcast::topics::TopicsOptions;

let options: TopicsOptions = serde_json::from_str(r#"{"max_topics": 5, "bus": {"history": 10}}"#)?;
assert_eq!(serde_json::to_value(&options)?["bus"]["history"], 10);
# Ok::<(), serde_json::Error>(())
```"##
)]
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[must_use = "options do nothing until they are passed to `Topics::with_options`"]
pub struct TopicsOptions {
    pub(super) max_topics: usize,
    pub(super) bus: BusOptions,
}

/// Mirrors the fields of `TopicsOptions` for deserialization.
#[cfg(feature = "serde")]
#[derive(serde::Deserialize)]
#[serde(
    remote = "TopicsOptions",
    default = "TopicsOptions::default",
    deny_unknown_fields,
    expecting = "the options of topics, as an object"
)]
struct TopicsOptionsObject {
    max_topics: usize,
    bus: BusOptions,
}

#[cfg(feature = "serde")]
object_only!(TopicsOptions, TopicsOptionsObject);

impl Default for TopicsOptions {
    fn default() -> Self {
        Self { max_topics: MAX_TOPICS, bus: BusOptions::default() }
    }
}

impl TopicsOptions {
    /// Sets the maximum number of topics that may exist at the same time, which must be at least 1.
    /// Defaults to 100,000. The limit bounds memory use if keys originate outside the program.
    ///
    /// If a topic is watched only by readers created by
    /// [`watch_matching`](super::Topics::watch_matching), the topic counts towards the limit until
    /// these readers have received everything that is queued. If a program does not receive from
    /// such a reader, the reader's topics can therefore exhaust the limit.
    ///
    /// # Examples
    ///
    /// ```
    /// use eventcast::topics::{Topics, TopicsOptions};
    ///
    /// let topics = Topics::<u32, u8>::with_options(TopicsOptions::default().max_topics(1))?;
    /// let watcher = topics.watch(&1)?;
    /// let error = topics.watch(&2).unwrap_err();
    /// assert_eq!(error.to_string(), "the limit of 1 topics is reached: raise max_topics, drop watchers, or read what is queued for a pattern");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn max_topics(mut self, topics: usize) -> Self {
        self.max_topics = topics;
        self
    }

    /// Sets the options of each topic's bus, which provide the defaults for its watchers. The bus
    /// is inline even if these options do not set `inline`.
    ///
    /// # Examples
    ///
    /// ```
    /// use eventcast::BusOptions;
    /// use eventcast::topics::{Topics, TopicsOptions};
    ///
    /// let options = TopicsOptions::default().bus(BusOptions::default().queue_capacity(1));
    /// let topics = Topics::with_options(options)?;
    /// let watcher = topics.watch(&"a")?;
    /// topics.publish_batch(&"a", [1, 2])?;
    /// assert_eq!((watcher.len(), watcher.stats().dropped.incoming), (1, 1));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn bus(mut self, options: BusOptions) -> Self {
        self.bus = options;
        self
    }

    /// Validates the options, and makes the buses inline.
    pub(super) fn checked(mut self) -> Result<Self, BuildError> {
        BuildError::require(self.max_topics > 0, "max_topics", 0, "at least 1")?;
        self.bus = self.bus.inline(true);
        self.bus.check()?;
        Ok(self)
    }
}
