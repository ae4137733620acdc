//! The publisher, a handle that publishes events.

use std::fmt;
use std::time::Duration;

use crate::bus::dispatch::Refused;
use crate::bus::mailbox::Entry;
use crate::error::PublishError;
use crate::sync::Arc;

use super::queue::IncomingQueue;

/// A handle that publishes events on a bus. A `Publisher` is `Send` and `Sync`. Cloning a publisher
/// increments one reference count, or two if the publisher belongs to a
/// [`channel`](crate::channel).
///
/// # Ordering
///
/// The events of all publishers are put into a single order, and every watcher receives its events
/// in this order. Two events keep their order if one thread publishes them in sequence, or if two
/// threads publish them and synchronise between the two calls. Events in the same piece of a batch
/// stay together.
///
/// # Overflow
///
/// Publishing involves only the incoming queue. The publish methods differ in their behaviour when
/// the incoming queue is full:
///
/// - [`try_publish`](Self::try_publish) and [`try_publish_batch`](Self::try_publish_batch) return
///   [`Full`](PublishError::Full) with the refused events.
/// - [`publish_timeout`](Self::publish_timeout) waits for capacity, and returns `Full` if the
///   timeout expires.
/// - [`publish`](Self::publish), [`publish_batch`](Self::publish_batch) and
///   [`publish_async`](Self::publish_async) wait for capacity.
///
/// If a watcher's queue is full, publishing does not fail. Instead, the watcher's
/// [policy](crate::OverflowPolicy) determines what happens to the event. The incoming queue fills
/// up if the dispatcher is slower than the publishers, for example because it is waiting for a
/// watcher.
///
/// # Gaps
///
/// If a publish call returns `Ok`, the event is offered to every watcher that was registered before
/// the call, unless a shutdown with a deadline abandons it. A refused event does not cause a gap,
/// because no watcher sees the event. Instead, the event is returned to the publisher and counted
/// in [`BusStats`](crate::stats::BusStats).
///
/// # On an inline bus
///
/// An [inline](crate::Broadcaster::new_inline) bus has no incoming queue. Each publish call takes
/// the bus's lock, and offers the event to every watcher before it returns. If a watcher with the
/// policy [`Wait`](crate::OverflowPolicy::Wait) has no capacity in its queue, the call returns
/// `Full`, or waits if it is one of the waiting methods. The same applies to a watcher with
/// `WaitFor` until its time limit expires. If only the leading events of a batch fit, only the
/// leading events are accepted. Do not hold a lock that a filter, a hook, or the `Clone` or `Drop`
/// of an event takes, because that code runs inside the publish call. If such code publishes on any
/// bus, the publish call returns `Full` instead of waiting.
///
/// # Ending
///
/// A publisher does not keep the bus open, unless it belongs to a [`channel`](crate::channel).
/// After the [`Broadcaster`](crate::Broadcaster) has closed the bus, every publish call returns
/// [`Closed`](PublishError::Closed) with the event. Closing the bus also ends publish calls that
/// are waiting for capacity. The bus still offers the events that it has already accepted.
///
/// # Blocking
///
/// Publishing methods without `try_` in their names wait while the incoming queue is full. On a
/// thread of the bus (in a handler, filter or hook), and inside a call to any inline bus, these
/// methods return `Full` instead, because the wait might never end.
///
/// # Cancel safety
///
/// If a [`publish_async`](Self::publish_async) future is dropped before it is ready, nothing has
/// been published, and the event is dropped with the future. A [`ready`](Self::ready) future does
/// not hold an event, so no event is lost if the future is dropped.
///
/// # Examples
///
/// ```
/// use eventcast::{Broadcaster, Delivery};
///
/// let bus = Broadcaster::new()?;
/// let mut watcher = bus.watch()?;
/// bus.publisher().try_publish("started")?;
/// assert_eq!(watcher.recv()?, Delivery::Event("started"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Publisher<T> {
    pub(super) incoming: Arc<IncomingQueue<T>>,
    /// Whether this publisher is one of the counted handles that keep the bus open.
    keeps_open: bool,
}

impl<T> Publisher<T> {
    pub(crate) fn new(incoming: Arc<IncomingQueue<T>>) -> Self {
        Self { incoming, keeps_open: false }
    }

    /// Creates a publisher that keeps the bus open. The caller must hold a handle that keeps the
    /// bus open.
    pub(crate) fn keeping_open(incoming: Arc<IncomingQueue<T>>) -> Self {
        incoming.handles.add();
        Self { incoming, keeps_open: true }
    }
}

impl<T: Clone + Send + Sync + 'static> Publisher<T> {
    /// Publishes an event without waiting for capacity.
    ///
    /// On an inline bus, this method waits for the bus's lock. On any other bus, the method does
    /// not wait for any lock, registration, shutdown or watcher. If the dispatcher is asleep, this
    /// call delivers the event [directly](crate::BusOptions::direct_delivery), or wakes the
    /// dispatcher with one system call. The incoming queue is crossbeam's bounded channel, where a
    /// push may have to retry while another publisher or the dispatcher is copying an entry.
    ///
    /// # Errors
    ///
    /// - [`PublishError::Full`] if the incoming queue is full, or, on an inline bus, if a watcher
    ///   that publishers wait for has no capacity.
    /// - [`PublishError::Closed`] if the bus is closed.
    ///
    /// Both errors return the event.
    ///
    /// # Memory ordering
    ///
    /// Everything that happens before a publish call happens before any watcher receives the event.
    ///
    /// # Examples
    ///
    /// ```
    /// use eventcast::Broadcaster;
    ///
    /// let bus = Broadcaster::new()?;
    /// let publisher = bus.publisher();
    /// assert!(publisher.try_publish("an event").is_ok());
    /// bus.close();
    /// let error = publisher.try_publish("too late").unwrap_err();
    /// assert!(error.is_closed());
    /// assert_eq!(error.into_inner(), "too late");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[doc(alias = "try_send")]
    #[doc(alias = "ActionOrDrop")]
    #[inline]
    pub fn try_publish(&self, event: T) -> Result<(), PublishError<T>> {
        self.incoming.try_push(Entry::Event(event)).map_err(|refused| self.incoming.refused_event(refused))
    }

    /// Publishes an event, waiting without a deadline for capacity in the incoming queue.
    ///
    /// # Errors
    ///
    /// - [`PublishError::Closed`] if the bus is closed, or is closed during the wait.
    /// - [`PublishError::Full`] only where the wait might never end. This is the case on a thread
    ///   of this bus (in a handler, filter or hook), and inside a call to any inline bus (in a
    ///   filter, a hook, or an event's `Clone` or `Drop`).
    ///
    /// # Blocking
    ///
    /// Blocks while the incoming queue is full. The queue stays full while the dispatcher is
    /// waiting for a watcher whose policy is [`Wait`](crate::OverflowPolicy::Wait). If one of your
    /// threads reads such a watcher and also publishes on the same bus, the thread deadlocks once
    /// both queues are full. On an inline bus, such a thread deadlocks as soon as the watcher's
    /// queue is full. In async code, the same deadlock occurs if the watcher is read by another
    /// task on the same thread. The bus cannot detect such a deadlock. On such a thread, use
    /// [`try_publish`](Self::try_publish). In an async task, this method blocks the executor's
    /// thread, so use `publish_async` instead.
    ///
    /// # Examples
    ///
    /// ```
    /// use eventcast::{Broadcaster, BusOptions, OverflowPolicy};
    ///
    /// // A queue of one event, so that the publisher waits for the handler.
    /// let options = BusOptions::default().incoming_capacity(1).queue_capacity(1).overflow(OverflowPolicy::Wait);
    /// let bus = Broadcaster::with_options(options)?;
    /// let handle = bus.watch_builder().spawn(|_| ())?;
    /// for number in 0..100 {
    ///     bus.publisher().publish(number)?;
    /// }
    /// assert!(bus.shutdown().complete);
    /// assert_eq!(handle.stats().delivered, 100);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[doc(alias = "send")]
    #[doc(alias = "Action")]
    pub fn publish(&self, event: T) -> Result<(), PublishError<T>> {
        self.incoming.push(Entry::Event(event), None).map_err(|refused| self.incoming.refused_event(refused))
    }

    /// Publishes an event, waiting for capacity for at most `timeout`.
    ///
    /// # Errors
    ///
    /// - [`PublishError::Full`] if no capacity was freed in time. On a thread of this bus, and
    ///   inside a call to any inline bus, the method does not wait for capacity, and returns this
    ///   error if the queue is full.
    /// - [`PublishError::Closed`] if the bus is closed, or is closed during the wait.
    ///
    /// # Blocking
    ///
    /// Blocks like [`publish`](Self::publish), but for at most `timeout`.
    ///
    /// # Examples
    ///
    /// ```
    /// use eventcast::{Broadcaster, BusOptions, OverflowPolicy};
    /// use std::time::Duration;
    ///
    /// let options = BusOptions::default().incoming_capacity(1).max_batch(1).queue_capacity(1);
    /// let bus = Broadcaster::with_options(options.overflow(OverflowPolicy::Wait))?;
    /// let unread = bus.watch()?;
    /// // Nobody reads, so the queues become full.
    /// let publish = |number| bus.publisher().publish_timeout(number, Duration::from_millis(1));
    /// let error = (0..100).find_map(|number| publish(number).err());
    /// assert!(error.unwrap().is_full());
    /// drop(unread);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[doc(alias = "send_timeout")]
    pub fn publish_timeout(&self, event: T, timeout: Duration) -> Result<(), PublishError<T>> {
        let deadline = self.incoming.bus.clock.deadline(timeout);
        self.incoming
            .push(Entry::Event(event), deadline)
            .map_err(|refused| self.incoming.refused_event(refused))
    }

    /// Publishes a batch of events, waiting for capacity.
    ///
    /// The bus accepts the events in order, in pieces of at most `max_batch`. Events from other
    /// publishers may arrive between two pieces, but never within a piece. On an inline bus, a
    /// piece also ends where it exhausts the capacity of a watcher that publishers wait for.
    ///
    /// The iterator is fully consumed before the first event is published. If `events` is a `Vec`,
    /// this step does not copy the events.
    ///
    /// # Errors
    ///
    /// Returns the same errors as [`publish`](Self::publish). The error contains the events that
    /// were not accepted. All events before these events were accepted.
    ///
    /// # Blocking
    ///
    /// Blocks for each piece like [`publish`](Self::publish). In an async task, await `ready`, then
    /// call [`try_publish_batch`](Self::try_publish_batch), and repeat both steps for as long as
    /// `try_publish_batch` returns events.
    ///
    /// # Examples
    ///
    /// ```
    /// use eventcast::Broadcaster;
    ///
    /// let bus = Broadcaster::new()?;
    /// let mut watcher = bus.watch()?;
    /// bus.publisher().publish_batch([1, 2, 3])?;
    /// bus.close();
    /// assert_eq!(watcher.events().collect::<Vec<_>>(), [1, 2, 3]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn publish_batch(&self, events: impl IntoIterator<Item = T>) -> Result<(), PublishError<Vec<T>>> {
        self.incoming.push_batch(events.into_iter().collect(), |entry| self.incoming.push(entry, None))
    }

    /// Publishes as many leading pieces of a batch as currently fit. The iterator is fully consumed
    /// before the first event is published, as in [`publish_batch`](Self::publish_batch).
    ///
    /// # Errors
    ///
    /// Returns the same errors as [`try_publish`](Self::try_publish). The error contains the events
    /// that were not accepted. All events before these events were accepted.
    ///
    /// # Examples
    ///
    /// ```
    /// use eventcast::{Broadcaster, BusOptions, OverflowPolicy};
    ///
    /// let options = BusOptions::default().incoming_capacity(1).max_batch(2).queue_capacity(1);
    /// let bus = Broadcaster::with_options(options.overflow(OverflowPolicy::Wait))?;
    /// let unread = bus.watch()?;
    /// // Nobody reads, so there is room for a few pieces only.
    /// let rest = bus.publisher().try_publish_batch(0..100).unwrap_err().into_inner();
    /// assert_eq!(rest.last(), Some(&99));
    /// drop(unread);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn try_publish_batch(&self, events: impl IntoIterator<Item = T>) -> Result<(), PublishError<Vec<T>>> {
        self.incoming.push_batch(events.into_iter().collect(), |entry| self.incoming.try_push(entry))
    }

    /// Publishes an event once there is capacity, without blocking a thread. The bus wakes waiting
    /// publishers in turn, starting with the publisher that has waited longest.
    ///
    /// A turn does not lock out other publishers. While there is capacity, any publisher may
    /// publish. If a publisher does not use its turn immediately, the next publisher gets a turn as
    /// well, so a future that is kept but not polled does not delay other publishers.
    ///
    /// If the future is dropped before it is ready, nothing has been published, and the event is
    /// dropped with the future. If the event must not be lost, wait with [`ready`](Self::ready) and
    /// then call [`try_publish`](Self::try_publish).
    ///
    /// # Errors
    ///
    /// Returns the same errors as [`publish`](Self::publish).
    ///
    /// # Examples
    ///
    /// ```
    /// use eventcast::Broadcaster;
    /// use futures::executor::block_on;
    ///
    /// let bus = Broadcaster::new()?;
    /// let mut watcher = bus.watch()?;
    /// block_on(async {
    ///     bus.publisher().publish_async("hello").await?;
    ///     assert_eq!(watcher.recv_async().await?.event(), Some("hello"));
    ///     Ok::<(), Box<dyn std::error::Error>>(())
    /// })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn publish_async(&self, event: T) -> impl Future<Output = Result<(), PublishError<T>>> + Send {
        // This is the only place in the future that holds the event.
        let mut held = Some(Entry::Event(event));
        async move {
            match (self.incoming.push_async(&mut held).await, held.take()) {
                (Err(refusal), Some(entry)) => Err(self.incoming.refused_event(Refused(entry, refusal))),
                _ => Ok(()),
            }
        }
    }

    /// Waits until the incoming queue may have capacity.
    ///
    /// Another publisher may take the capacity first, so call `ready` again if
    /// [`try_publish`](Self::try_publish) returns `Full`. The future does not hold an event or
    /// reserve capacity, so nothing is lost if the future is dropped.
    ///
    /// On a thread of this bus (in a handler, filter or hook), and inside a call to any inline bus,
    /// the future is ready immediately, because the wait might never end.
    ///
    /// # Errors
    ///
    /// Returns [`PublishError::Closed`] if the bus is closed, or is closed during the wait.
    ///
    /// # Examples
    ///
    /// ```
    /// use eventcast::error::PublishError;
    /// use eventcast::Broadcaster;
    ///
    /// async fn publish_all(bus: &Broadcaster<u32>, mut events: Vec<u32>) -> Result<(), PublishError<()>> {
    ///     let publisher = bus.publisher();
    ///     while let Some(event) = events.pop() {
    ///         publisher.ready().await?;
    ///         // Cancelled in `ready`, the event is still in the list.
    ///         if let Err(PublishError::Full(event)) = publisher.try_publish(event) {
    ///             events.push(event);
    ///         }
    ///     }
    ///     Ok(())
    /// }
    ///
    /// let bus = Broadcaster::new()?;
    /// futures::executor::block_on(publish_all(&bus, vec![3, 2, 1]))?;
    /// assert_eq!(bus.shutdown().bus.accepted, 3);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn ready(&self) -> impl Future<Output = Result<(), PublishError<()>>> + Send {
        async move { self.incoming.ready().await }
    }
}

impl<T> Publisher<T> {
    /// Returns whether the bus has been closed. A result of `true` is final, while `false` may be
    /// out of date by the time the caller reads it.
    ///
    /// # Examples
    ///
    /// ```
    /// use eventcast::Broadcaster;
    ///
    /// let bus = Broadcaster::<u8>::new()?;
    /// let publisher = bus.publisher();
    /// assert!(!publisher.is_closed());
    /// drop(bus);
    /// assert!(publisher.is_closed());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn is_closed(&self) -> bool {
        self.incoming.bus.is_closed()
    }

    /// Returns whether the calling thread works for this bus.
    #[cfg(feature = "recorder")]
    pub(crate) fn is_own_thread(&self) -> bool {
        self.incoming.bus.is_current()
    }

    /// Returns whether the bus has a watcher that has not been dropped, or a handler that has not
    /// ended. With this method, a lazy producer can skip the work of creating an event that the bus
    /// would not offer to any watcher. The method takes constant time, and never blocks.
    ///
    /// - If the result is `true`, an event that the caller publishes next is offered to that
    ///   watcher, unless the watcher has been or is then stopped, evicted or dropped.
    /// - If the result is `false`, every watcher whose registration had returned before this call
    ///   has been dropped. If a watcher registers after this call, it does not receive the skipped
    ///   event, as if the event had been published before the registration. On a bus with a
    ///   [history](crate::BusOptions::history), later watchers may start in the past, so skipped
    ///   events are missing from the history as well.
    ///
    /// [`Broadcaster::watcher_count`](crate::Broadcaster::watcher_count) explains which watchers
    /// count. [`Broadcaster::wait_watchers`](crate::Broadcaster::wait_watchers) waits for a
    /// watcher.
    ///
    /// # Examples
    ///
    /// ```
    /// use eventcast::{Broadcaster, Delivery};
    ///
    /// let bus = Broadcaster::new()?;
    /// let publisher = bus.publisher();
    /// let report = |text: &str| {
    ///     if publisher.has_watchers() {
    ///         // Only now is it worth formatting the event.
    ///         publisher.publish(format!("progress: {text}")).unwrap();
    ///     }
    /// };
    /// report("10 %");
    /// let mut watcher = bus.watch()?;
    /// report("20 %");
    /// assert_eq!(watcher.recv()?, Delivery::Event("progress: 20 %".to_owned()));
    /// assert_eq!(bus.stats().accepted, 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[doc(alias("receiver_count", "presence", "lazy"))]
    #[inline]
    pub fn has_watchers(&self) -> bool {
        self.incoming.bus.registry.present() > 0
    }
}

impl<T> Clone for Publisher<T> {
    fn clone(&self) -> Self {
        if self.keeps_open {
            return Self::keeping_open(self.incoming.clone());
        }
        Self::new(self.incoming.clone())
    }
}

impl<T> Drop for Publisher<T> {
    /// Closes the bus, without waiting, if this is the last publisher of a
    /// [`channel`](crate::channel).
    fn drop(&mut self) {
        if self.keeps_open && self.incoming.handles.remove() {
            self.incoming.bus.close();
        }
    }
}

impl<T> fmt::Debug for Publisher<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Publisher").field("closed", &self.incoming.bus.is_closed()).finish_non_exhaustive()
    }
}
