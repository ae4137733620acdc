//! The watcher: a consumer receives its events here, one at a time or as slices.

use std::fmt;
#[cfg(feature = "select")]
use std::sync::OnceLock;
use std::time::Duration;

use crate::bus::counters::WatcherStats;
use crate::bus::mailbox::{MailboxReceiver, Next};
use crate::bus::state::EndReason;
use crate::clock::Deadline;
use crate::error::{RecvError, RecvTimeoutError, TryRecvError};
#[cfg(feature = "select")]
use crate::sync::Signal;

use super::delivery::Delivery;
use super::handler::WatchHandle;

/// A handle with which one consumer receives events. It is `Send` and `Unpin`, and serves one
/// thread at a time.
///
/// # Ordering
///
/// The events of all publishers are in a single order, and every watcher receives its events in
/// this order. The bus offers the watcher every event whose publish begins after
/// [`watch`](crate::Broadcaster::watch) has returned. Unless the watcher
/// [starts in the past](crate::WatchBuilder::start), the bus offers it no event whose publish had
/// returned before `watch` was called. Everything that happened before a publish happens before the
/// receive of its event.
///
/// # Overflow
///
/// The queue holds at most `queue_capacity` events, not counting events from the history. If it is
/// full, the watcher's [policy](crate::OverflowPolicy) drops an event, ends the watcher, or makes
/// the dispatcher wait. A dispatcher that waits delays all watchers. Events that the reader has
/// taken out and is still reading count too, except with
/// [`DropOldest`](crate::OverflowPolicy::DropOldest).
///
/// # Gaps
///
/// Events lost by the policy, and events that the bus does not have for the watcher (part of a
/// published gap, or no longer in the history), are reported as [`Delivery::Lagged`] with their
/// number, at the point in the sequence where they are missing. A `Lagged` is delivered even if no
/// event comes after it. It is neither an error nor the end, and the next receive continues after
/// it. An event that the filter refused is not a loss. Events lost when the watcher is stopped or
/// dropped are counted in [`stats`](Self::stats), but not reported.
///
/// # Ending
///
/// A watcher does not keep the bus open. It ends after [`stop`](Self::stop), after its policy has
/// [evicted](crate::OverflowPolicy::Evict) it, and after the bus has ended. The queued events stay
/// readable, and after them every receive returns the end. The bus ends only after its last event
/// has fitted into the queue of every watcher that it waits for. Read two watchers with the policy
/// `Wait` concurrently, because if you read only one, it does not reach its end.
///
/// Dropping a watcher empties its queue immediately. The events in the queue count as dropped
/// (stopped), or as abandoned after a shutdown by deadline.
///
/// # Blocking
///
/// [`recv`](Self::recv), [`recv_ref`](Self::recv_ref) and [`recv_batch`](Self::recv_batch) block
/// the thread until there is a delivery or the end, and so do the iterators. The methods with
/// `_timeout` in their names block for a limited time, by the bus's clock. All other methods never
/// wait for an event, a publisher or the dispatcher, nor does dropping the watcher.
///
/// # Cancel safety
///
/// If a future of [`recv_async`](Self::recv_async) or [`recv_batch_async`](Self::recv_batch_async),
/// or a `next()` of the stream, is dropped before it is ready, it has taken nothing.
///
/// # Iterators
///
/// A watcher is [`IntoIterator`] but not `Iterator`, because it is also a `Stream` of the same
/// items, and `watcher.next()` would then be ambiguous.
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
    /// The token on which a crossbeam `Select` waits, made when the watcher is first added to one.
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

impl<T: Clone> Watcher<T> {
    /// Waits for the next delivery. This clones the event. [`recv_ref`](Self::recv_ref) and
    /// [`recv_batch`](Self::recv_batch) do not.
    ///
    /// # Errors
    ///
    /// [`RecvError`] at the end: the watcher was stopped or the bus has ended, and everything
    /// queued has been received. A loss is never an error.
    ///
    /// # Panics
    ///
    /// Only if the event's `Clone` panics. The event then counts as delivered.
    ///
    /// # Blocking
    ///
    /// Waits for a delivery or the end. On a thread of the same bus (in a handler, filter or hook)
    /// the wait may never end. In an async task this blocks the executor's thread, so use
    /// `recv_async`, or the watcher as a `Stream`.
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

    /// Returns the next delivery if there is one now. Never waits.
    ///
    /// # Errors
    ///
    /// - [`TryRecvError::Empty`] if there is nothing now.
    /// - [`TryRecvError::Ended`] at the end.
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
        let next = self.receiver.next_or_pull(1);
        self.delivery(next).ok_or(if next == Next::End { TryRecvError::Ended } else { TryRecvError::Empty })
    }

    /// Waits for the next delivery for at most `timeout`, by the bus's clock.
    ///
    /// # Errors
    ///
    /// - [`RecvTimeoutError::Timeout`] if nothing arrived in time.
    /// - [`RecvTimeoutError::Ended`] at the end.
    ///
    /// # Blocking
    ///
    /// Waits for at most `timeout`. In an async task, put `recv_async` under your runtime's
    /// timeout.
    ///
    /// # Examples
    ///
    /// ```
    /// use eventcast::error::RecvTimeoutError;
    /// use eventcast::{Broadcaster, Delivery};
    /// use std::time::Duration;
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

    pub(super) fn recv_until(&mut self, deadline: Deadline) -> Result<Delivery<T>, RecvTimeoutError> {
        let next = self.receiver.wait(deadline);
        let error = if next == Next::End { RecvTimeoutError::Ended } else { RecvTimeoutError::Timeout };
        self.delivery(next).ok_or(error)
    }

    /// Returns what a cloning receive gives the caller, or `None` if there is nothing now or at the
    /// end.
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
    /// Waits for the next delivery, without cloning the event. The watcher returns the event's
    /// capacity to the queue when the next receive begins.
    ///
    /// # Errors
    ///
    /// [`RecvError`] at the end, like [`recv`](Self::recv).
    ///
    /// # Blocking
    ///
    /// Waits like [`recv`](Self::recv).
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

    /// Stops the watcher. The bus offers it nothing more. The events in its queue stay readable,
    /// followed by the end. Never waits.
    ///
    /// Published events that the dispatcher has not offered yet are not in the queue. To read
    /// everything that was accepted, close the bus and read to the end, or
    /// [flush](crate::Broadcaster::flush) before you stop the watcher.
    ///
    /// # Examples
    ///
    /// ```
    /// use eventcast::Broadcaster;
    /// use std::time::Duration;
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

    /// Returns the reason why the watcher ended, or `None` until a receive has returned the end.
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

    /// Returns a handle that stops this watcher, waits until it has been dropped, and reads its
    /// counters, on another thread.
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

    /// Returns the number of events that can be received now. This is a snapshot, because the
    /// dispatcher may add events at any time.
    ///
    /// While the dispatcher offers events to this watcher, and while a hook of the watcher runs,
    /// the count may not yet reflect events that the dispatcher has just sent or taken back.
    ///
    /// The count is [`WatcherStats::queued`], minus the events from the last receive that are still
    /// borrowed, plus the events of a [prefix](crate::WatchBuilder::prefix) that have not been
    /// received. A [`Lagged`](Delivery::Lagged) does not count, because it is not an event.
    ///
    /// # Examples
    ///
    /// ```
    /// use eventcast::Broadcaster;
    /// use std::time::Duration;
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
    /// [`Lagged`](Delivery::Lagged) to deliver, or the end. [`try_recv`](Self::try_recv)
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
    /// use std::time::Duration;
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
        f.debug_struct("Watcher").field("name", &self.receiver.state.name).finish_non_exhaustive()
    }
}
