//! Watcher options that are plain data.

use crate::bus::policy::OverflowPolicy;
#[cfg(feature = "serde")]
use crate::serde_object::object_only;

/// Options for a watcher that are plain data, and can be read from a configuration file or shared
/// by several watchers. Pass them to [`WatchBuilder::options`](crate::WatchBuilder::options). If an
/// option is not set, the builder's value does not change. The builder starts with the bus's
/// options. Filters, hooks, a prefix and a start in the past can be set only on the builder.
///
/// # Examples
///
/// ```
/// use eventcast::{Broadcaster, BusOptions, OverflowPolicy, WatchOptions};
///
/// let bus = Broadcaster::<u8>::with_options(BusOptions::default().overflow(OverflowPolicy::Wait))?;
/// let view = WatchOptions::default().name("view").queue_capacity(64);
/// let watcher = bus.watch_builder().options(view).watch()?;
/// assert_eq!((watcher.stats().name.as_str(), watcher.stats().policy), ("view", Some(OverflowPolicy::Wait)));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
#[cfg_attr(
    feature = "serde",
    doc = r##"The options can be read from a configuration file, with the setters' names as keys. Unknown keys
cause an error. If a value is out of range, such as a queue capacity of zero, building the watcher
returns an error that names the option:

```
use eventcast::{Broadcaster, WatchOptions};

let bus = Broadcaster::<u8>::new()?;
let read = |json: &str| serde_json::from_str::<WatchOptions>(json);
let options = read(r#"{"queue_capacity": 64, "overflow": {"wait_for": "50ms"}}"#)?;
assert!(bus.watch_builder().options(options).watch().is_ok());

assert!(read(r#"{"queue": 64}"#).is_err());
let error = bus.watch_builder().options(read(r#"{"queue_capacity": 0}"#)?).watch().unwrap_err();
assert_eq!(error.to_string(), "queue_capacity must be 1 to 16777216 events, got 0");
# Ok::<(), Box<dyn std::error::Error>>(())
```"##
)]
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[must_use = "options do nothing until a watcher is built with them"]
pub struct WatchOptions {
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "Option::is_none"))]
    pub(crate) name: Option<String>,
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "Option::is_none"))]
    pub(crate) queue_capacity: Option<usize>,
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "Option::is_none"))]
    pub(crate) overflow: Option<OverflowPolicy>,
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "Option::is_none"))]
    pub(crate) stop_on_panic: Option<bool>,
}

/// The form of [`WatchOptions`] that `serde` deserialises.
#[cfg(feature = "serde")]
#[derive(serde::Deserialize)]
#[serde(
    remote = "WatchOptions",
    default = "WatchOptions::default",
    deny_unknown_fields,
    expecting = "a watcher's options, as an object"
)]
struct WatchOptionsObject {
    name: Option<String>,
    queue_capacity: Option<usize>,
    overflow: Option<OverflowPolicy>,
    stop_on_panic: Option<bool>,
}

#[cfg(feature = "serde")]
object_only!(WatchOptions, WatchOptionsObject);

impl WatchOptions {
    /// Sets the watcher's name. See [`WatchBuilder::name`](crate::WatchBuilder::name).
    ///
    /// # Examples
    ///
    /// ```
    /// use eventcast::{Broadcaster, WatchOptions};
    ///
    /// let bus = Broadcaster::<u8>::new()?;
    /// let watcher = bus.watch_builder().options(WatchOptions::default().name("view")).watch()?;
    /// assert_eq!(watcher.stats().name, "view");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn name(mut self, name: &str) -> Self {
        self.name = Some(name.to_owned());
        self
    }

    /// Sets the capacity of the watcher's queue. See
    /// [`WatchBuilder::queue_capacity`](crate::WatchBuilder::queue_capacity).
    ///
    /// # Examples
    ///
    /// ```
    /// use eventcast::{Broadcaster, WatchOptions};
    ///
    /// let bus = Broadcaster::new()?;
    /// let watcher = bus.watch_builder().options(WatchOptions::default().queue_capacity(2)).watch()?;
    /// bus.publisher().publish_batch([1, 2, 3])?;
    /// bus.shutdown();
    /// assert_eq!(watcher.len(), 2);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn queue_capacity(mut self, events: usize) -> Self {
        self.queue_capacity = Some(events);
        self
    }

    /// Sets the watcher's overflow policy. See
    /// [`WatchBuilder::overflow`](crate::WatchBuilder::overflow).
    ///
    /// # Examples
    ///
    /// ```
    /// use eventcast::{Broadcaster, OverflowPolicy, WatchOptions};
    ///
    /// let bus = Broadcaster::<u8>::new()?;
    /// let options = WatchOptions::default().overflow(OverflowPolicy::Wait);
    /// assert_eq!(bus.watch_builder().options(options).watch()?.stats().policy, Some(OverflowPolicy::Wait));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn overflow(mut self, policy: OverflowPolicy) -> Self {
        self.overflow = Some(policy);
        self
    }

    /// Sets whether a panic in the handler ends the handler's watcher. See
    /// [`WatchBuilder::stop_on_panic`](crate::WatchBuilder::stop_on_panic).
    ///
    /// # Examples
    ///
    /// ```
    /// use eventcast::{Broadcaster, WatchOptions};
    /// use std::time::Duration;
    ///
    /// let bus = Broadcaster::new()?;
    /// let options = WatchOptions::default().stop_on_panic(true);
    /// let handle = bus.watch_builder().options(options).spawn(|_| panic!("at once"))?;
    /// bus.publisher().publish(1)?;
    /// assert!(handle.join(Duration::from_secs(10)));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn stop_on_panic(mut self, stops: bool) -> Self {
        self.stop_on_panic = Some(stops);
        self
    }
}
