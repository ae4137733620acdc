//! The publisher: a handle that publishes events.

use std::fmt;
use std::time::Duration;

use crate::error::{PublishError, Stopped};
use crate::sync::Arc;

use super::entry::Entry;
use super::queue::IncomingQueue;

/// Publishes events on a bus. `Send` and `Sync`; a clone is one reference count.
///
/// It does not keep the bus open: when the [`Broadcaster`](crate::Broadcaster) closes, publishing returns
/// [`Stopped`](PublishError::Stopped) with the event.
///
/// # Order
///
/// Events of all publishers get one order, and every watcher sees its events in it. Two events published one after the
/// other by the same thread, or by threads that synchronise in between, keep their order.
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
    incoming: Arc<IncomingQueue<T>>,
}

impl<T> Publisher<T> {
    pub(crate) fn new(incoming: Arc<IncomingQueue<T>>) -> Self {
        Self { incoming }
    }
}

impl<T: Clone + Send + Sync + 'static> Publisher<T> {
    /// Publishes without waiting for room.
    ///
    /// It takes no lock, and waits for no registration, no shutdown and no watcher. When the
    /// dispatcher sleeps, waking it is one system call and no lock. The incoming queue is
    /// crossbeam's bounded channel. It may retry for as long as another publisher or the dispatcher
    /// needs to copy one entry.
    ///
    /// # Errors
    ///
    /// [`PublishError::Full`] when the incoming queue is full, [`PublishError::Stopped`] when the bus is closed. Both
    /// hand the event back.
    ///
    /// # Memory ordering
    ///
    /// What happened before a publish happens before the event's receipt by any watcher.
    #[doc(alias = "ActionOrDrop")]
    #[inline]
    pub fn try_publish(&self, event: T) -> Result<(), PublishError<T>> {
        self.incoming.try_push(Entry::Event(event)).map_err(|refused| self.incoming.refused_event(refused))
    }

    /// Publishes, and waits for room in the incoming queue as long as it takes.
    ///
    /// # Errors
    ///
    /// [`PublishError::Stopped`] when the bus is or becomes closed. [`PublishError::Full`] only on a thread where
    /// waiting could never end: a handler, a filter or a hook of this bus.
    ///
    /// # Blocking
    ///
    /// Waits while the incoming queue is full, which it stays while the dispatcher waits for a watcher whose policy is
    /// [`Wait`](crate::OverflowPolicy::Wait). A thread of yours that reads such a watcher and publishes on the same bus
    /// waits for itself once both queues are full; the bus cannot recognise that. Use [`try_publish`](Self::try_publish)
    /// there. In an async task this blocks the executor's thread; use `publish_async`.
    #[doc(alias = "Action")]
    pub fn publish(&self, event: T) -> Result<(), PublishError<T>> {
        self.incoming.push(Entry::Event(event), None).map_err(|refused| self.incoming.refused_event(refused))
    }

    /// Publishes, and waits for room at most so long.
    ///
    /// # Errors
    ///
    /// [`PublishError::Full`] when no room came in time, or at once on a thread of this bus;
    /// [`PublishError::Stopped`] when the bus is or becomes closed.
    ///
    /// # Blocking
    ///
    /// As [`publish`](Self::publish), for at most `timeout`.
    pub fn publish_timeout(&self, event: T, timeout: Duration) -> Result<(), PublishError<T>> {
        let deadline = self.incoming.lifecycle.clock.deadline(timeout);
        self.incoming
            .push(Entry::Event(event), deadline)
            .map_err(|refused| self.incoming.refused_event(refused))
    }

    /// Publishes many events, and waits for room. They are accepted in order, in pieces of at most `max_batch`; events
    /// of others may come between two pieces, never into one.
    ///
    /// # Errors
    ///
    /// As [`publish`](Self::publish). The error hands back what was not accepted; what came before it was.
    ///
    /// # Blocking
    ///
    /// As [`publish`](Self::publish), for each piece. In an async task, await `ready` and then
    /// [`try_publish_batch`](Self::try_publish_batch), as often as it hands something back.
    ///
    /// # Examples
    ///
    /// ```
    /// use eventcast::Broadcaster;
    ///
    /// let bus = Broadcaster::new()?;
    /// let mut watcher = bus.watch()?;
    /// bus.publisher().publish_batch(vec![1, 2, 3])?;
    /// bus.close();
    /// assert_eq!(watcher.events().collect::<Vec<_>>(), [1, 2, 3]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn publish_batch(&self, events: Vec<T>) -> Result<(), PublishError<Vec<T>>> {
        self.incoming.push_batch(events, |entry| self.incoming.push(entry, None))
    }

    /// Publishes the leading pieces for which there is room now.
    ///
    /// # Errors
    ///
    /// As [`try_publish`](Self::try_publish). The error hands back what was not accepted; what came before it was.
    pub fn try_publish_batch(&self, events: Vec<T>) -> Result<(), PublishError<Vec<T>>> {
        self.incoming.push_batch(events, |entry| self.incoming.try_push(entry))
    }

    /// Publishes when there is room, without blocking a thread meanwhile. Who waits longest is
    /// woken first.
    ///
    /// A turn is not a lock: while there is room, whoever comes may publish, and a turn that
    /// is not taken up at once goes to the next as well. So a future that is kept and not polled
    /// holds up nobody.
    ///
    /// Dropped before it is ready, it has not published, and the event is dropped with it. Where the event must not be
    /// lost, wait with [`ready`](Self::ready) and then [`try_publish`](Self::try_publish).
    ///
    /// # Errors
    ///
    /// As [`publish`](Self::publish).
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
        async move {
            let pushed = self.incoming.push_async(Entry::Event(event), None).await;
            pushed.map_err(|refused| self.incoming.refused_event(refused))
        }
    }

    /// Resolves when there may be room in the incoming queue: another publisher may take it first, so look again when
    /// [`try_publish`](Self::try_publish) says `Full`. It holds no event and no room; dropping it loses nothing.
    ///
    /// On a thread of this bus (in a handler, filter or hook) it resolves at once, because waiting could never end.
    ///
    /// # Errors
    ///
    /// When the bus is or becomes closed.
    ///
    /// # Examples
    ///
    /// ```
    /// use eventcast::{Broadcaster, PublishError, Stopped};
    ///
    /// async fn publish_all(bus: &Broadcaster<u32>, mut events: Vec<u32>) -> Result<(), Stopped> {
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
    pub fn ready(&self) -> impl Future<Output = Result<(), Stopped>> + Send {
        async move {
            let incoming = &*self.incoming;
            if let Some(result) = incoming.readiness() {
                return result;
            }
            let waiting = incoming.lifecycle.waiting(&incoming.lifecycle.room, None, || incoming.readiness());
            // Without a deadline it ends with a result alone.
            let result = waiting.await.unwrap_or(Err(Stopped));
            // The room is still there for whoever waits with an event.
            incoming.lifecycle.room.wake(1);
            result
        }
    }

    /// Whether the bus has been closed. Once true it stays true; false may be out of date at once.
    pub fn is_closed(&self) -> bool {
        self.incoming.lifecycle.gate.is_closed()
    }
}

impl<T> Clone for Publisher<T> {
    fn clone(&self) -> Self {
        Self { incoming: self.incoming.clone() }
    }
}

impl<T> fmt::Debug for Publisher<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Publisher")
            .field("closed", &self.incoming.lifecycle.gate.is_closed())
            .finish_non_exhaustive()
    }
}
