//! The options of a bus.

use crate::bus::policy::OverflowPolicy;
use crate::error::BuildError;
use crate::escape::escape;
#[cfg(feature = "serde")]
use crate::serde_object::object_only;

use super::check::{MAX_BATCH, MAX_QUEUE, check_history, check_limit, check_name, check_queue_capacity};

/// The default name of the dispatcher's thread.
const THREAD_NAME: &str = "eventcast";

/// Options of a [`Broadcaster`](crate::Broadcaster).
///
/// Memory is bounded by the sum of these numbers of events:
///
/// - `incoming_capacity` × `max_batch` events in the incoming queue. An inline bus has none.
/// - The events in the queues of the watchers.
/// - Two batches of `max_batch` for the dispatcher and for each watcher: the current one, and the
///   one to which the oldest part of the queue belongs.
/// - If there is a history: `history` events and a batch of `max_batch` for the dispatcher, and as
///   many for each watcher that started in the past, until it has read them. A watcher shares these
///   batches with the history for as long as the history holds them, except batches from which its
///   filter refused some events.
///
/// The bound in bytes is this sum times the size of an event and of what an event owns.
///
/// # Examples
///
/// ```
/// use eventcast::{Broadcaster, BusOptions, OverflowPolicy};
///
/// let options = BusOptions::default().incoming_capacity(64).queue_capacity(16).overflow(OverflowPolicy::Wait);
/// assert!(Broadcaster::<u8>::with_options(options).is_ok());
/// ```
///
#[cfg_attr(
    feature = "serde",
    doc = r##"They can be read from a configuration file, with the setters' names as keys. A key that is left out
has its default, and a key that does not exist is an error. A value out of range, such as a queue of
zero, is an error that names the option when the bus is built:

```
use eventcast::{BusOptions, OverflowPolicy};
use std::time::Duration;

let options: BusOptions = serde_json::from_str(r#"{"queue_capacity": 64, "overflow": {"wait_for": "250ms"}}"#)?;
let limit = OverflowPolicy::WaitFor(Duration::from_millis(250));
assert_eq!(options, BusOptions::default().queue_capacity(64).overflow(limit));
assert!(serde_json::from_str::<BusOptions>(r#"{"queue": 64}"#).is_err());

let options = serde_json::from_str(r#"{"queue_capacity": 0}"#)?;
let error = eventcast::Broadcaster::<u8>::with_options(options).unwrap_err();
assert_eq!(error.to_string(), "queue_capacity must be 1 to 16777216 events, got 0");
# Ok::<(), serde_json::Error>(())
```"##
)]
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[must_use = "options do nothing until a bus is built with them"]
pub struct BusOptions {
    pub(crate) incoming_capacity: usize,
    pub(crate) queue_capacity: usize,
    pub(crate) overflow: OverflowPolicy,
    pub(crate) max_batch: usize,
    pub(crate) direct_delivery: bool,
    pub(crate) history: usize,
    pub(crate) inline: bool,
    pub(crate) thread_name: String,
}

/// The form in which `serde` reads [`BusOptions`].
#[cfg(feature = "serde")]
#[derive(serde::Deserialize)]
#[serde(
    remote = "BusOptions",
    default = "BusOptions::default",
    deny_unknown_fields,
    expecting = "a bus's options, as an object"
)]
struct BusOptionsObject {
    incoming_capacity: usize,
    queue_capacity: usize,
    overflow: OverflowPolicy,
    max_batch: usize,
    direct_delivery: bool,
    history: usize,
    inline: bool,
    thread_name: String,
}

#[cfg(feature = "serde")]
object_only!(BusOptions, BusOptionsObject);

impl Default for BusOptions {
    fn default() -> Self {
        Self {
            // As in client-go's recorder: both lengths are 1000, and the incoming event is dropped.
            incoming_capacity: 1000,
            queue_capacity: 1000,
            overflow: OverflowPolicy::DropIncoming,
            max_batch: 256,
            direct_delivery: true,
            history: 0,
            inline: false,
            thread_name: THREAD_NAME.to_owned(),
        }
    }
}

impl BusOptions {
    /// Sets the largest number of entries that wait for the dispatcher: 1 to 16,777,216, with 1000
    /// as the default. An entry is an event or a piece of a published batch.
    ///
    /// The queue allocates all its memory up front, even if few entries wait in it. Each entry
    /// takes the larger of an event and 24 bytes, and up to 16 bytes more. A million entries for
    /// events of 128 bytes take 144 MB. [`with_options`](crate::Broadcaster::with_options) returns
    /// an error if the queue needs more than 4 GiB, or more than the system grants. The check
    /// cannot detect that a system grants more memory than it has, as Linux may.
    ///
    /// # Examples
    ///
    /// ```
    /// use eventcast::{Broadcaster, BusOptions};
    ///
    /// assert!(Broadcaster::<u8>::with_options(BusOptions::default().incoming_capacity(64)).is_ok());
    /// let error = Broadcaster::<u8>::with_options(BusOptions::default().incoming_capacity(0)).unwrap_err();
    /// assert_eq!(error.option(), "incoming_capacity");
    /// ```
    #[doc(alias = "incomingQueueLength")]
    pub fn incoming_capacity(mut self, entries: usize) -> Self {
        self.incoming_capacity = entries;
        self
    }

    /// Sets the largest number of events that wait for a watcher, unless the watcher sets its own:
    /// 1 to 16,777,216, with 1000 as the default. Events from the history do not count towards this
    /// limit.
    ///
    /// # Examples
    ///
    /// ```
    /// use eventcast::{Broadcaster, BusOptions};
    ///
    /// let bus = Broadcaster::with_options(BusOptions::default().queue_capacity(2))?;
    /// let (own, default) = (bus.watch_builder().queue_capacity(1).watch()?, bus.watch()?);
    /// bus.publisher().publish_batch([1, 2, 3])?;
    /// bus.shutdown();
    /// assert_eq!((own.len(), default.len()), (1, 2));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[doc(alias = "queueLength")]
    pub fn queue_capacity(mut self, events: usize) -> Self {
        self.queue_capacity = events;
        self
    }

    /// Sets what happens when a watcher's queue is full, unless the watcher sets its own policy.
    ///
    /// # Examples
    ///
    /// ```
    /// use eventcast::{Broadcaster, BusOptions, OverflowPolicy};
    ///
    /// let options = BusOptions::default().overflow(OverflowPolicy::DropOldest);
    /// let watcher = Broadcaster::<u8>::with_options(options)?.watch()?;
    /// assert_eq!(watcher.stats().policy, Some(OverflowPolicy::DropOldest));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn overflow(mut self, policy: OverflowPolicy) -> Self {
        self.overflow = policy;
        self
    }

    /// Sets the largest number of events that the dispatcher offers together, and the largest piece
    /// of a published batch: 1 to 65,536, with 256 as the default.
    ///
    /// # Examples
    ///
    /// ```
    /// use eventcast::{Broadcaster, BusOptions};
    ///
    /// let bus = Broadcaster::with_options(BusOptions::default().max_batch(2))?;
    /// let mut watcher = bus.watch()?;
    /// bus.publisher().publish_batch([1, 2, 3])?;
    /// assert_eq!(&*watcher.recv_batch()?, [1, 2]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn max_batch(mut self, events: usize) -> Self {
        self.max_batch = events;
        self
    }

    /// Sets whether a publisher may deliver an event itself while the dispatcher sleeps: default
    /// `true`.
    ///
    /// A lone event then changes threads once instead of twice. The publisher does this only if the
    /// bus has at most four watchers, none of them with a filter or with
    /// [`DropOldest`](OverflowPolicy::DropOldest), and if the event fits into all of their queues.
    /// It offers the waiting events, up to a batch, and wakes the readers that sleep. No filter,
    /// hook, `Clone` or `Drop` runs on its thread, but the waker of a task that waits does. The
    /// option has no effect on the bus of an event broadcaster, where recording an event must be
    /// cheap, nor on a bus with a [history](Self::history).
    ///
    /// With `true`, the only reader of a bus may also take events out of the incoming queue itself
    /// while it is busy, if its policy is [`Wait`](OverflowPolicy::Wait) or
    /// [`WaitFor`](OverflowPolicy::WaitFor) and it has no filter. The wakers of tasks that wait to
    /// publish then run on its thread. If the reader stops taking events, the bus offers the
    /// waiting events after about two milliseconds.
    ///
    /// A publish that delivers allocates the batch, and costs one system call for each reader that
    /// it wakes. With `false`, every publish leaves the delivery to the dispatcher: it allocates
    /// nothing, and wakes at most one thread. This suits a publisher with real-time constraints,
    /// such as an audio device's thread.
    ///
    /// # Examples
    ///
    /// ```
    /// use eventcast::BusOptions;
    ///
    /// let options = BusOptions::default();
    /// assert_eq!(options.clone().direct_delivery(true), options);
    /// assert_ne!(options.clone().direct_delivery(false), options);
    /// ```
    pub fn direct_delivery(mut self, is_direct: bool) -> Self {
        self.direct_delivery = is_direct;
        self
    }

    /// Sets how many of the newest events the bus keeps for watchers that
    /// [start](crate::WatchBuilder::start) in the past: 0 to 16,777,216, with 0 as the default.
    ///
    /// The history holds the batches that the dispatcher offers, without a copy. A kept event costs
    /// its own size and its share of a batch, which takes up to 72 bytes. The destructor of an
    /// event may run on the dispatcher, when the event leaves the history. A bus with a history
    /// does not [deliver directly](Self::direct_delivery).
    ///
    /// A kept event lives until newer events replace it, or until the bus ends. If the event owns a
    /// handle to its bus, it keeps the bus open. If it owns the sender of a reply channel, a thread
    /// that waits for this channel to close waits until then.
    ///
    /// # Examples
    ///
    /// ```
    /// use eventcast::bus::Start;
    /// use eventcast::{Broadcaster, BusOptions};
    ///
    /// let bus = Broadcaster::with_options(BusOptions::default().history(2))?;
    /// bus.publisher().publish_batch([1, 2, 3])?;
    /// let mut late = bus.watch_builder().start(Start::Oldest).watch()?;
    /// bus.publisher().publish(4)?;
    /// bus.shutdown();
    /// assert_eq!(late.events().collect::<Vec<_>>(), [2, 3, 4]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[doc(alias = "replay")]
    pub fn history(mut self, events: usize) -> Self {
        self.history = events;
        self
    }

    /// Sets whether the bus is inline: default `false`.
    ///
    /// An inline bus has no thread and no incoming queue. Each publish offers its events to the
    /// watchers itself, under a lock, so an event is in the queues when its publish returns. See
    /// [`Broadcaster::new_inline`](crate::Broadcaster::new_inline) for what this changes. With an
    /// inline bus, [`incoming_capacity`](Self::incoming_capacity) is the number of entries that the
    /// code inside one call may add.
    ///
    /// # Examples
    ///
    /// ```
    /// use eventcast::{Broadcaster, BusOptions, Delivery};
    ///
    /// let bus = Broadcaster::with_options(BusOptions::default().queue_capacity(16).inline(true))?;
    /// let mut watcher = bus.watch()?;
    /// bus.publisher().publish("hello")?;
    /// assert_eq!(watcher.try_recv()?, Delivery::Event("hello"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn inline(mut self, is_inline: bool) -> Self {
        self.inline = is_inline;
        self
    }

    /// Sets the name of the dispatcher's thread. Default `eventcast`.
    ///
    /// # Examples
    ///
    /// ```
    /// use eventcast::{Broadcaster, BusOptions};
    /// use std::sync::mpsc;
    /// use std::thread;
    ///
    /// let bus = Broadcaster::with_options(BusOptions::default().thread_name("orders"))?;
    /// let (tx, names) = mpsc::channel();
    /// // A filter runs on the dispatcher.
    /// let watcher = bus.watch_builder().filter(move |_: &u8| {
    ///     tx.send(thread::current().name().map(str::to_owned)).is_ok()
    /// });
    /// let watcher = watcher.watch()?;
    /// bus.publisher().publish(1)?;
    /// assert_eq!(names.recv()?.as_deref(), Some("orders"));
    /// drop(watcher);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn thread_name(mut self, name: &str) -> Self {
        name.clone_into(&mut self.thread_name);
        self
    }

    pub(crate) fn check(&self) -> Result<(), BuildError> {
        check_limit("incoming_capacity", self.incoming_capacity, MAX_QUEUE, "entries")?;
        check_queue_capacity(self.queue_capacity)?;
        check_limit("max_batch", self.max_batch, MAX_BATCH, "events")?;
        check_history(self.history)?;
        check_name("thread_name", &self.thread_name)?;
        if self.inline {
            self.check_inline()?;
        }
        Ok(())
    }

    /// Checks that no option is set that is meaningless for an inline bus.
    fn check_inline(&self) -> Result<(), BuildError> {
        let allowed = "the default in an inline bus, which has no dispatcher";
        if !self.direct_delivery {
            return Err(BuildError::new("direct_delivery", false, allowed));
        }
        if self.thread_name != THREAD_NAME {
            return Err(BuildError::new("thread_name", escape(&self.thread_name), allowed));
        }
        Ok(())
    }
}
