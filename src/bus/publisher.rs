//! Publishing: through the gate into the incoming queue, and waiting for room in it.

use std::fmt;
use std::time::Duration;

use crate::clock::Deadline;
use crate::error::PublishError;
#[cfg(feature = "async")]
use crate::error::Stopped;
use crate::sync::{Arc, Sender};

use super::dispatcher::{self, Entry};
use super::gate::Refusal;
use super::hub::Hub;
use super::sleeper::{TimedOut, look};
#[cfg(feature = "async")]
use super::task::Waiting;

/// What publishers and the broadcaster share.
pub(super) struct Shared<T> {
    pub(super) hub: Arc<Hub>,
    incoming: Sender<Entry<T>>,
    max_batch: usize,
}

/// An entry that waits for room. Given up, a registration is undone.
struct Held<'h, T> {
    hub: &'h Hub,
    entry: Option<Entry<T>>,
}

impl<T> Held<'_, T> {
    /// There was no room for it.
    fn full(&mut self) -> Result<(), Refused<T>> {
        // It goes away only together with a result, so it is here.
        self.entry.take().map_or(Ok(()), |entry| Err(Refused(entry, Refusal::Full)))
    }
}

impl<T> Drop for Held<'_, T> {
    fn drop(&mut self) {
        if let Some(Entry::Register(outbox)) = self.entry.take() {
            dispatcher::close(self.hub, *outbox);
        }
    }
}

/// An entry that did not get into the queue.
pub(super) struct Refused<T>(pub(super) Entry<T>, pub(super) Refusal);

impl<T> Shared<T> {
    pub(super) fn new(hub: Arc<Hub>, incoming: Sender<Entry<T>>, max_batch: usize) -> Self {
        Self { hub, incoming, max_batch }
    }

    /// Never waits.
    #[inline]
    pub(super) fn try_push(&self, entry: Entry<T>) -> Result<(), Refused<T>> {
        let (result, wake) = match self.hub.gate.enter() {
            Ok(pass) => {
                let result = self.incoming.try_send(entry).map_err(|entry| Refused(entry, Refusal::Full));
                (result, pass.leave())
            }
            Err(wake) => (Err(Refused(entry, Refusal::Stopped)), wake),
        };
        if wake {
            self.hub.dispatcher.wake();
        }
        result
    }

    /// Waits for room until the deadline. On a thread of this bus it does not wait: the room would never come.
    pub(super) fn push(&self, entry: Entry<T>, deadline: Deadline) -> Result<(), Refused<T>> {
        match self.try_push(entry) {
            Err(Refused(entry, Refusal::Full)) if !self.hub.is_current() => self.wait_push(entry, deadline),
            result => result,
        }
    }

    #[cold]
    fn wait_push(&self, entry: Entry<T>, deadline: Deadline) -> Result<(), Refused<T>> {
        let mut held = Held { hub: &self.hub, entry: Some(entry) };
        if let Some(result) = look(|| self.attempt(&mut held)) {
            return result;
        }
        match self.hub.room.wait(&self.hub.clock, deadline, || self.attempt(&mut held)) {
            Ok(result) => result,
            Err(TimedOut) => held.full(),
        }
    }

    /// As [`push`](Self::push), for a task. Dropped before it is ready, it has pushed nothing.
    #[cfg(feature = "async")]
    pub(super) async fn push_async(&self, entry: Entry<T>, deadline: Deadline) -> Result<(), Refused<T>> {
        let mut held = Held { hub: &self.hub, entry: Some(entry) };
        if let Some(result) = self.attempt(&mut held) {
            return result;
        }
        let attempt = || match self.attempt(&mut held) {
            // On a thread of this bus the room would never come.
            None if self.hub.is_current() => Some(held.full()),
            result => result,
        };
        match Waiting::new(&self.hub, &self.hub.room, deadline, attempt).await {
            Ok(result) => result,
            Err(TimedOut) => held.full(),
        }
    }

    /// Tries to push the entry that waits for room.
    fn attempt(&self, held: &mut Held<'_, T>) -> Option<Result<(), Refused<T>>> {
        match self.try_push(held.entry.take()?) {
            Err(Refused(entry, Refusal::Full)) => {
                held.entry = Some(entry);
                None
            }
            result => Some(result),
        }
    }

    /// Whether there may be room, or the bus is closed.
    #[cfg(feature = "async")]
    fn readiness(&self) -> Option<Result<(), Stopped>> {
        if self.hub.gate.is_closed() {
            return Some(Err(Stopped));
        }
        (!self.incoming.is_full() || self.hub.is_current()).then_some(Ok(()))
    }

    /// Counts a refusal and takes the event out again.
    #[cold]
    fn refused_event(&self, refused: Refused<T>) -> PublishError<T> {
        let Refused(Entry::Event(event), refusal) = refused else {
            unreachable!("an event was pushed, so an event comes back")
        };
        self.hub.count_refused(refusal, 1);
        match refusal {
            Refusal::Full => PublishError::Full(event),
            Refusal::Stopped => PublishError::Stopped(event),
        }
    }

    /// Pushes a batch in pieces; an error hands back everything from the piece that was refused on.
    fn push_batch(
        &self,
        events: Vec<T>,
        push: impl Fn(Entry<T>) -> Result<(), Refused<T>>,
    ) -> Result<(), PublishError<Vec<T>>> {
        if events.len() <= self.max_batch {
            if events.is_empty() {
                return Ok(());
            }
            let mut events = events;
            // Room that holds nothing would travel along, and stand outside the bound.
            events.shrink_to_fit();
            return push(Entry::Batch(events)).map_err(|refused| self.refused_batch(refused, Vec::new()));
        }
        let mut rest = events.into_iter();
        loop {
            let piece: Vec<T> = rest.by_ref().take(self.max_batch).collect();
            if piece.is_empty() {
                return Ok(());
            }
            if let Err(refused) = push(Entry::Batch(piece)) {
                return Err(self.refused_batch(refused, rest.collect()));
            }
        }
    }

    #[cold]
    fn refused_batch(&self, refused: Refused<T>, rest: Vec<T>) -> PublishError<Vec<T>> {
        let Refused(Entry::Batch(mut events), refusal) = refused else {
            unreachable!("a batch was pushed, so a batch comes back")
        };
        events.extend(rest);
        self.hub.count_refused(refusal, events.len());
        match refusal {
            Refusal::Full => PublishError::Full(events),
            Refusal::Stopped => PublishError::Stopped(events),
        }
    }
}

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
    shared: Arc<Shared<T>>,
}

impl<T> Publisher<T> {
    pub(super) fn new(shared: Arc<Shared<T>>) -> Self {
        Self { shared }
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
        self.shared.try_push(Entry::Event(event)).map_err(|refused| self.shared.refused_event(refused))
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
    /// there. In an async task this blocks the executor's thread; use `publish_async` (feature `async`).
    #[doc(alias = "Action")]
    pub fn publish(&self, event: T) -> Result<(), PublishError<T>> {
        self.shared.push(Entry::Event(event), None).map_err(|refused| self.shared.refused_event(refused))
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
        let deadline = self.shared.hub.clock.deadline(timeout);
        self.shared.push(Entry::Event(event), deadline).map_err(|refused| self.shared.refused_event(refused))
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
    /// As [`publish`](Self::publish), for each piece. In an async task, await `ready` (feature `async`) and then
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
        self.shared.push_batch(events, |entry| self.shared.push(entry, None))
    }

    /// Publishes the leading pieces for which there is room now.
    ///
    /// # Errors
    ///
    /// As [`try_publish`](Self::try_publish). The error hands back what was not accepted; what came before it was.
    pub fn try_publish_batch(&self, events: Vec<T>) -> Result<(), PublishError<Vec<T>>> {
        self.shared.push_batch(events, |entry| self.shared.try_push(entry))
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
    #[cfg(feature = "async")]
    pub fn publish_async(&self, event: T) -> impl Future<Output = Result<(), PublishError<T>>> + Send {
        async move {
            let pushed = self.shared.push_async(Entry::Event(event), None).await;
            pushed.map_err(|refused| self.shared.refused_event(refused))
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
    #[cfg(feature = "async")]
    pub fn ready(&self) -> impl Future<Output = Result<(), Stopped>> + Send {
        async move {
            let shared = &*self.shared;
            if let Some(result) = shared.readiness() {
                return result;
            }
            let waiting = Waiting::new(&shared.hub, &shared.hub.room, None, || shared.readiness());
            // Without a deadline it ends with a result alone.
            let result = waiting.await.unwrap_or(Err(Stopped));
            // The room is still there for whoever waits with an event.
            shared.hub.room.wake(1);
            result
        }
    }

    /// Whether the bus has been closed. Once true it stays true; false may be out of date at once.
    pub fn is_closed(&self) -> bool {
        self.shared.hub.gate.is_closed()
    }
}

impl<T> Clone for Publisher<T> {
    fn clone(&self) -> Self {
        Self { shared: self.shared.clone() }
    }
}

impl<T> fmt::Debug for Publisher<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Publisher").field("closed", &self.shared.hub.gate.is_closed()).finish_non_exhaustive()
    }
}
