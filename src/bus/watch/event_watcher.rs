//! A watcher that returns only events, and skips losses.

use std::fmt;
use std::iter::FilterMap;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use futures_core::{FusedStream, Stream};

use crate::clock::time_until;
use crate::error::{RecvError, RecvTimeoutError, TryRecvError};

use super::delivery::Delivery;
use super::iter::{Events, IntoIter};
use super::watcher::Watcher;

impl<T> Watcher<T> {
    /// Converts the watcher into an [`EventWatcher`], which returns only events. The `EventWatcher`
    /// skips losses, but [`stats`](Self::stats) still counts them.
    ///
    /// Use this method if the watcher has a lossless policy, such as
    /// [`Wait`](crate::OverflowPolicy::Wait) or [`Evict`](crate::OverflowPolicy::Evict), or if the
    /// reader does not care about losses. To keep the watcher, use the [`events`](Self::events)
    /// iterator instead.
    ///
    /// # Examples
    ///
    /// ```
    /// use eventcast::{Broadcaster, OverflowPolicy};
    ///
    /// let bus = Broadcaster::new()?;
    /// let mut events = bus.watch_builder().overflow(OverflowPolicy::Wait).watch()?.into_events();
    /// bus.publisher().publish_batch([1, 2])?;
    /// assert_eq!((events.recv()?, events.recv()?), (1, 2));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn into_events(self) -> EventWatcher<T> {
        EventWatcher { watcher: self }
    }
}

/// A watcher that returns only events. An `EventWatcher` returns a `T` where a [`Watcher`] returns
/// a `Delivery<T>`. Created by [`Watcher::into_events`].
///
/// An `EventWatcher` skips losses, but they are still counted in the [`stats`](Watcher::stats) of
/// the underlying [`watcher`](Self::watcher). In all other respects, including order, end and
/// cancel safety, it behaves like the underlying watcher.
///
/// An `EventWatcher` implements `Stream` and [`IntoIterator`], but not `Iterator`. If it
/// implemented both `Stream` and `Iterator`, `events.next()` would be ambiguous.
///
/// # Examples
///
/// ```
/// use eventcast::Broadcaster;
/// use eventcast::error::TryRecvError;
///
/// let bus = Broadcaster::new_inline();
/// let mut events = bus.watch_builder().queue_capacity(2).watch()?.into_events();
/// bus.publisher().publish_batch([1, 2, 3])?;
/// assert_eq!(events.try_iter().collect::<Vec<_>>(), [1, 2]);
/// // The queue had no capacity for the third event.
/// assert_eq!(events.try_recv(), Err(TryRecvError::Empty));
/// assert_eq!(events.watcher().stats().dropped.incoming, 1);
/// bus.publisher().publish(4)?;
/// assert_eq!(events.try_recv(), Ok(4));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use = "a watcher that is dropped receives nothing"]
pub struct EventWatcher<T> {
    watcher: Watcher<T>,
}

impl<T: Clone> EventWatcher<T> {
    /// Waits for the next event, and clones it.
    ///
    /// # Errors
    ///
    /// Returns [`RecvError`] at the end of the stream, like [`Watcher::recv`].
    ///
    /// # Panics
    ///
    /// Panics only if the event's `Clone` panics. The event then counts as delivered.
    ///
    /// # Blocking
    ///
    /// Blocks like [`Watcher::recv`]. In an async task, use `recv_async` or the `Stream`
    /// implementation instead.
    ///
    /// # Examples
    ///
    /// ```
    /// use eventcast::Broadcaster;
    /// use eventcast::error::RecvError;
    ///
    /// let bus = Broadcaster::new()?;
    /// let mut events = bus.watch()?.into_events();
    /// bus.publisher().publish_gap(3)?;
    /// bus.publisher().publish(7)?;
    /// bus.close();
    /// assert_eq!(events.recv(), Ok(7));
    /// assert_eq!(events.recv(), Err(RecvError));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn recv(&mut self) -> Result<T, RecvError> {
        self.watcher.events().next().ok_or(RecvError)
    }

    /// Returns the next event if one is available now. Never waits.
    ///
    /// # Errors
    ///
    /// - [`TryRecvError::Empty`] if no event is available now.
    /// - [`TryRecvError::Ended`] at the end of the stream.
    ///
    /// # Examples
    ///
    /// ```
    /// use eventcast::Broadcaster;
    /// use eventcast::error::TryRecvError;
    ///
    /// let bus = Broadcaster::new_inline();
    /// let mut events = bus.watch()?.into_events();
    /// assert_eq!(events.try_recv(), Err(TryRecvError::Empty));
    /// bus.publisher().publish(7)?;
    /// assert_eq!(events.try_recv(), Ok(7));
    /// bus.close();
    /// assert_eq!(events.try_recv(), Err(TryRecvError::Ended));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn try_recv(&mut self) -> Result<T, TryRecvError> {
        loop {
            if let Delivery::Event(event) = self.watcher.try_recv()? {
                return Ok(event);
            }
        }
    }

    /// Waits for the next event for at most `timeout`, as measured by the bus's clock. Skipping a
    /// loss does not extend the timeout.
    ///
    /// # Errors
    ///
    /// - [`RecvTimeoutError::Timeout`] if no event arrived in time.
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
    /// use eventcast::Broadcaster;
    /// use eventcast::error::RecvTimeoutError;
    /// use std::time::{Duration, Instant};
    ///
    /// let bus = Broadcaster::new()?;
    /// let mut events = bus.watch()?.into_events();
    /// assert_eq!(events.recv_timeout(Duration::ZERO), Err(RecvTimeoutError::Timeout));
    /// bus.publisher().publish(7)?;
    /// assert_eq!(events.recv_timeout(Duration::from_secs(10)), Ok(7));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn recv_timeout(&mut self, timeout: Duration) -> Result<T, RecvTimeoutError> {
        let deadline = self.watcher.deadline(timeout);
        loop {
            if let Delivery::Event(event) = self.watcher.recv_until(deadline)? {
                return Ok(event);
            }
        }
    }

    /// Waits for the next event until `deadline`. Skipping a loss does not extend the wait.
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
    /// All events that arrive within ten milliseconds, provided that the reader is faster than the
    /// publishers:
    ///
    /// ```
    /// use eventcast::Broadcaster;
    /// use std::time::{Duration, Instant};
    ///
    /// let bus = Broadcaster::new()?;
    /// let mut events = bus.watch()?.into_events();
    /// bus.publisher().publish_batch([1, 2])?;
    /// let deadline = Instant::now() + Duration::from_millis(10);
    /// # let deadline = deadline + Duration::from_millis(500);
    /// let arrived = std::iter::from_fn(|| events.recv_deadline(deadline).ok());
    /// assert_eq!(arrived.collect::<Vec<_>>(), [1, 2]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn recv_deadline(&mut self, deadline: Instant) -> Result<T, RecvTimeoutError> {
        self.recv_timeout(time_until(deadline))
    }

    /// Returns an iterator over the events that are in the queue now. The iterator never waits.
    /// Like [`Watcher::try_iter`], it may return more events after a `None`.
    ///
    /// # Examples
    ///
    /// ```
    /// use eventcast::Broadcaster;
    ///
    /// let bus = Broadcaster::new_inline();
    /// let mut events = bus.watch()?.into_events();
    /// bus.publisher().publish_batch([1, 2])?;
    /// assert_eq!(events.try_iter().sum::<u32>(), 3);
    /// assert_eq!(events.try_iter().next(), None);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn try_iter(&mut self) -> impl Iterator<Item = T> {
        self.watcher.try_iter().filter_map(Delivery::event)
    }
}

impl<T> EventWatcher<T> {
    /// Waits for the next event asynchronously. See [`recv`](Self::recv).
    ///
    /// This method is cancel-safe. If the future is dropped before it completes, no event has been
    /// received, but losses may have been skipped.
    ///
    /// # Errors
    ///
    /// Returns [`RecvError`] at the end of the stream, like [`recv`](Self::recv).
    ///
    /// # Panics
    ///
    /// Panics only if the event's `Clone` panics. The event then counts as delivered.
    ///
    /// # Examples
    ///
    /// ```
    /// use eventcast::Broadcaster;
    ///
    /// let bus = Broadcaster::new()?;
    /// let mut events = bus.watch()?.into_events();
    /// bus.publisher().try_publish(7)?;
    /// assert_eq!(futures::executor::block_on(events.recv_async()), Ok(7));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn recv_async(&mut self) -> impl Future<Output = Result<T, RecvError>> + Send
    where
        T: Clone + Send + Sync,
    {
        async move {
            loop {
                if let Delivery::Event(event) = self.watcher.recv_async().await? {
                    return Ok(event);
                }
            }
        }
    }

    /// Returns the underlying watcher, for example to read its length, counters or position, or to
    /// stop it.
    ///
    /// # Examples
    ///
    /// ```
    /// use eventcast::Broadcaster;
    ///
    /// let bus = Broadcaster::new_inline();
    /// let mut events = bus.watch()?.into_events();
    /// bus.publisher().publish_batch([1, 2])?;
    /// assert_eq!(events.watcher().len(), 2);
    /// events.watcher().stop();
    /// assert_eq!((&mut events).into_iter().collect::<Vec<_>>(), [1, 2]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn watcher(&self) -> &Watcher<T> {
        &self.watcher
    }

    /// Converts the `EventWatcher` back into the underlying watcher, which returns the losses that
    /// have not been skipped yet.
    ///
    /// # Examples
    ///
    /// ```
    /// use eventcast::{Broadcaster, Delivery};
    ///
    /// let bus = Broadcaster::new_inline();
    /// let mut events = bus.watch_builder().queue_capacity(1).watch()?.into_events();
    /// bus.publisher().publish_batch([1, 2])?;
    /// assert_eq!(events.recv()?, 1);
    /// assert_eq!(events.into_watcher().recv()?, Delivery::Lagged(1));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn into_watcher(self) -> Watcher<T> {
        self.watcher
    }
}

/// A stream of the events that [`recv_async`](EventWatcher::recv_async) returns. After the end,
/// every further call to `next()` returns the end again.
///
/// # Examples
///
/// ```
/// use eventcast::Broadcaster;
/// use futures::StreamExt;
///
/// let bus = Broadcaster::new()?;
/// let events = bus.watch()?.into_events();
/// bus.publisher().publish_batch([1, 2, 3])?;
/// bus.close();
/// let doubled = futures::executor::block_on(events.map(|n| 2 * n).collect::<Vec<_>>());
/// assert_eq!(doubled, [2, 4, 6]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
impl<T: Clone> Stream for EventWatcher<T> {
    type Item = T;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<T>> {
        let watcher = &mut self.get_mut().watcher;
        loop {
            match ready!(Pin::new(&mut *watcher).poll_next(cx)) {
                Some(Delivery::Event(event)) => return Poll::Ready(Some(event)),
                Some(Delivery::Lagged(_)) => {}
                None => return Poll::Ready(None),
            }
        }
    }
}

impl<T: Clone> FusedStream for EventWatcher<T> {
    /// Returns whether a receive has returned the end, like [`Watcher::end_reason`].
    fn is_terminated(&self) -> bool {
        self.watcher.is_terminated()
    }
}

impl<T: Clone> IntoIterator for EventWatcher<T> {
    type Item = T;
    type IntoIter = FilterMap<IntoIter<T>, fn(Delivery<T>) -> Option<T>>;

    /// Returns an iterator over the events up to the end of the stream. The iterator blocks like
    /// [`recv`](Self::recv).
    fn into_iter(self) -> Self::IntoIter {
        self.watcher.into_iter().filter_map(Delivery::event)
    }
}

#[allow(clippy::into_iter_without_iter, reason = "`iter_mut` would say nothing that `&mut events` does not")]
impl<'w, T: Clone> IntoIterator for &'w mut EventWatcher<T> {
    type Item = T;
    type IntoIter = Events<'w, T>;

    /// Returns an iterator over the events up to the end of the stream. The iterator blocks like
    /// [`recv`](EventWatcher::recv).
    fn into_iter(self) -> Events<'w, T> {
        self.watcher.events()
    }
}

impl<T> fmt::Debug for EventWatcher<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EventWatcher").field("watcher", &self.watcher).finish()
    }
}
