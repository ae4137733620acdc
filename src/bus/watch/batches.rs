//! Methods that receive consecutive events as a slice, without cloning them.

use std::time::Duration;

use crate::bus::mailbox::Next;
use crate::error::{RecvError, RecvTimeoutError, TryRecvError};

use super::delivery::Batch;
use super::watcher::Watcher;

impl<T> Watcher<T> {
    /// Waits for events, and returns events that arrived together as a slice, without cloning them.
    ///
    /// The slice is either the watcher's [prefix](crate::WatchBuilder::prefix) or a part of one of
    /// the dispatcher's batches. If the policy is
    /// [`DropOldest`](crate::OverflowPolicy::DropOldest), or the watcher
    /// [conflates](crate::WatchBuilder::conflate_by) events, such a part contains only one event.
    /// If the dispatcher has waited for the watcher, such a part contains at most one event or
    /// about three eighths of the queue's capacity, whichever is more.
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
    /// use eventcast::Broadcaster;
    ///
    /// let bus = Broadcaster::new()?;
    /// let mut watcher = bus.watch()?;
    /// bus.publisher().publish_batch([1, 2, 3])?;
    /// let batch = watcher.recv_batch()?;
    /// assert_eq!((batch.lagged, &*batch), (0, &[1, 2, 3][..]));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn recv_batch(&mut self) -> Result<Batch<'_, T>, RecvError> {
        let next = self.receiver.wait(None);
        self.batch(next).ok_or(RecvError)
    }

    /// Receives the events that are available now, like [`recv_batch`](Self::recv_batch), but never
    /// waits.
    ///
    /// # Errors
    ///
    /// - [`TryRecvError::Empty`] if there is nothing to receive now.
    /// - [`TryRecvError::Ended`] at the end of the stream.
    ///
    /// # Examples
    ///
    /// ```
    /// use eventcast::Broadcaster;
    /// use eventcast::error::TryRecvError;
    /// use std::time::Duration;
    ///
    /// let bus = Broadcaster::new()?;
    /// let mut watcher = bus.watch()?;
    /// assert_eq!(watcher.try_recv_batch().unwrap_err(), TryRecvError::Empty);
    /// bus.publisher().publish_batch([1, 2, 3])?;
    /// bus.flush(Duration::from_secs(10))?;
    /// assert_eq!(&*watcher.try_recv_batch()?, [1, 2, 3]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn try_recv_batch(&mut self) -> Result<Batch<'_, T>, TryRecvError> {
        let next = self.receiver.next_or_pull(1, false);
        self.batch(next).ok_or(if next == Next::End { TryRecvError::Ended } else { TryRecvError::Empty })
    }

    /// Waits for events like [`recv_batch`](Self::recv_batch), but for at most `timeout`, as
    /// measured by the bus's clock.
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
    /// use eventcast::Broadcaster;
    /// use eventcast::error::RecvTimeoutError;
    /// use std::time::Duration;
    ///
    /// let bus = Broadcaster::new()?;
    /// let mut watcher = bus.watch()?;
    /// let error = watcher.recv_batch_timeout(Duration::ZERO).unwrap_err();
    /// assert_eq!(error, RecvTimeoutError::Timeout);
    /// bus.publisher().publish_batch([1, 2, 3])?;
    /// assert_eq!(&*watcher.recv_batch_timeout(Duration::from_secs(10))?, [1, 2, 3]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn recv_batch_timeout(&mut self, timeout: Duration) -> Result<Batch<'_, T>, RecvTimeoutError> {
        let next = self.receiver.wait(self.deadline(timeout));
        let error = if next == Next::End { RecvTimeoutError::Ended } else { RecvTimeoutError::Timeout };
        self.batch(next).ok_or(error)
    }

    /// Waits for events asynchronously. See [`recv_batch`](Self::recv_batch).
    ///
    /// This method is cancel-safe. If the future is dropped before it completes, nothing has been
    /// received.
    ///
    /// # Errors
    ///
    /// Returns [`RecvError`] at the end of the stream, like [`recv`](Self::recv).
    ///
    /// # Examples
    ///
    /// ```
    /// use eventcast::Broadcaster;
    ///
    /// let bus = Broadcaster::new()?;
    /// let mut watcher = bus.watch()?;
    /// bus.publisher().publish_batch([1, 2, 3])?;
    /// let batch = futures::executor::block_on(watcher.recv_batch_async())?;
    /// assert_eq!((batch.lagged, &*batch), (0, &[1, 2, 3][..]));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn recv_batch_async(&mut self) -> impl Future<Output = Result<Batch<'_, T>, RecvError>> + Send
    where
        T: Send + Sync,
    {
        async move {
            let next = self.next_async().await;
            self.batch(next).ok_or(RecvError)
        }
    }

    fn batch(&mut self, next: Next) -> Option<Batch<'_, T>> {
        let lagged = match next {
            Next::Event => 0,
            // A batch can hold both the gap and the event after it, so a single call returns both.
            Next::Lagged(count) => count + self.receiver.take_behind_gap(),
            Next::Empty | Next::End => return None,
        };
        let events = self.receiver.events().len();
        self.receiver.borrow(events);
        Some(Batch::new(lagged, self.receiver.events(), self.receiver.current()))
    }
}
