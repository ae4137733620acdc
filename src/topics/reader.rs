//! The reader of all topics that match a pattern.

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::future::poll_fn;
use std::hash::Hash;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use futures_core::{FusedStream, Stream};

use crate::bus::{Delivery, Watcher};
use crate::clock::Deadline;
use crate::error::{RecvError, RecvTimeoutError, TryRecvError};
use crate::sync::{Arc, Parker, waker};

use super::inbox::{Arrival, Inbox};
use super::shared::Shared;

/// A watcher of all topics that match a pattern, returned by
/// [`Topics::watch_matching`](super::Topics::watch_matching).
///
/// The reader receives each event and each gap together with the key of its topic. Each topic has
/// its own queue, so a burst of events in one topic neither uses the capacity of other topics nor
/// causes other topics to lose events. Topics that have something to receive take turns.
///
/// After [`Topics::close`](super::Topics::close), the reader ends once it has received everything
/// that was queued. The reader is also a `Stream` of the same items.
///
/// # Examples
///
/// ```
/// use eventcast::Delivery;
/// use eventcast::topics::Topics;
///
/// let topics = Topics::new();
/// let mut reader = topics.watch_matching("orders.*")?;
/// topics.publish_batch(&"orders.7", [1, 2])?;
/// topics.publish(&"orders.8", 3)?;
/// topics.close();
/// let received: Vec<_> = std::iter::from_fn(|| reader.recv().ok()).collect();
/// let events = [("orders.7", 1), ("orders.8", 3), ("orders.7", 2)];
/// assert_eq!(received, events.map(|(key, event)| (key, Delivery::Event(event))));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use = "a watcher that is dropped receives nothing"]
pub struct TopicsReader<K: Hash + Eq, T> {
    shared: Arc<Shared<K, T>>,
    inbox: Arc<Inbox<K, T>>,
    parker: Parker,
    slots: Vec<Slot<K, T>>,
    /// The indices of the slots that are not assigned to a key.
    free: Vec<usize>,
    by_key: HashMap<K, usize>,
    /// The indices of the slots that may have something to receive, each at most once.
    turns: VecDeque<usize>,
    /// The watchers of new topics that have no slot yet. `ready` contains the slots that were
    /// woken. Between two calls, both lists are empty unless cloning a key has panicked.
    arrivals: VecDeque<Arrival<K, T>>,
    ready: Vec<usize>,
    /// Whether the last delivery was a gap, and the same slot still has its turn.
    is_behind_gap: bool,
    /// Whether a receive has returned the end.
    has_ended: bool,
}

/// The watchers of one key's topics.
struct Slot<K, T> {
    key: Option<K>,
    /// The watchers of the key's topics, with the oldest first. All watchers but the last have
    /// ended or are about to end, because their topics were removed.
    watchers: VecDeque<(u64, Watcher<T>)>,
    /// Reports to the inbox that the slot may have something to receive.
    waker: Waker,
    /// Whether the slot is in `turns`.
    has_turn: bool,
}

/// The result of searching for the next delivery.
enum Next<K, T> {
    Delivery(K, Delivery<T>),
    Empty,
    End,
}

impl<K, T> TopicsReader<K, T>
where
    K: Clone + Hash + Eq + Send + Sync + 'static,
    T: Clone + Send + Sync + 'static,
{
    pub(super) fn new(shared: Arc<Shared<K, T>>, inbox: Arc<Inbox<K, T>>, parker: Parker) -> Self {
        Self {
            shared,
            inbox,
            parker,
            slots: Vec::new(),
            free: Vec::new(),
            by_key: HashMap::new(),
            turns: VecDeque::new(),
            arrivals: VecDeque::new(),
            ready: Vec::new(),
            is_behind_gap: false,
            has_ended: false,
        }
    }

    /// Waits for the next delivery, and returns it with the key of its topic.
    ///
    /// # Errors
    ///
    /// Returns [`RecvError`] if the topics are closed and everything queued has been received.
    ///
    /// # Panics
    ///
    /// Panics only if cloning the event or the key panics. If the delivery was an event, the event
    /// then counts as delivered.
    ///
    /// # Blocking
    ///
    /// Blocks the thread until a delivery arrives or the topics are closed.
    ///
    /// # Examples
    ///
    /// ```
    /// use eventcast::Delivery;
    /// use eventcast::topics::Topics;
    ///
    /// let topics = Topics::new();
    /// let mut reader = topics.watch_matching(">")?;
    /// topics.publish(&"a", 1)?;
    /// assert_eq!(reader.recv()?, ("a", Delivery::Event(1)));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn recv(&mut self) -> Result<(K, Delivery<T>), RecvError> {
        match self.wait(None) {
            Next::Delivery(key, delivery) => Ok((key, delivery)),
            Next::Empty | Next::End => Err(RecvError),
        }
    }

    /// Returns the next delivery, if there is one, without waiting.
    ///
    /// # Errors
    ///
    /// - [`TryRecvError::Empty`] if nothing is queued.
    /// - [`TryRecvError::Ended`] if [`recv`](Self::recv) would return an error.
    ///
    /// # Panics
    ///
    /// Panics under the same conditions as [`recv`](Self::recv).
    ///
    /// # Examples
    ///
    /// ```
    /// use eventcast::error::TryRecvError;
    /// use eventcast::topics::Topics;
    ///
    /// let topics = Topics::<&str, u8>::new();
    /// let mut reader = topics.watch_matching("a.*")?;
    /// assert_eq!(reader.try_recv(), Err(TryRecvError::Empty));
    /// topics.close();
    /// assert_eq!(reader.try_recv(), Err(TryRecvError::Ended));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn try_recv(&mut self) -> Result<(K, Delivery<T>), TryRecvError> {
        match self.next() {
            Next::Delivery(key, delivery) => Ok((key, delivery)),
            Next::Empty => Err(TryRecvError::Empty),
            Next::End => Err(TryRecvError::Ended),
        }
    }

    /// Waits for the next delivery like [`recv`](Self::recv), but no longer than `timeout`, as
    /// measured by the clock of the topics.
    ///
    /// # Errors
    ///
    /// - [`RecvTimeoutError::Timeout`] if nothing arrived in time.
    /// - [`RecvTimeoutError::Ended`] if [`recv`](Self::recv) would return an error.
    ///
    /// # Panics
    ///
    /// Panics under the same conditions as [`recv`](Self::recv).
    ///
    /// # Blocking
    ///
    /// Blocks the thread until a delivery arrives, the topics are closed or the timeout expires.
    ///
    /// # Examples
    ///
    /// ```
    /// use eventcast::error::RecvTimeoutError;
    /// use eventcast::topics::Topics;
    /// use std::time::Duration;
    ///
    /// let topics = Topics::<&str, u8>::new();
    /// let mut reader = topics.watch_matching("a")?;
    /// assert_eq!(reader.recv_timeout(Duration::from_millis(1)), Err(RecvTimeoutError::Timeout));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn recv_timeout(&mut self, timeout: Duration) -> Result<(K, Delivery<T>), RecvTimeoutError> {
        match self.wait(self.shared.clock.deadline(timeout)) {
            Next::Delivery(key, delivery) => Ok((key, delivery)),
            Next::Empty => Err(RecvTimeoutError::Timeout),
            Next::End => Err(RecvTimeoutError::Ended),
        }
    }

    /// Waits for the next delivery asynchronously. See [`recv`](Self::recv).
    ///
    /// This method is cancel-safe. If the future is dropped before it completes, nothing has been
    /// received.
    ///
    /// # Errors
    ///
    /// Returns [`RecvError`] under the same conditions as [`recv`](Self::recv).
    ///
    /// # Panics
    ///
    /// Panics under the same conditions as [`recv`](Self::recv).
    ///
    /// # Examples
    ///
    /// ```
    /// use eventcast::Delivery;
    /// use eventcast::topics::Topics;
    ///
    /// let topics = Topics::new();
    /// let mut reader = topics.watch_matching("a")?;
    /// topics.publish(&"a", 1)?;
    /// let received = futures::executor::block_on(reader.recv_async());
    /// assert_eq!(received, Ok(("a", Delivery::Event(1))));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn recv_async(&mut self) -> impl Future<Output = Result<(K, Delivery<T>), RecvError>> + Send {
        let mut waiting = Waiting { reader: self, has_waited: false };
        poll_fn(move |cx| {
            let waiting = &mut waiting;
            let item = waiting.reader.poll_recv(cx.waker());
            waiting.has_waited |= item.is_pending();
            item.map(|item| item.ok_or(RecvError))
        })
    }

    fn poll_recv(&mut self, waker: &Waker) -> Poll<Option<(K, Delivery<T>)>> {
        let mut next = self.next();
        if matches!(next, Next::Empty) {
            self.inbox.wake_cell.arm_task(waker);
            next = self.next();
            if !matches!(next, Next::Empty) {
                self.inbox.wake_cell.disarm_task();
            }
        }
        match next {
            Next::Delivery(key, delivery) => Poll::Ready(Some((key, delivery))),
            Next::Empty => Poll::Pending,
            Next::End => Poll::Ready(None),
        }
    }

    /// Waits until a delivery arrives or the reader ends. Returns `Empty` when the deadline has
    /// passed.
    fn wait(&mut self, deadline: Deadline) -> Next<K, T> {
        let first = self.next();
        if !matches!(first, Next::Empty) {
            return first;
        }
        loop {
            self.inbox.wake_cell.arm();
            let next = self.next();
            if !matches!(next, Next::Empty) || self.shared.clock.has_passed(deadline) {
                self.inbox.wake_cell.disarm();
                return next;
            }
            self.shared.clock.park(&self.parker, deadline);
        }
    }

    /// Takes the next delivery from the slot whose turn it is.
    fn next(&mut self) -> Next<K, T> {
        loop {
            let is_closed = self.inbox.take(&mut self.arrivals, &mut self.ready);
            self.add_arrivals();
            let mut ready = std::mem::take(&mut self.ready);
            for index in ready.drain(..) {
                self.give_turn(index);
            }
            self.ready = ready;
            let Some(index) = self.turns.front().copied() else {
                self.has_ended = is_closed && self.by_key.is_empty();
                return if self.has_ended { Next::End } else { Next::Empty };
            };
            match self.poll_slot(index) {
                Poll::Ready(Some((key, delivery))) => {
                    // The next turn belongs to another slot, but an event directly follows its gap.
                    // Otherwise, the event could be lost before the slot's next turn, and the
                    // reader of a busy topic would receive only gaps.
                    self.is_behind_gap = !self.is_behind_gap && matches!(delivery, Delivery::Lagged(_));
                    if !self.is_behind_gap {
                        self.turns.rotate_left(1);
                    }
                    return Next::Delivery(key, delivery);
                }
                Poll::Ready(None) => self.end_topic(index),
                Poll::Pending => self.take_turn(index),
            }
        }
    }

    /// Polls a slot's oldest watcher. If there is nothing to receive, the watcher keeps the slot's
    /// waker.
    fn poll_slot(&mut self, index: usize) -> Poll<Option<(K, Delivery<T>)>> {
        let slot = &mut self.slots[index];
        let has_later = slot.watchers.len() > 1;
        let (Some(key), Some((_, watcher))) = (&slot.key, slot.watchers.front_mut()) else {
            // The key's last topic has ended since the slot was woken.
            return Poll::Pending;
        };
        let cx = &mut Context::from_waker(&slot.waker);
        let mut polled = Pin::new(&mut *watcher).poll_next(cx);
        if polled.is_pending() && has_later {
            // The topic was removed before the key's later topic was created. The thread that
            // removed the topic may not have closed the topic's bus yet.
            watcher.close_bus();
            polled = Pin::new(watcher).poll_next(cx);
        }
        polled.map(|delivery| delivery.map(|delivery| (key.clone(), delivery)))
    }

    fn give_turn(&mut self, index: usize) {
        if !std::mem::replace(&mut self.slots[index].has_turn, true) {
            self.turns.push_back(index);
        }
    }

    /// Ends the turn of the slot that currently has it.
    fn take_turn(&mut self, index: usize) {
        self.slots[index].has_turn = false;
        self.is_behind_gap = false;
        self.turns.pop_front();
    }

    /// Adds the new watchers to their keys' slots. If cloning a key panics, the watchers that have
    /// not been added stay in `arrivals`.
    fn add_arrivals(&mut self) {
        while let Some(arrival) = self.arrivals.front() {
            let index = if let Some(index) = self.by_key.get(&arrival.key) {
                *index
            } else {
                let (key, of_slot) = (arrival.key.clone(), arrival.key.clone());
                let index = self.free.pop().unwrap_or_else(|| self.new_slot());
                self.slots[index].key = Some(of_slot);
                self.by_key.insert(key, index);
                index
            };
            let Some(Arrival { topic, watcher, .. }) = self.arrivals.pop_front() else { return };
            let watchers = &mut self.slots[index].watchers;
            let at = watchers.partition_point(|(other, _)| *other < topic);
            watchers.insert(at, (topic, watcher));
            self.give_turn(index);
        }
    }

    fn new_slot(&mut self) -> usize {
        let (index, inbox) = (self.slots.len(), self.inbox.clone());
        let waker = waker(move || inbox.set_ready(index));
        self.slots.push(Slot { key: None, watchers: VecDeque::new(), waker, has_turn: false });
        index
    }

    /// Drops the watcher of a topic that has ended. If the key has a later topic, the slot keeps
    /// its turn.
    fn end_topic(&mut self, index: usize) {
        let slot = &mut self.slots[index];
        let ended = slot.watchers.pop_front();
        if slot.watchers.is_empty() {
            if let Some(key) = slot.key.take() {
                self.by_key.remove(&key);
            }
            self.take_turn(index);
            self.free.push(index);
        }
        drop(ended);
    }
}

/// An asynchronous wait, which removes the task's waker when dropped.
struct Waiting<'r, K: Hash + Eq, T> {
    reader: &'r mut TopicsReader<K, T>,
    has_waited: bool,
}

impl<K: Hash + Eq, T> Drop for Waiting<'_, K, T> {
    fn drop(&mut self) {
        if self.has_waited {
            self.reader.inbox.wake_cell.disarm_task();
        }
    }
}

impl<K: Hash + Eq, T> Drop for TopicsReader<K, T> {
    fn drop(&mut self) {
        // From now on, a new topic does not find the inbox in the list. Watchers that were added
        // earlier are dropped together with the inbox.
        self.shared.remove_reader(self.inbox.id);
    }
}

/// A stream of the items that [`recv_async`](TopicsReader::recv_async) returns.
impl<K, T> Stream for TopicsReader<K, T>
where
    K: Clone + Hash + Eq + Send + Sync + Unpin + 'static,
    T: Clone + Send + Sync + 'static,
{
    type Item = (K, Delivery<T>);

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.get_mut().poll_recv(cx.waker())
    }
}

impl<K, T> FusedStream for TopicsReader<K, T>
where
    K: Clone + Hash + Eq + Send + Sync + Unpin + 'static,
    T: Clone + Send + Sync + 'static,
{
    /// Returns whether a receive has returned the end.
    fn is_terminated(&self) -> bool {
        self.has_ended
    }
}

impl<K: Hash + Eq, T> fmt::Debug for TopicsReader<K, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TopicsReader").field("topics", &self.by_key.len()).finish_non_exhaustive()
    }
}
