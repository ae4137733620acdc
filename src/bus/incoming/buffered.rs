//! A publisher that collects events and publishes them in batches.

use std::fmt;
use std::mem;

use crate::error::PublishError::{self, Closed, Full};

use super::publisher::Publisher;

/// A publisher that collects events in a buffer, and publishes them as one batch. Created by
/// [`Publisher::buffered`].
///
/// Publishing a batch costs little more than publishing a single event, so a buffer makes bursts
/// cheaper. In exchange, no watcher receives an event until its batch is published. A batch is
/// published when the buffer is full, by [`flush`](Self::flush), and when the
/// `BufferedPublisher` is dropped. Like [`BufWriter`](std::io::BufWriter), a `BufferedPublisher`
/// publishes nothing on its own after some time has passed.
///
/// # Ordering
///
/// The events of one `BufferedPublisher` keep their order. They take their place among the events
/// of other publishers when their batch is published. The bus places no other publisher's event
/// between the events of a batch, except on an inline bus while a watcher is full (see
/// [`publish_batch`](Publisher::publish_batch)).
///
/// # Dropping
///
/// Dropping a `BufferedPublisher` publishes the events in the buffer like
/// [`try_flush`](Self::try_flush), also while a panic unwinds. Events that are refused are dropped,
/// and counted as [`rejected_full`](crate::stats::BusStats::rejected_full) or
/// [`rejected_closed`](crate::stats::BusStats::rejected_closed). If no event may be lost, call
/// [`flush`](Self::flush) first, which waits for capacity and returns the error. To keep the events
/// instead of publishing them, call [`into_events`](Self::into_events).
///
/// # Blocking
///
/// [`publish`](Self::publish) and [`flush`](Self::flush) block under the same conditions as
/// [`Publisher::publish`], and like that method never wait on a thread of the bus or inside a call
/// to an inline bus. Dropping never waits for capacity. In an async task, await
/// [`Publisher::ready`] and then call [`try_flush`](Self::try_flush) before the buffer is full.
///
/// # Examples
///
/// ```
/// use eventcast::Broadcaster;
///
/// let bus = Broadcaster::new_inline();
/// let mut watcher = bus.watch()?;
/// let mut buffered = bus.publisher().buffered(3);
/// for number in 1..=4 {
///     buffered.publish(number)?;
/// }
/// assert_eq!(&*watcher.try_recv_batch()?, [1, 2, 3]);
/// assert_eq!(buffered.buffer(), [4]);
/// buffered.flush()?;
/// assert_eq!(&*watcher.try_recv_batch()?, [4]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use = "events are buffered only by `publish`"]
pub struct BufferedPublisher<T: Clone + Send + Sync + 'static> {
    publisher: Publisher<T>,
    events: Vec<T>,
    capacity: usize,
}

/// A publish method for batches.
type Publish<T> = fn(&Publisher<T>, Vec<T>) -> Result<(), PublishError<Vec<T>>>;

impl<T: Clone + Send + Sync + 'static> Publisher<T> {
    /// Returns a publisher that collects events, and publishes them as one batch when it holds
    /// `events` of them.
    ///
    /// A number of 0 counts as 1, with which each event is published immediately. A number above
    /// [`max_batch`](crate::BusOptions::max_batch) counts as `max_batch`, because the bus accepts a
    /// larger batch only in pieces.
    ///
    /// # Examples
    ///
    /// ```
    /// use eventcast::Broadcaster;
    ///
    /// let bus = Broadcaster::new()?;
    /// let mut watcher = bus.watch()?;
    /// let mut buffered = bus.publisher().buffered(64);
    /// for number in 0..1000 {
    ///     buffered.publish(number)?;
    /// }
    /// drop(buffered);
    /// bus.close();
    /// assert!(watcher.events().eq(0..1000));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[doc(alias = "BufWriter")]
    pub fn buffered(&self, events: usize) -> BufferedPublisher<T> {
        let capacity = events.clamp(1, self.incoming.options.max_batch);
        BufferedPublisher { publisher: self.clone(), events: Vec::new(), capacity }
    }
}

impl<T: Clone + Send + Sync + 'static> BufferedPublisher<T> {
    /// Adds an event to the buffer. If the buffer is then full, publishes the buffer, waiting for
    /// capacity.
    ///
    /// # Errors
    ///
    /// Returns the same errors as [`Publisher::publish`], with the event. The earlier events that
    /// were not accepted stay in the buffer, so after [`Full`] the caller can
    /// pass the event to `publish` again without losing an event or changing the order. As long as
    /// the buffer is not full, an event is accepted even if the bus is closed.
    ///
    /// # Blocking
    ///
    /// If the event fills the buffer, blocks like [`Publisher::publish`].
    ///
    /// # Examples
    ///
    /// ```
    /// use eventcast::Broadcaster;
    ///
    /// let bus = Broadcaster::new()?;
    /// let mut buffered = bus.publisher().buffered(2);
    /// buffered.publish(1)?;
    /// bus.close();
    /// let error = buffered.publish(2).unwrap_err();
    /// assert!(error.is_closed());
    /// assert_eq!((buffered.buffer(), error.into_inner()), (&[1][..], 2));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn publish(&mut self, event: T) -> Result<(), PublishError<T>> {
        // Allocates only for an empty buffer, or after an inline bus has accepted part of a batch.
        self.events.reserve_exact(self.capacity - self.events.len());
        self.events.push(event);
        if self.events.len() < self.capacity {
            return Ok(());
        }
        // After a flush without an error, the buffer is empty.
        match (self.flush(), self.events.pop()) {
            (Err(error), Some(event)) => Err(if error.is_full() { Full(event) } else { Closed(event) }),
            _ => Ok(()),
        }
    }

    /// Publishes the events in the buffer, waiting for capacity.
    ///
    /// A flush returns as soon as the bus has accepted the events. To wait until they have been
    /// handled, call [`Broadcaster::flush`](crate::Broadcaster::flush) afterwards.
    ///
    /// # Errors
    ///
    /// Returns the same errors as [`Publisher::publish_batch`]. The events that were not accepted
    /// stay in the buffer.
    ///
    /// # Blocking
    ///
    /// Blocks like [`Publisher::publish_batch`].
    ///
    /// # Examples
    ///
    /// ```
    /// use eventcast::Broadcaster;
    ///
    /// let bus = Broadcaster::new_inline();
    /// let watcher = bus.watch()?;
    /// let mut buffered = bus.publisher().buffered(64);
    /// buffered.publish("hello")?;
    /// assert_eq!(watcher.len(), 0);
    /// buffered.flush()?;
    /// assert_eq!(watcher.len(), 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn flush(&mut self) -> Result<(), PublishError<()>> {
        self.publish_with(Publisher::publish_batch)
    }

    /// Publishes as many events in the buffer as currently fit, without waiting for capacity.
    ///
    /// # Errors
    ///
    /// Returns the same errors as [`Publisher::try_publish_batch`]. The events that were not
    /// accepted stay in the buffer.
    ///
    /// # Examples
    ///
    /// ```
    /// use eventcast::{Broadcaster, OverflowPolicy};
    ///
    /// let bus = Broadcaster::new_inline();
    /// let _unread = bus.watch_builder().queue_capacity(1).overflow(OverflowPolicy::Wait).watch()?;
    /// let mut buffered = bus.publisher().buffered(64);
    /// buffered.publish(1)?;
    /// buffered.publish(2)?;
    /// assert!(buffered.try_flush().unwrap_err().is_full());
    /// assert_eq!(buffered.buffer(), [2]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn try_flush(&mut self) -> Result<(), PublishError<()>> {
        self.publish_with(Publisher::try_publish_batch)
    }

    fn publish_with(&mut self, publish: Publish<T>) -> Result<(), PublishError<()>> {
        let Err(error) = publish(&self.publisher, mem::take(&mut self.events)) else { return Ok(()) };
        let is_full = error.is_full();
        self.events = error.into_inner();
        Err(if is_full { Full(()) } else { Closed(()) })
    }

    /// Returns the events that have not been published yet, oldest first.
    ///
    /// # Examples
    ///
    /// ```
    /// use eventcast::Broadcaster;
    ///
    /// let bus = Broadcaster::new()?;
    /// let mut buffered = bus.publisher().buffered(64);
    /// buffered.publish(7)?;
    /// assert_eq!(buffered.buffer(), [7]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn buffer(&self) -> &[T] {
        &self.events
    }

    /// Returns the events that have not been published yet, instead of publishing them.
    ///
    /// # Examples
    ///
    /// ```
    /// use eventcast::Broadcaster;
    ///
    /// let bus = Broadcaster::new()?;
    /// let mut buffered = bus.publisher().buffered(64);
    /// buffered.publish(7)?;
    /// assert_eq!(buffered.into_events(), [7]);
    /// assert_eq!(bus.shutdown().bus.accepted, 0);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use = "otherwise the events are lost"]
    pub fn into_events(mut self) -> Vec<T> {
        mem::take(&mut self.events)
    }
}

/// The buffer's events are never pinned.
impl<T: Clone + Send + Sync + 'static> Unpin for BufferedPublisher<T> {}

impl<T: Clone + Send + Sync + 'static> Drop for BufferedPublisher<T> {
    /// Publishes the events in the buffer like [`try_flush`](Self::try_flush).
    fn drop(&mut self) {
        // The bus has counted the events that it refused.
        let _ = self.try_flush();
    }
}

impl<T: Clone + Send + Sync + 'static> fmt::Debug for BufferedPublisher<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BufferedPublisher").field("events", &self.events.len()).finish_non_exhaustive()
    }
}
