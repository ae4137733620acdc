//! The options of a bus.

use crate::bus::policy::OverflowPolicy;
use crate::error::BuildError;
use crate::escape::escape;
#[cfg(feature = "serde")]
use crate::serde_object::object_only;

use super::check::{MAX_BATCH, MAX_QUEUE, check_history, check_limit, check_name, check_queue_capacity};

/// The default name of the dispatcher's thread.
const THREAD_NAME: &str = "eventcast";

/// Options for a [`Broadcaster`](crate::Broadcaster).
///
/// The memory that a bus uses is bounded by the sum of the following numbers of events:
///
/// - `incoming_capacity` × `max_batch` events in the incoming queue. An inline bus has no incoming
///   queue.
/// - The events in the watchers' queues.
/// - Two batches of `max_batch` events for the dispatcher, and two for each watcher. These are the
///   current batch, and the batch that the oldest part of the queue belongs to.
/// - If the bus has a history, `history` events and a batch of `max_batch` events for the
///   dispatcher, and the same number for each watcher that started in the past, until the watcher
///   has read these events. A watcher shares these batches with the history for as long as the
///   history holds them, except for batches from which the watcher's filter refused some events.
///
/// To get the bound in bytes, multiply this sum by the size of an event, including the data that it
/// owns.
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
    doc = r##"The options can be read from a configuration file, with the setters' names as keys. Omitted keys get
their default values, and unknown keys cause an error. If a value is out of range, such as a queue
capacity of zero, building the bus returns an error that names the option:

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

/// The form of [`BusOptions`] that `serde` deserialises.
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
            // As in client-go's recorder, both queues have a length of 1000, and the incoming event
            // is dropped.
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
    /// Creates the default options, like [`BusOptions::default`].
    ///
    /// # Examples
    ///
    /// ```
    /// use eventcast::BusOptions;
    ///
    /// assert_eq!(BusOptions::new(), BusOptions::default());
    /// ```
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the maximum number of entries waiting for the dispatcher, from 1 to 16,777,216.
    /// Defaults to 1000. An entry is an event or a piece of a published batch.
    ///
    /// The incoming queue allocates all of its memory up front, even if it holds only a few
    /// entries. Each entry takes up the size of an event or 24 bytes, whichever is larger, plus up
    /// to 16 bytes. For example, a million entries for events of 128 bytes take up 144 MB.
    /// [`with_options`](crate::Broadcaster::with_options) returns an error if the queue needs more
    /// than 4 GiB, or more than the system grants. The check cannot detect whether the system has
    /// granted more memory than it has, which can happen on Linux.
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

    /// Sets the default capacity of a watcher's queue, from 1 to 16,777,216 events. Defaults to
    /// 1000 events. A watcher may set its own capacity. Events from the history do not count
    /// towards the capacity.
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

    /// Sets the policy that applies by default when a watcher's queue is full. A watcher may set
    /// its own policy.
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

    /// Sets the maximum number of events that the dispatcher offers together, from 1 to 65,536.
    /// Defaults to 256. A published batch is split into pieces of at most this number of events.
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

    /// Sets whether a publisher may deliver an event itself while the dispatcher is asleep.
    /// Defaults to `true`.
    ///
    /// With direct delivery, a single event is passed from one thread to another only once instead
    /// of twice. The publisher delivers the event only if the bus has at most four watchers, if
    /// none of them has a filter or uses [`DropOldest`](OverflowPolicy::DropOldest), and if the
    /// event fits into all of their queues. The publisher offers the waiting events, up to a batch,
    /// and wakes the sleeping readers. No filter, hook, `Clone` or `Drop` runs on the publisher's
    /// thread, but the wakers of waiting tasks are called there. A thread that records an event
    /// delivers only a lone event, and only to a single watcher whose reader is asleep. The option
    /// has no effect on a bus with a [history](Self::history).
    ///
    /// With `true`, a bus's only reader may also take events out of the incoming queue itself while
    /// it is busy. This requires that the watcher's policy is [`Wait`](OverflowPolicy::Wait) or
    /// [`WaitFor`](OverflowPolicy::WaitFor), and that the watcher has no filter. The wakers of
    /// tasks waiting to publish are then called on the reader's thread. If the reader stops taking
    /// events, the bus offers the waiting events after about two milliseconds.
    ///
    /// If a publish call delivers an event, it allocates the batch, and makes one system call for
    /// each reader that it wakes. With `false`, every publish call leaves the delivery to the
    /// dispatcher, so the call does not allocate, and wakes at most one thread. This setting suits
    /// a publisher with real-time constraints, such as an audio thread.
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
    /// [start](crate::WatchBuilder::start) in the past, from 0 to 16,777,216. Defaults to 0.
    ///
    /// The history holds the batches that the dispatcher offers, without copying them. Each event
    /// in the history takes up its own size plus a share of its batch's overhead, which is up to 72
    /// bytes. When an event leaves the history, the event's destructor may run on the dispatcher. A
    /// bus with a history does not [deliver directly](Self::direct_delivery).
    ///
    /// An event stays in the history until newer events replace it, or until the bus ends. If an
    /// event owns a handle to its bus, the event keeps the bus open for as long as it stays in the
    /// history. If an event owns the sender of a reply channel, a thread waiting for this channel
    /// to close also waits until the event leaves the history.
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

    /// Sets whether the bus is inline. Defaults to `false`.
    ///
    /// An inline bus has no thread and no incoming queue. Each publish call offers its events to
    /// the watchers itself, while holding a lock, so the events are in the watchers' queues when
    /// the call returns. See [`Broadcaster::new_inline`](crate::Broadcaster::new_inline) for the
    /// other differences. On an inline bus, [`incoming_capacity`](Self::incoming_capacity) limits
    /// the number of entries that code running inside one call may add.
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

    /// Sets the name of the dispatcher's thread. Defaults to `eventcast`.
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

    /// Returns an error if an option is set that has no meaning for an inline bus.
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
