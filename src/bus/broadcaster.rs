//! The `Broadcaster` type, with the methods that start a bus and register its watchers.

use std::fmt;

use crate::bus::counters::BusStats;
use crate::clock::Clock;
use crate::error::{BuildError, WatchError};
use crate::sync::{Arc, Parker, bounded};

use super::dispatch::{Completion, Controls, Dispatcher, InlineFront, SharedIntake};
use super::incoming::{IncomingQueue, Publisher};
use super::mailbox::Entry;
use super::options::{BusOptions, check_incoming};
use super::state::{BusState, Threads};
use super::watch::{WatchBuilder, Watcher};

/// The maximum size of an event, in bytes. Events are moved by value, so a thread that moves an
/// event needs space for it on its stack.
const MAX_EVENT_SIZE: usize = 16 * 1024;

/// A bounded in-process event bus with many publishers and any number of watchers. Each watcher has
/// its own queue and policy.
///
/// A bus owns one dispatcher thread, unless the bus is [inline](Self::new_inline). A clone of a
/// `Broadcaster` is another handle to the same bus. Cloning a `Broadcaster` increments two
/// reference counts. Dropping the last handle closes the bus without waiting. Calling
/// [`shutdown`](Self::shutdown) on any handle closes the bus and waits for the bus to end.
/// Publishers and watchers do not keep the bus open, except for the publishers of a
/// [`channel`](crate::channel). If a handler, filter or hook owns a handle to its own bus, it keeps
/// that bus open until the watcher ends or the bus is closed. Such a handler, filter or hook should
/// own a [`Publisher`] instead.
///
/// Each watcher has a [policy](crate::OverflowPolicy) that applies when its queue is full. The
/// default policy is `DropIncoming`, and the default queue holds 1000 events. The [crate's front
/// page](crate#which-policy-to-choose) lists a policy for each purpose, and
/// `examples/bus/daemon.rs` in the repository combines a journal and a gauge on one bus.
///
/// # What an event must be
///
/// An event's type must satisfy `T: Clone + Send + Sync + 'static`. All watchers share one copy of
/// an event, and several threads may read this copy at the same time, so the type must be `Sync`.
/// [`recv`](Watcher::recv) returns a clone of the event. If the type does not implement `Clone`,
/// publish an `Arc`. If the type is not `Sync`, publish an `Arc<Mutex<T>>`.
///
/// # Large events
///
/// Events are moved by value. Code that uses an event type larger than 16 KiB does not compile. Put
/// such large events into a `Box` or an `Arc`. Events of 16 KiB have the following costs:
///
/// - The future returned by [`publish_async`](Publisher::publish_async) holds a single copy of the
///   event, and takes up less than 1 KiB in addition. Futures that flush the bus or receive events
///   do not hold an event.
/// - A call copies the event several times on the stack. A publish call needs up to 12 times the
///   event's size in stack space in an optimised build, and up to 48 times in a debug build. A
///   receive call needs 4 and 12 times the event's size, respectively. A flush, a registration or a
///   gap needs no more stack space than on a bus with small events.
///
/// In a debug build, publishing 16 KiB events may therefore take 768 KiB of the 2 MiB stack that
/// Rust gives a thread. If a thread's stack is smaller, publish a `Box` or an `Arc` instead.
///
/// # Fork
///
/// After a `fork` without `exec`, only the thread that forked exists in the child process. Unless
/// the bus is inline, the child's copy of the bus therefore has no dispatcher. A publisher in the
/// child process may still deliver an event [directly](crate::BusOptions::direct_delivery), but
/// queued events stay queued, and [`flush`](Self::flush), [`shutdown`](Self::shutdown) and publish
/// calls that wait for capacity may never return. Create the bus after forking the process.
///
/// # Examples
///
/// ```
/// use eventcast::{Broadcaster, Delivery};
///
/// let bus = Broadcaster::new()?;
/// let mut watcher = bus.watch()?;
/// let publisher = bus.publisher();
/// publisher.try_publish("hello")?;
/// assert_eq!(watcher.recv()?, Delivery::Event("hello"));
///
/// let report = bus.shutdown();
/// assert!(report.complete);
/// assert!(publisher.try_publish("too late").unwrap_err().is_closed());
/// assert!(watcher.recv().is_err());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Broadcaster<T> {
    /// The state that all handles share, including the number of handles.
    pub(super) incoming: Arc<IncomingQueue<T>>,
}

impl<T: Clone + Send + Sync + 'static> Broadcaster<T> {
    /// Starts a bus with the [default options](BusOptions). By default, each queue has a capacity
    /// of 1000. If a watcher's queue is full, the watcher loses the incoming event, as in
    /// client-go's recorder.
    ///
    /// # Errors
    ///
    /// Returns a [`BuildError`] if the system cannot start a thread.
    ///
    /// # Examples
    ///
    /// ```
    /// use eventcast::{Broadcaster, Delivery};
    ///
    /// let bus = Broadcaster::new()?;
    /// let mut watcher = bus.watch()?;
    /// bus.publisher().publish("hello")?;
    /// assert_eq!(watcher.recv()?, Delivery::Event("hello"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[doc(alias = "NewBroadcaster")]
    #[doc(alias = "NewLongQueueBroadcaster")]
    pub fn new() -> Result<Self, BuildError> {
        Self::with_options(BusOptions::default())
    }

    /// Creates an inline bus with the [default options](BusOptions). An inline bus has no thread.
    /// Instead, each publish call offers its events to the watchers itself, while holding a lock.
    ///
    /// When a publish call returns `Ok`, the event has been offered to every watcher, so the event
    /// is either in the watcher's queue or counted as filtered or lost. This guarantee holds for
    /// any number of threads. The only exception is code that publishes on the bus from inside
    /// another call to the same bus. In this case, the event is offered before the outermost call
    /// returns. To set other options, use [`BusOptions::inline`].
    ///
    /// | | with a dispatcher | inline |
    /// |---|---|---|
    /// | when a publish call returns | the event is accepted | the event is in the queues |
    /// | a publish call waits | for capacity in the incoming queue | for the lock, and for capacity in the queue of a watcher with `Wait` |
    /// | filters and `on_drop` run on | the dispatcher | the publishing thread |
    /// | a slow filter delays | the dispatcher | every publisher |
    /// | many events between threads | fast | slower, though less so with one watcher or in batches |
    /// | costs | a thread | nothing while idle |
    ///
    /// # Blocking
    ///
    /// Publishing events or gaps, registering a watcher and flushing wait for the lock, and
    /// therefore for the code that runs inside other calls: filters, hooks, and the `Clone` and
    /// `Drop` of events. Receiving, [`stop`](Watcher::stop), dropping a watcher,
    /// [`close`](Self::close), `shutdown` and [`stats`](Self::stats) never wait for the lock.
    /// Follow these rules when you publish on an inline bus:
    ///
    /// - **Do not hold a lock, or a borrow of a `RefCell`, that a filter, a hook, `Clone` or `Drop`
    ///   takes.** On the same thread, taking the lock would deadlock, and borrowing from the
    ///   `RefCell` would panic, which ends that watcher. With two threads, one thread may hold your
    ///   lock and wait for the bus's lock, while the other thread holds the bus's lock and waits
    ///   for yours.
    /// - **Read a watcher with `Wait` on another thread or task.** [`publish`](Publisher::publish)
    ///   waits for capacity in the watcher's queue. If the watcher is read only by the publishing
    ///   thread, or by another task of the same current-thread runtime, the call waits forever. Use
    ///   [`publish_async`](Publisher::publish_async) or [`try_publish`](Publisher::try_publish)
    ///   instead.
    /// - **Do not let a filter wait for a thread that publishes.** That thread waits for the lock,
    ///   which stays held while the filter runs.
    ///
    /// Time spent waiting for the lock does not count towards a publish call's timeout. A filter or
    /// hook may publish on its own bus, up to [`incoming_capacity`](BusOptions::incoming_capacity)
    /// entries in one call, and up to as many events as every watcher with `Wait` has capacity for.
    /// Each piece of a batch, of [`max_batch`](BusOptions::max_batch) events, counts as one call.
    /// Beyond these limits, publish calls return `Full`. If a publish call or registration on an
    /// inline bus is made from inside a call to another inline bus, it tries once or twice to
    /// acquire the lock, for 10 ms each time, and then returns `Full` or `WouldDeadlock`. From
    /// inside a call to an inline bus, a publish call never waits for capacity, whichever bus it
    /// publishes on.
    ///
    /// Calling `stop` or `close`, or dropping a watcher or the last handle, runs any pending
    /// destructors on the calling thread. Pending destructors are the destructors of filters and
    /// hooks, and of events in the history. If another thread is inside a call to the bus, that
    /// thread runs the destructors instead.
    ///
    /// # Fork and signals
    ///
    /// If a `fork` occurs while another thread holds the lock, the lock stays locked in the child
    /// process. A signal handler must not publish, because the thread that it interrupts may be
    /// holding the lock.
    ///
    /// # Examples
    ///
    /// ```
    /// use eventcast::{Broadcaster, Delivery};
    ///
    /// let bus = Broadcaster::new_inline();
    /// let mut watcher = bus.watch()?;
    /// bus.publisher().publish("hello")?;
    /// // No thread has to run first.
    /// assert_eq!(watcher.try_recv()?, Delivery::Event("hello"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[doc(alias = "inline")]
    pub fn new_inline() -> Self {
        Self::without_dispatcher(BusOptions::default().inline(true), Clock::system(), None)
    }

    /// Starts a bus with the given options.
    ///
    /// # Errors
    ///
    /// Returns a [`BuildError`] in these cases:
    ///
    /// - An option is out of range. The error names the option.
    /// - The system cannot start a thread.
    /// - The system does not have enough memory for
    ///   [`incoming_capacity`](BusOptions::incoming_capacity).
    ///
    /// # Examples
    ///
    /// ```
    /// use eventcast::{Broadcaster, BusOptions};
    ///
    /// let bus = Broadcaster::with_options(BusOptions::default().queue_capacity(1))?;
    /// let watcher = bus.watch()?;
    /// bus.publisher().publish_batch([1, 2])?;
    /// bus.shutdown();
    /// assert_eq!((watcher.len(), watcher.stats().dropped.incoming), (1, 1));
    /// assert!(Broadcaster::<u8>::with_options(BusOptions::default().queue_capacity(0)).is_err());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn with_options(options: BusOptions) -> Result<Self, BuildError> {
        Self::with_clock(options, Clock::system())
    }

    /// Starts a bus whose timeouts use the given clock. A test can advance time past the timeouts
    /// with a [`FakeClock`](crate::testing::FakeClock).
    ///
    /// # Errors
    ///
    /// Returns the same errors as [`with_options`](Self::with_options).
    ///
    /// # Examples
    ///
    /// ```
    /// use eventcast::error::RecvTimeoutError;
    /// use eventcast::testing::FakeClock;
    /// use eventcast::{Broadcaster, BusOptions};
    /// use std::thread;
    /// use std::time::{Duration, SystemTime};
    ///
    /// let clock = FakeClock::new(SystemTime::UNIX_EPOCH);
    /// let bus = Broadcaster::<u8>::with_clock(BusOptions::default(), clock.clock())?;
    /// let mut watcher = bus.watch()?;
    /// let hour = Duration::from_secs(3600);
    /// let waiting = thread::spawn(move || watcher.recv_timeout(hour));
    /// clock.wait_for_waiters(1);
    /// clock.advance(hour);
    /// assert_eq!(waiting.join().unwrap(), Err(RecvTimeoutError::Timeout));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn with_clock(options: BusOptions, clock: Clock) -> Result<Self, BuildError> {
        Self::with_completion(options, clock, None)
    }

    /// Starts a bus whose dispatcher completes each event before any watcher sees the event.
    pub(crate) fn with_completion(
        options: BusOptions,
        clock: Clock,
        completion: Option<Completion<T>>,
    ) -> Result<Self, BuildError> {
        const { assert!(size_of::<T>() <= MAX_EVENT_SIZE, "events this large belong in a Box or an Arc") };
        options.check()?;
        if options.inline {
            return Ok(Self::without_dispatcher(options, clock, completion));
        }
        check_incoming::<Entry<T>>(options.incoming_capacity)?;
        let parker = Parker::new();
        let controls = Arc::new(Controls::new());
        let driver = Box::new(controls.clone());
        let bus = Arc::new(BusState::new(clock, &parker, driver));
        let (tx, rx) = bounded::<Entry<T>>(options.incoming_capacity);
        let shared = Arc::new(SharedIntake::new(bus.clone(), rx, controls, completion, &options));
        let dispatcher = Dispatcher::new(shared.clone(), parker);
        Threads::spawn(&bus.threads, options.thread_name.clone(), move || dispatcher.run())
            .map_err(|error| BuildError::thread(&options.thread_name, error))?;
        let incoming = Arc::new(IncomingQueue::new(bus, tx, shared, options));
        Ok(Self { incoming })
    }

    /// Builds an inline bus. The options must already have been validated.
    fn without_dispatcher(options: BusOptions, clock: Clock, completion: Option<Completion<T>>) -> Self {
        const { assert!(size_of::<T>() <= MAX_EVENT_SIZE, "events this large belong in a Box or an Arc") };
        let front = Arc::new(InlineFront::new(options.incoming_capacity, completion, options.history));
        let bus = Arc::new(BusState::inline(clock, Box::new(front.clone())));
        let incoming = Arc::new(IncomingQueue::inline(bus, front, options));
        Self { incoming }
    }

    /// Registers a watcher with the bus's default queue capacity and policy. See
    /// [`WatchBuilder::watch`] for details.
    ///
    /// # Errors
    ///
    /// Same as [`WatchBuilder::watch`].
    ///
    /// # Blocking
    ///
    /// Same as [`WatchBuilder::watch`].
    ///
    /// # Examples
    ///
    /// ```
    /// use eventcast::{Broadcaster, Delivery};
    ///
    /// let bus = Broadcaster::new()?;
    /// bus.publisher().publish("too early")?;
    /// let mut watcher = bus.watch()?;
    /// bus.publisher().publish("hello")?;
    /// assert_eq!(watcher.recv()?, Delivery::Event("hello"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[doc(alias = "subscribe")]
    #[doc(alias = "Watch")]
    #[track_caller]
    pub fn watch(&self) -> Result<Watcher<T>, WatchError> {
        self.watch_builder().watch()
    }
}

impl<T> Broadcaster<T> {
    /// Returns a handle that publishes events. The handle does not keep the bus open.
    ///
    /// # Examples
    ///
    /// ```
    /// use eventcast::{Broadcaster, Delivery};
    /// use std::thread;
    ///
    /// let bus = Broadcaster::new()?;
    /// let mut watcher = bus.watch()?;
    /// let publisher = bus.publisher();
    /// thread::spawn(move || publisher.publish(7).unwrap());
    /// assert_eq!(watcher.recv()?, Delivery::Event(7));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn publisher(&self) -> Publisher<T> {
        Publisher::new(self.incoming.clone())
    }

    /// Returns the number of watchers that have not been dropped and handlers that have not ended.
    /// This method takes constant time, and never blocks.
    ///
    /// A watcher counts from before the call that registers it returns until its reader has been
    /// dropped. A stopped or evicted watcher still counts, because its reader can still receive the
    /// queued events. A registration that is refused never counts. If a thread sees that a watcher
    /// counts, the events that the thread publishes afterwards are offered to that watcher, unless
    /// the watcher has been or is then stopped, evicted or dropped.
    ///
    /// # Examples
    ///
    /// ```
    /// use eventcast::Broadcaster;
    ///
    /// let bus = Broadcaster::<u8>::new()?;
    /// let watcher = bus.watch()?;
    /// bus.watch_builder().spawn(|_| ())?;
    /// assert_eq!(bus.watcher_count(), 2);
    /// drop(watcher);
    /// assert_eq!(bus.watcher_count(), 1);
    /// bus.shutdown();
    /// assert_eq!(bus.watcher_count(), 0);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[doc(alias("receiver_count", "subscriber_count", "subscribers", "presence"))]
    pub fn watcher_count(&self) -> usize {
        self.incoming.bus.registry.present()
    }

    /// Returns a builder for a watcher with its own queue, policy, filter, prefix or name, or for a
    /// handler.
    ///
    /// # Examples
    ///
    /// ```
    /// use eventcast::{Broadcaster, OverflowPolicy};
    ///
    /// let bus = Broadcaster::<u8>::new()?;
    /// let gauge = bus.watch_builder().name("gauge").queue_capacity(1).overflow(OverflowPolicy::DropOldest);
    /// assert_eq!(gauge.watch()?.stats().name, "gauge");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[track_caller]
    pub fn watch_builder(&self) -> WatchBuilder<'_, T> {
        WatchBuilder::new(&self.incoming)
    }

    /// Returns a snapshot of the bus's counters. This method never waits for a publisher, a watcher
    /// or the dispatcher.
    ///
    /// # Examples
    ///
    /// ```
    /// use eventcast::Broadcaster;
    /// use std::time::Duration;
    ///
    /// let bus = Broadcaster::new()?;
    /// let watcher = bus.watch()?;
    /// bus.publisher().publish_batch([1, 2, 3])?;
    /// bus.flush(Duration::from_secs(10))?;
    /// let stats = bus.stats();
    /// assert_eq!((stats.accepted, stats.watchers[0].queued), (3, 3));
    /// drop(watcher);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn stats(&self) -> BusStats {
        let mut stats = self.incoming.bus.stats();
        stats.pending = self.incoming.way.pending(&self.incoming.bus, stats.accepted);
        stats
    }
}

#[cfg(feature = "topics")]
impl<T> Broadcaster<T> {
    /// Returns whether the bus has ended, which means that no event will be offered any more.
    pub(crate) fn has_ended(&self) -> bool {
        self.incoming.bus.registry.has_ended()
    }

    /// Returns whether the bus has ended, and every watcher has been dropped and every handler has
    /// finished. The counters then no longer change.
    pub(crate) fn is_settled(&self) -> bool {
        self.has_ended() && self.incoming.bus.registry.present() == 0
    }

    /// Returns whether no watcher has a queued event.
    pub(crate) fn is_drained(&self) -> bool {
        self.incoming.bus.registry.is_drained()
    }
}

impl<T> Drop for Broadcaster<T> {
    /// Closes the bus, without waiting, if this is the bus's last handle. The dispatcher, if there
    /// is one, still offers the events that the bus has accepted. Everything done before a handle
    /// is dropped happens before the bus ends.
    fn drop(&mut self) {
        if self.incoming.handles.remove() {
            self.incoming.bus.close();
        }
    }
}

impl<T> Clone for Broadcaster<T> {
    /// Returns another handle to the same bus. Dropping a bus's last handle closes the bus.
    ///
    /// # Examples
    ///
    /// ```
    /// use eventcast::Broadcaster;
    ///
    /// let bus = Broadcaster::new()?;
    /// let publisher = bus.publisher();
    /// let other = bus.clone();
    /// drop(bus);
    /// assert!(publisher.try_publish(1).is_ok());
    /// drop(other);
    /// assert!(publisher.try_publish(2).unwrap_err().is_closed());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    fn clone(&self) -> Self {
        self.incoming.handles.add();
        Self { incoming: self.incoming.clone() }
    }
}

impl<T> fmt::Debug for Broadcaster<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Broadcaster").field("options", &self.incoming.options).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::time::Duration;

    use super::*;

    /// A panic in user code cannot unwind out of a call to an inline bus, but a panic caused by a
    /// bug in the library could. Even in that case, no thread may be left waiting.
    #[test]
    fn an_inline_bus_ends_if_something_unforeseen_unwinds() {
        let completion: Completion<u8> = Box::new(|event| assert!(*event < 2, "injected"));
        let bus = Broadcaster::with_completion(
            BusOptions::default().inline(true),
            Clock::system(),
            Some(completion),
        )
        .unwrap();
        let (mut watcher, publisher) = (bus.watch().unwrap(), bus.publisher());
        let handler = bus.watch_builder().spawn(|_| ()).unwrap();
        publisher.publish(1).unwrap();
        assert!(catch_unwind(AssertUnwindSafe(|| publisher.publish(2))).is_err());
        assert!(publisher.publish(1).unwrap_err().is_closed());
        assert_eq!(watcher.recv().unwrap().event(), Some(1));
        assert!(watcher.recv().is_err());
        assert!(handler.join(Duration::from_secs(60)));
        let report = bus.shutdown();
        assert!(!report.complete && report.threads_ended);
    }
}
