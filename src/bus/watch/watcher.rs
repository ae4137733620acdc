//! The watcher, from which a consumer receives events, one at a time or as slices.

use std::fmt;
#[cfg(feature = "select")]
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use crate::bus::counters::WatcherStats;
use crate::bus::mailbox::{MailboxReceiver, Next};
use crate::bus::state::EndReason;
use crate::clock::{Deadline, time_until};
use crate::error::{RecvError, RecvTimeoutError, TryRecvError};
#[cfg(feature = "select")]
use crate::sync::Signal;

use super::delivery::Delivery;
use super::handler::WatchHandle;

/// A handle through which one consumer receives events. A watcher is `Send` and `Unpin`, and only
/// one thread at a time can receive from it.
///
/// # Ordering
///
/// The bus puts the events from all publishers into a single order, and every watcher receives its
/// events in this order. The bus offers the watcher every event whose publish call begins after
/// [`watch`](crate::Broadcaster::watch) has returned. Unless the watcher [starts in the
/// past](crate::WatchBuilder::start), the bus does not offer it any event whose publish call
/// returned before `watch` was called. Everything that happens before an event is published also
/// happens before the event is received.
///
/// # Overflow
///
/// The queue holds at most `queue_capacity` events, not counting events from the history. If the
/// queue is full, the watcher's [policy](crate::OverflowPolicy) drops an event, ends the watcher,
/// or makes the dispatcher wait. While the dispatcher is waiting, all watchers are delayed. Events
/// that the reader has taken out of the queue and is still reading also count towards
/// `queue_capacity`, except with [`DropOldest`](crate::OverflowPolicy::DropOldest) and
/// [`conflate_by`](crate::WatchBuilder::conflate_by).
///
/// # Gaps
///
/// Events that the policy dropped, and events that the bus does not have (because they are part of
/// a published gap, or are no longer in the history), are reported as [`Delivery::Lagged`]. A
/// `Lagged` contains the number of missing events, and is delivered at the point in the sequence
/// where they are missing, even if no event follows. A `Lagged` is neither an error nor the end,
/// and the next receive continues after it. An event that the filter refused does not count as
/// lost. Events lost when the watcher is stopped or dropped are counted in [`stats`](Self::stats),
/// but not reported.
///
/// # Ending
///
/// A watcher does not keep the bus open. A watcher ends after [`stop`](Self::stop), after its
/// policy has [evicted](crate::OverflowPolicy::Evict) it, and after the bus has ended. Queued
/// events can still be received. After the last queued event, every receive returns the end. The
/// bus ends only once its last event has fitted into the queue of every watcher for which it waits.
/// If two watchers have the `Wait` policy, read them concurrently. If you read only one watcher,
/// the full queue of the other can keep the first watcher from reaching its end.
///
/// Dropping a watcher empties its queue immediately. The events in the queue count as dropped
/// (stopped) or, if a shutdown with a deadline has abandoned the bus, as abandoned.
///
/// # Blocking
///
/// [`recv`](Self::recv), [`recv_ref`](Self::recv_ref) and [`recv_batch`](Self::recv_batch) block
/// the thread until a delivery arrives or the watcher reaches its end, and so do the iterators. The
/// methods with `_timeout` or `_deadline` in their names block for a limited time, as measured by
/// the bus's clock.
/// No other method blocks on an event, a publisher or the dispatcher, and neither does dropping the
/// watcher.
///
/// # Cancel safety
///
/// [`recv_async`](Self::recv_async), [`recv_batch_async`](Self::recv_batch_async) and the stream's
/// `next()` are cancel-safe. If the future is dropped before it completes, nothing has been
/// received.
///
/// # Iterators
///
/// A watcher implements [`IntoIterator`] but not `Iterator`. A watcher is also a `Stream` of the
/// same items. If it implemented both `Iterator` and `Stream`, `watcher.next()` would be ambiguous.
///
/// # Examples
///
/// ```
/// use eventcast::{Broadcaster, Delivery};
///
/// let bus = Broadcaster::new()?;
/// let mut watcher = bus.watch_builder().queue_capacity(2).watch()?;
/// bus.publisher().publish_batch([1, 2, 3])?;
/// bus.close();
/// assert_eq!(watcher.recv()?, Delivery::Event(1));
/// assert_eq!(watcher.recv()?, Delivery::Event(2));
/// assert_eq!(watcher.recv()?, Delivery::Lagged(1));
/// assert!(watcher.recv().is_err());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use = "a watcher that is dropped receives nothing"]
pub struct Watcher<T> {
    pub(super) receiver: MailboxReceiver<T>,
    /// The token for which a crossbeam `Select` waits, created when the watcher is first added to a
    /// `Select`.
    #[cfg(feature = "select")]
    pub(super) signal: OnceLock<Signal>,
}

impl<T> Watcher<T> {
    pub(crate) fn new(receiver: MailboxReceiver<T>) -> Self {
        Self {
            receiver,
            #[cfg(feature = "select")]
            signal: OnceLock::new(),
        }
    }
}

#[cfg(feature = "topics")]
impl<T> Watcher<T> {
    /// Closes the watcher's bus. Never waits.
    pub(crate) fn close_bus(&self) {
        self.receiver.bus.close();
    }
}

impl<T: Clone> Watcher<T> {
    /// Waits for the next delivery, and clones the event. To avoid the clone, use
    /// [`recv_ref`](Self::recv_ref) or [`recv_batch`](Self::recv_batch).
    ///
    /// # Errors
    ///
    /// Returns [`RecvError`] at the end of the stream, that is, if the watcher was stopped or
    /// evicted or the bus has ended, and everything queued has been received. A loss is never an
    /// error.
    ///
    /// # Panics
    ///
    /// Panics only if the event's `Clone` panics. The event then counts as delivered.
    ///
    /// # Blocking
    ///
    /// Blocks until a delivery arrives or the watcher reaches its end. On a thread of the same bus
    /// (in a handler, filter or hook), this method may block forever. In an async task, this method
    /// blocks the executor's thread, so use `recv_async` or the `Stream` implementation instead.
    ///
    /// # Examples
    ///
    /// ```
    /// use eventcast::error::RecvError;
    /// use eventcast::{Broadcaster, Delivery};
    ///
    /// let bus = Broadcaster::new()?;
    /// let mut watcher = bus.watch()?;
    /// bus.publisher().publish(7)?;
    /// bus.close();
    /// assert_eq!(watcher.recv(), Ok(Delivery::Event(7)));
    /// assert_eq!(watcher.recv(), Err(RecvError));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn recv(&mut self) -> Result<Delivery<T>, RecvError> {
        let next = self.receiver.wait(None);
        self.delivery(next).ok_or(RecvError)
    }

    /// Returns the next delivery if one is available now. Never waits.
    ///
    /// # Errors
    ///
    /// - [`TryRecvError::Empty`] if there is nothing to receive now.
    /// - [`TryRecvError::Ended`] at the end of the stream.
    ///
    /// # Examples
    ///
    /// ```
    /// use eventcast::error::TryRecvError;
    /// use eventcast::{Broadcaster, Delivery};
    ///
    /// let bus = Broadcaster::new()?;
    /// let mut watcher = bus.watch()?;
    /// assert_eq!(watcher.try_recv(), Err(TryRecvError::Empty));
    /// bus.publisher().publish(7)?;
    /// bus.shutdown();
    /// assert_eq!(watcher.try_recv(), Ok(Delivery::Event(7)));
    /// assert_eq!(watcher.try_recv(), Err(TryRecvError::Ended));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn try_recv(&mut self) -> Result<Delivery<T>, TryRecvError> {
        let next = self.receiver.next_or_pull(1, false);
        self.delivery(next).ok_or(if next == Next::End { TryRecvError::Ended } else { TryRecvError::Empty })
    }

    /// Waits for the next delivery for at most `timeout`, as measured by the bus's clock. A
    /// delivery that is already in the queue is returned even if `timeout` is zero.
    ///
    /// # Errors
    ///
    /// - [`RecvTimeoutError::Timeout`] if nothing arrived in time.
    /// - [`RecvTimeoutError::Ended`] at the end of the stream.
    ///
    /// # Blocking
    ///
    /// Blocks for at most `timeout`. In an async task, wrap `recv_async` in your runtime's timeout
    /// instead.
    ///
    /// # Examples
    ///
    /// ```
    /// use eventcast::error::RecvTimeoutError;
    /// use eventcast::{Broadcaster, Delivery};
    /// use std::time::{Duration, Instant};
    ///
    /// let bus = Broadcaster::new()?;
    /// let mut watcher = bus.watch()?;
    /// assert_eq!(watcher.recv_timeout(Duration::ZERO), Err(RecvTimeoutError::Timeout));
    /// bus.publisher().publish(7)?;
    /// assert_eq!(watcher.recv_timeout(Duration::from_secs(10)), Ok(Delivery::Event(7)));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn recv_timeout(&mut self, timeout: Duration) -> Result<Delivery<T>, RecvTimeoutError> {
        self.recv_until(self.deadline(timeout))
    }

    /// Waits for the next delivery until `deadline`.
    ///
    /// When this method is called, it converts the time that remains until `deadline` into a
    /// timeout, as for [`recv_timeout`](Self::recv_timeout), so a deadline that has passed never
    /// waits. What is already in the queue is returned even after the deadline. An [`Instant`]
    /// always belongs to the system's clock, but the bus's clock measures the timeout. On a bus
    /// with a [`FakeClock`](crate::testing::FakeClock), the call therefore ends when a test has
    /// advanced the clock by the time that remained.
    ///
    /// # Errors
    ///
    /// Returns the same errors as [`recv_timeout`](Self::recv_timeout).
    ///
    /// # Blocking
    ///
    /// Blocks until `deadline` at most. In an async task, wrap `recv_async` in your runtime's
    /// timeout instead.
    ///
    /// # Examples
    ///
    /// Everything that arrives within ten milliseconds, provided that the reader is faster than the
    /// publishers:
    ///
    /// ```
    /// use eventcast::error::RecvTimeoutError;
    /// use eventcast::{Broadcaster, Delivery};
    /// use std::time::{Duration, Instant};
    ///
    /// let bus = Broadcaster::new()?;
    /// let mut watcher = bus.watch()?;
    /// bus.publisher().publish_batch([1, 2])?;
    /// let deadline = Instant::now() + Duration::from_millis(10);
    /// # let deadline = deadline + Duration::from_millis(500);
    /// let mut events = Vec::new();
    /// let error = loop {
    ///     match watcher.recv_deadline(deadline) {
    ///         Ok(delivery) => events.extend(delivery.event()),
    ///         Err(error) => break error,
    ///     }
    /// };
    /// assert_eq!((events, error), (vec![1, 2], RecvTimeoutError::Timeout));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn recv_deadline(&mut self, deadline: Instant) -> Result<Delivery<T>, RecvTimeoutError> {
        self.recv_timeout(time_until(deadline))
    }

    pub(super) fn recv_until(&mut self, deadline: Deadline) -> Result<Delivery<T>, RecvTimeoutError> {
        let next = self.receiver.wait(deadline);
        let error = if next == Next::End { RecvTimeoutError::Ended } else { RecvTimeoutError::Timeout };
        self.delivery(next).ok_or(error)
    }

    /// Converts `next` into a delivery, and clones the event. Returns `None` if there is nothing to
    /// receive now, or at the end.
    pub(crate) fn delivery(&mut self, next: Next) -> Option<Delivery<T>> {
        match next {
            Next::Event => Some(Delivery::Event(self.take())),
            Next::Lagged(count) => Some(Delivery::Lagged(count)),
            Next::Empty | Next::End => None,
        }
    }

    /// Clones the first event of the current slice. The event is borrowed first, so that the next
    /// receive skips it even if its `Clone` panics.
    fn take(&mut self) -> T {
        self.receiver.borrow(1);
        let event = self.receiver.events()[0].clone();
        self.receiver.release();
        event
    }
}

impl<T> Watcher<T> {
    /// Waits for the next delivery, without cloning the event. The event's capacity is returned to
    /// the queue when the next receive begins.
    ///
    /// # Errors
    ///
    /// Returns [`RecvError`] at the end of the stream, like [`recv`](Self::recv).
    ///
    /// # Blocking
    ///
    /// Blocks like [`recv`](Self::recv).
    ///
    /// # Examples
    ///
    /// ```
    /// use eventcast::{Broadcaster, Delivery};
    ///
    /// let bus = Broadcaster::new()?;
    /// let mut watcher = bus.watch()?;
    /// bus.publisher().publish("long text".to_owned())?;
    /// assert_eq!(watcher.recv_ref()?.event().map(String::len), Some(9));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn recv_ref(&mut self) -> Result<Delivery<&T>, RecvError> {
        match self.receiver.wait(None) {
            Next::Event => {
                self.receiver.borrow(1);
                Ok(Delivery::Event(&self.receiver.events()[0]))
            }
            Next::Lagged(count) => Ok(Delivery::Lagged(count)),
            Next::Empty | Next::End => Err(RecvError),
        }
    }

    /// Stops the watcher, so that the bus offers it no further events. The events in its queue can
    /// still be received, followed by the end. Never waits.
    ///
    /// Published events that the dispatcher has not offered yet are not in the queue. To read
    /// everything that was accepted, close the bus and read to the end, or
    /// [flush](crate::Broadcaster::flush) before you stop the watcher.
    ///
    /// # Examples
    ///
    /// ```
    /// use eventcast::Broadcaster;
    /// use std::time::{Duration, Instant};
    ///
    /// let bus = Broadcaster::new()?;
    /// let mut watcher = bus.watch()?;
    /// bus.publisher().publish(1)?;
    /// bus.flush(Duration::from_secs(10))?;
    /// watcher.stop();
    /// assert_eq!(watcher.events().collect::<Vec<_>>(), [1]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[doc(alias = "unsubscribe")]
    pub fn stop(&self) {
        self.receiver.bus.stop(&self.receiver.state);
    }

    /// Returns the reason why the watcher ended, or `None` if no receive has returned the end yet.
    ///
    /// # Examples
    ///
    /// ```
    /// use eventcast::bus::EndReason;
    /// use eventcast::Broadcaster;
    ///
    /// let bus = Broadcaster::<u8>::new()?;
    /// let mut watcher = bus.watch()?;
    /// bus.close();
    /// assert_eq!(watcher.end_reason(), None);
    /// assert!(watcher.recv().is_err());
    /// assert_eq!(watcher.end_reason(), Some(EndReason::Closed));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn end_reason(&self) -> Option<EndReason> {
        self.receiver.end_reason
    }

    /// Returns a handle with which another thread can stop this watcher, wait until it has been
    /// dropped, and read its counters.
    ///
    /// # Examples
    ///
    /// ```
    /// use eventcast::Broadcaster;
    /// use std::thread;
    ///
    /// let bus = Broadcaster::<u8>::new()?;
    /// let mut watcher = bus.watch()?;
    /// let handle = watcher.handle();
    /// let reading = thread::spawn(move || watcher.recv());
    /// handle.stop();
    /// assert!(reading.join().unwrap().is_err());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[doc(alias = "stop_handle")]
    pub fn handle(&self) -> WatchHandle {
        WatchHandle::new(&self.receiver)
    }

    /// Returns the number of events that can be received now. The result is a snapshot, because the
    /// dispatcher may add events at any time.
    ///
    /// While the dispatcher is offering events to this watcher, or one of the watcher's hooks is
    /// running, the count may not yet reflect events that the dispatcher has just sent or taken
    /// back.
    ///
    /// The count is [`WatcherStats::queued`], minus the events from the last receive that are still
    /// borrowed, plus the [prefix](crate::WatchBuilder::prefix) events that have not been received
    /// yet. A [`Lagged`](Delivery::Lagged) does not count, because it is not an event.
    ///
    /// # Examples
    ///
    /// ```
    /// use eventcast::Broadcaster;
    /// use std::time::{Duration, Instant};
    ///
    /// let bus = Broadcaster::new()?;
    /// let mut watcher = bus.watch()?;
    /// bus.publisher().publish_batch([1, 2, 3])?;
    /// bus.flush(Duration::from_secs(10))?;
    /// assert_eq!(watcher.len(), 3);
    /// watcher.recv()?;
    /// assert_eq!(watcher.len(), 2);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[doc(alias = "queued")]
    pub fn len(&self) -> usize {
        usize::try_from(self.receiver.unread()).unwrap_or(usize::MAX)
    }

    /// Returns whether [`len`](Self::len) is zero. An empty watcher may still have a
    /// [`Lagged`](Delivery::Lagged) or the end to deliver. [`try_recv`](Self::try_recv)
    /// distinguishes these cases.
    ///
    /// # Examples
    ///
    /// ```
    /// use eventcast::{Broadcaster, Delivery};
    ///
    /// let bus = Broadcaster::new()?;
    /// let mut watcher = bus.watch_builder().queue_capacity(1).watch()?;
    /// bus.publisher().publish_batch([1, 2])?;
    /// bus.shutdown();
    /// assert!(!watcher.is_empty());
    /// assert_eq!(watcher.recv()?, Delivery::Event(1));
    /// assert!(watcher.is_empty());
    /// assert_eq!(watcher.recv()?, Delivery::Lagged(1));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn is_empty(&self) -> bool {
        self.receiver.unread() == 0
    }

    /// Returns the watcher's counters.
    ///
    /// # Examples
    ///
    /// ```
    /// use eventcast::Broadcaster;
    /// use std::time::{Duration, Instant};
    ///
    /// let bus = Broadcaster::new()?;
    /// let mut watcher = bus.watch_builder().queue_capacity(2).watch()?;
    /// bus.publisher().publish_batch([1, 2, 3])?;
    /// bus.flush(Duration::from_secs(10))?;
    /// watcher.recv()?;
    /// let stats = watcher.stats();
    /// assert_eq!((stats.offered, stats.delivered, stats.queued), (3, 1, 1));
    /// assert_eq!(stats.dropped.incoming, 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn stats(&self) -> WatcherStats {
        self.receiver.state.stats()
    }

    pub(super) fn deadline(&self, timeout: Duration) -> Deadline {
        self.receiver.bus.clock.deadline(timeout)
    }

    pub(crate) fn receiver(&mut self) -> &mut MailboxReceiver<T> {
        &mut self.receiver
    }
}

impl<T> fmt::Debug for Watcher<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watcher").field("name", &self.receiver.state.name.text()).finish_non_exhaustive()
    }
}
