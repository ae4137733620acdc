//! The watcher: a consumer receives its events here, one at a time or a slice at once.

use std::fmt;
use std::ops::Deref;
#[cfg(feature = "select")]
use std::sync::OnceLock;
use std::time::Duration;

use crate::bus::mailbox::{MailboxReceiver, Next};
use crate::bus::state::{Lifecycle, WatcherState};
use crate::clock::Deadline;
use crate::counters::WatcherStats;
use crate::error::{RecvError, RecvTimeoutError, TryRecvError};
use crate::sync::Arc;
#[cfg(feature = "select")]
use crate::sync::{Select, Signal};

/// An item that a watcher receives: an event, or the number of events that it lost at this place.
///
/// A loss is an item of the stream, not an error. The watcher receives it even if no event follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Delivery<T> {
    /// The next event.
    Event(T),
    /// The number of events that are missing between the last event and the next.
    Lagged(u64),
}

impl<T> Delivery<T> {
    /// Returns the event, or `None` if the delivery is a loss.
    ///
    /// # Examples
    ///
    /// ```
    /// use eventcast::Delivery;
    ///
    /// assert_eq!(Delivery::Event("a").event(), Some("a"));
    /// assert_eq!(Delivery::<&str>::Lagged(3).event(), None);
    /// ```
    pub fn event(self) -> Option<T> {
        match self {
            Self::Event(event) => Some(event),
            Self::Lagged(_) => None,
        }
    }

    /// Returns the same delivery with a reference to the event.
    pub fn as_ref(&self) -> Delivery<&T> {
        match self {
            Self::Event(event) => Delivery::Event(event),
            Self::Lagged(count) => Delivery::Lagged(*count),
        }
    }
}

/// Events that are received together, and the number of events that were lost just before them. The
/// events lie in the memory that all watchers share.
///
/// A batch derefs to a slice, which is empty if only a loss is reported. The watcher gives the room
/// in the queue back when the next receive begins.
pub struct Batch<'w, T> {
    /// The number of events that were lost just before the first one.
    pub lagged: u64,
    events: &'w [T],
}

impl<T> Deref for Batch<'_, T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        self.events
    }
}

impl<'w, T> IntoIterator for Batch<'w, T> {
    type Item = &'w T;
    type IntoIter = std::slice::Iter<'w, T>;

    fn into_iter(self) -> Self::IntoIter {
        self.events.iter()
    }
}

impl<T: fmt::Debug> fmt::Debug for Batch<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Batch").field("lagged", &self.lagged).field("events", &self.events).finish()
    }
}

/// A handle with which one consumer receives events. It is `Send` and `Unpin`, and serves one
/// thread at a time.
///
/// A watcher receives every event that was published after [`watch`](crate::Broadcaster::watch)
/// returned, in the one order of the bus, except the events that its
/// [policy](crate::OverflowPolicy) gave up. Each loss shows as [`Delivery::Lagged`] at its place.
/// After [`stop`](Self::stop), and after the end of the bus, the queued events stay readable. Then
/// every receive returns the end.
///
/// Dropping a watcher never waits. The drop empties the queue at once, and the events in the queue
/// count as dropped (stopped), or as abandoned after a shutdown by deadline.
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
/// let mut watcher = bus.watch_builder().queue_len(2).watch()?;
/// bus.publisher().publish_batch(vec![1, 2, 3])?;
/// bus.close();
/// assert_eq!(watcher.recv()?, Delivery::Event(1));
/// assert_eq!(watcher.recv()?, Delivery::Event(2));
/// assert_eq!(watcher.recv()?, Delivery::Lagged(1));
/// assert!(watcher.recv().is_err());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[doc(alias = "Interface")]
#[doc(alias = "ResultChan")]
pub struct Watcher<T> {
    receiver: MailboxReceiver<T>,
    /// The token on which a crossbeam `Select` waits, made when the watcher is first added to one.
    #[cfg(feature = "select")]
    signal: OnceLock<Signal>,
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

impl<T: Clone + Send + Sync + 'static> Watcher<T> {
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
    /// Waits until a delivery comes, or the end. On a thread of the same bus (in a handler, filter
    /// or hook) the wait may never end. In an async task this blocks the executor's thread, so use
    /// `recv_async`, or the watcher as a `Stream`.
    pub fn recv(&mut self) -> Result<Delivery<T>, RecvError> {
        let next = self.receiver.wait(None);
        self.delivery(next).ok_or(RecvError)
    }

    /// Returns the next delivery if there is one now. Never waits.
    ///
    /// # Errors
    ///
    /// - [`TryRecvError::Empty`] if there is nothing now.
    /// - [`TryRecvError::Stopped`] at the end.
    pub fn try_recv(&mut self) -> Result<Delivery<T>, TryRecvError> {
        let next = self.receiver.next();
        self.delivery(next).ok_or(if next == Next::End { TryRecvError::Stopped } else { TryRecvError::Empty })
    }

    /// Waits for the next delivery for at most `timeout`, by the bus's clock.
    ///
    /// # Errors
    ///
    /// - [`RecvTimeoutError::Timeout`] if nothing came in time.
    /// - [`RecvTimeoutError::Stopped`] at the end.
    ///
    /// # Blocking
    ///
    /// Waits for at most `timeout`. In an async task, put `recv_async` under your runtime's
    /// timeout.
    pub fn recv_timeout(&mut self, timeout: Duration) -> Result<Delivery<T>, RecvTimeoutError> {
        let next = self.receiver.wait(self.deadline(timeout));
        let error = if next == Next::End { RecvTimeoutError::Stopped } else { RecvTimeoutError::Timeout };
        self.delivery(next).ok_or(error)
    }

    /// Waits for the next delivery, without cloning the event. The watcher gives the event's room
    /// in the queue back when the next receive begins.
    ///
    /// # Errors
    ///
    /// [`RecvError`] at the end, as [`recv`](Self::recv).
    ///
    /// # Blocking
    ///
    /// Waits as [`recv`](Self::recv) does.
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

    /// Waits for events, and receives events that came together as one slice, without cloning.
    ///
    /// The slice is a part of a batch of the dispatcher. It has one event if the policy is
    /// [`DropOldest`](crate::OverflowPolicy::DropOldest), and about a quarter of the queue's length
    /// at most if the dispatcher has waited for room.
    ///
    /// # Errors
    ///
    /// [`RecvError`] at the end, as [`recv`](Self::recv).
    ///
    /// # Blocking
    ///
    /// Waits as [`recv`](Self::recv) does.
    ///
    /// # Examples
    ///
    /// ```
    /// use eventcast::Broadcaster;
    ///
    /// let bus = Broadcaster::new()?;
    /// let mut watcher = bus.watch()?;
    /// bus.publisher().publish_batch(vec![1, 2, 3])?;
    /// let batch = watcher.recv_batch()?;
    /// assert_eq!((batch.lagged, &*batch), (0, &[1, 2, 3][..]));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn recv_batch(&mut self) -> Result<Batch<'_, T>, RecvError> {
        let next = self.receiver.wait(None);
        self.batch(next).ok_or(RecvError)
    }

    /// Receives the events that are there now, as [`recv_batch`](Self::recv_batch) does. Never
    /// waits.
    ///
    /// # Errors
    ///
    /// - [`TryRecvError::Empty`] if there is nothing now.
    /// - [`TryRecvError::Stopped`] at the end.
    pub fn try_recv_batch(&mut self) -> Result<Batch<'_, T>, TryRecvError> {
        let next = self.receiver.next();
        self.batch(next).ok_or(if next == Next::End { TryRecvError::Stopped } else { TryRecvError::Empty })
    }

    /// Waits for events as [`recv_batch`](Self::recv_batch) does, for at most `timeout` by the
    /// bus's clock.
    ///
    /// # Errors
    ///
    /// - [`RecvTimeoutError::Timeout`] if nothing came in time.
    /// - [`RecvTimeoutError::Stopped`] at the end.
    ///
    /// # Blocking
    ///
    /// Waits for at most `timeout`. In an async task, put `recv_async` under your runtime's
    /// timeout.
    pub fn recv_batch_timeout(&mut self, timeout: Duration) -> Result<Batch<'_, T>, RecvTimeoutError> {
        let next = self.receiver.wait(self.deadline(timeout));
        let error = if next == Next::End { RecvTimeoutError::Stopped } else { RecvTimeoutError::Timeout };
        self.batch(next).ok_or(error)
    }

    /// Returns an iterator over events alone, which waits and ends as [`recv`](Self::recv) does.
    /// The iterator passes over losses, which stay counted in [`stats`](Self::stats).
    pub fn events(&mut self) -> Events<'_, T> {
        Events { watcher: self }
    }

    /// Stops the watcher. The bus offers it nothing more. The queued events stay readable, then
    /// comes the end. Never waits.
    pub fn stop(&self) {
        self.receiver.lifecycle.stop(&self.receiver.state);
    }

    /// Returns a handle that stops this watcher from another thread, as [`stop`](Self::stop) does.
    pub fn stop_handle(&self) -> StopHandle {
        StopHandle { state: self.receiver.state.clone(), lifecycle: self.receiver.lifecycle.clone() }
    }

    /// Returns the watcher's counters.
    pub fn stats(&self) -> WatcherStats {
        self.receiver.state.stats()
    }

    /// Adds "something to receive, or the end" to a crossbeam [`Select`], and returns the
    /// operation's index.
    ///
    /// This is for the readiness mode ([`Select::ready`] and its like). When the `Select` returns
    /// the index, receive with [`try_recv`](Self::try_recv) until the watcher is empty. The
    /// `Select` may also return the index without a reason. It always does while events of the last
    /// receive are borrowed, because only the next receive gives their room back. Build a new
    /// `Select` for each wait, because it borrows the watcher.
    ///
    /// # Examples
    ///
    /// ```
    /// use crossbeam_channel::{Select, unbounded};
    /// use eventcast::error::TryRecvError;
    /// use eventcast::{Broadcaster, Delivery};
    ///
    /// let bus = Broadcaster::new()?;
    /// let mut watcher = bus.watch()?;
    /// let (orders, incoming) = unbounded();
    /// bus.publisher().publish("event")?;
    /// orders.send("order")?;
    /// drop(orders);
    /// bus.close();
    ///
    /// let mut seen = Vec::new();
    /// let (mut watching, mut listening) = (true, true);
    /// while watching || listening {
    ///     let mut select = Select::new();
    ///     let event = if watching { Some(watcher.add_to(&mut select)) } else { None };
    ///     let order = if listening { Some(select.recv(&incoming)) } else { None };
    ///     let ready = Some(select.ready());
    ///     if ready == event {
    ///         loop {
    ///             match watcher.try_recv() {
    ///                 Ok(Delivery::Event(event)) => seen.push(event),
    ///                 Ok(Delivery::Lagged(_)) => {}
    ///                 Err(TryRecvError::Empty) => break,
    ///                 Err(TryRecvError::Stopped) => {
    ///                     watching = false;
    ///                     break;
    ///                 }
    ///             }
    ///         }
    ///     } else if ready == order {
    ///         match incoming.recv() {
    ///             Ok(order) => seen.push(order),
    ///             Err(_) => listening = false,
    ///         }
    ///     }
    /// }
    /// seen.sort_unstable();
    /// assert_eq!(seen, ["event", "order"]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[cfg(feature = "select")]
    pub fn add_to<'a>(&'a self, select: &mut Select<'a>) -> usize {
        let signal = self.signal.get_or_init(Signal::new);
        // The token of the last call is void, because the caller may have received since then what
        // it announced. If something is left, `notify` calls the waker at once.
        signal.clear();
        self.receiver.notify(signal.waker());
        signal.add_to(select)
    }

    fn deadline(&self, timeout: Duration) -> Deadline {
        self.receiver.lifecycle.clock.deadline(timeout)
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

    pub(crate) fn receiver(&mut self) -> &mut MailboxReceiver<T> {
        &mut self.receiver
    }

    /// Clones the first event of the current slice. The event is borrowed first, so that the next
    /// receive passes over it even if its `Clone` panics.
    fn take(&mut self) -> T {
        self.receiver.borrow(1);
        let event = self.receiver.events()[0].clone();
        self.receiver.release();
        event
    }

    fn batch(&mut self, next: Next) -> Option<Batch<'_, T>> {
        let lagged = match next {
            Next::Event => 0,
            Next::Lagged(count) => count,
            Next::Empty | Next::End => return None,
        };
        let events = self.receiver.events().len();
        self.receiver.borrow(events);
        Some(Batch { lagged, events: self.receiver.events() })
    }
}

impl<T> fmt::Debug for Watcher<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watcher").field("name", &self.receiver.state.name).finish_non_exhaustive()
    }
}

/// An iterator over the events of a watcher, without its losses. See [`Watcher::events`].
#[derive(Debug)]
pub struct Events<'w, T> {
    watcher: &'w mut Watcher<T>,
}

impl<T: Clone + Send + Sync + 'static> Iterator for Events<'_, T> {
    type Item = T;

    fn next(&mut self) -> Option<T> {
        loop {
            if let Delivery::Event(event) = self.watcher.recv().ok()? {
                return Some(event);
            }
        }
    }
}

/// An iterator over the deliveries of a watcher that it owns. It waits and ends as
/// [`Watcher::recv`] does.
#[derive(Debug)]
pub struct IntoIter<T> {
    watcher: Watcher<T>,
}

impl<T: Clone + Send + Sync + 'static> Iterator for IntoIter<T> {
    type Item = Delivery<T>;

    fn next(&mut self) -> Option<Delivery<T>> {
        self.watcher.recv().ok()
    }
}

impl<T: Clone + Send + Sync + 'static> IntoIterator for Watcher<T> {
    type Item = Delivery<T>;
    type IntoIter = IntoIter<T>;

    fn into_iter(self) -> IntoIter<T> {
        IntoIter { watcher: self }
    }
}

/// An iterator over the deliveries of a watcher that the caller keeps. It waits and ends as
/// [`Watcher::recv`] does.
#[derive(Debug)]
pub struct Iter<'w, T> {
    watcher: &'w mut Watcher<T>,
}

impl<T: Clone + Send + Sync + 'static> Iterator for Iter<'_, T> {
    type Item = Delivery<T>;

    fn next(&mut self) -> Option<Delivery<T>> {
        self.watcher.recv().ok()
    }
}

#[allow(clippy::into_iter_without_iter, reason = "`iter_mut` would say nothing that `&mut watcher` does not")]
impl<'w, T: Clone + Send + Sync + 'static> IntoIterator for &'w mut Watcher<T> {
    type Item = Delivery<T>;
    type IntoIter = Iter<'w, T>;

    fn into_iter(self) -> Iter<'w, T> {
        Iter { watcher: self }
    }
}

/// A handle that stops a watcher from another thread. It keeps neither the watcher nor the bus
/// open.
#[derive(Clone)]
pub struct StopHandle {
    state: Arc<WatcherState>,
    lifecycle: Arc<Lifecycle>,
}

impl StopHandle {
    /// Stops the watcher as [`Watcher::stop`] does. Idempotent. Never waits.
    pub fn stop(&self) {
        self.lifecycle.stop(&self.state);
    }
}

impl fmt::Debug for StopHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StopHandle").field("name", &self.state.name).finish_non_exhaustive()
    }
}
