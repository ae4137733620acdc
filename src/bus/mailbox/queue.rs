//! A watcher's queue of slices, which has one of four forms.
//!
//! The *chain* is one of crossbeam's queues, with one entry per slice. If the capacity is small,
//! the queue is a fixed array. If the capacity is large, the queue consists of linked segments, so
//! that it uses little memory while it is short. Credit limits the number of events sent into the
//! chain, and the length of the history limits the number of events replayed into it.
//!
//! The *growing* queue is for an inline bus, and consists of a chain followed by a batch. Until the
//! reader takes the batch, each event that only this watcher receives is added to the batch. A
//! single event therefore needs neither a separate entry nor a separate allocation, and the
//! reader's thread does not free memory that the publisher's thread has allocated. The batch is
//! protected by a lock, which the publisher and the reader hold while they move events or a few
//! words. No event is cloned or dropped while this lock is held. Everything in the chain must be
//! older than the batch, so the publisher seals the batch before it sends a slice, and the reader
//! checks the chain before it takes the batch.
//!
//! The *ring* is only for `DropOldest`, where the sender has to evict exactly the oldest events. A
//! chain cannot evict events from its sending end. The ring is a deque with its own lock. The lock
//! is held for a few instructions at a time, by the dispatcher (or the owner of an inline bus) and
//! by one reader. On a bus with a dispatcher, a publisher never holds the ring's lock. The reader
//! takes one event at a time. If a gap precedes an event, the reader leaves the event in the ring
//! until the gap has been reported, so that the sender can still drop the queued events. No event
//! is cloned or dropped while the ring's lock is held.
//!
//! The *conflating* queue has at most one event for each key (`conflating.rs`).

use std::collections::VecDeque;

use crate::bus::policy::OverflowPolicy;
use crate::sync::{Arc, Fifo, Mutex};

use super::conflating::{Conflating, Slot};
use super::entry::Entry;
use super::slice::{BatchSlice, OwnBatch, Positions, SharedBatch};

/// Each end of a mailbox has a clone, so that no pointer to a shared enum has to be followed for
/// each event.
#[derive(Debug)]
pub(crate) enum SliceQueue<T> {
    Chain(Fifo<BatchSlice<T>>),
    Growing(Fifo<BatchSlice<T>>, Arc<Mutex<Last<T>>>),
    Ring(Arc<Mutex<Ring<T>>>),
    Conflating(Arc<Mutex<Conflating<T>>>),
}

impl<T> Clone for SliceQueue<T> {
    fn clone(&self) -> Self {
        match self {
            Self::Chain(chain) => Self::Chain(chain.clone()),
            Self::Growing(chain, growing) => Self::Growing(chain.clone(), growing.clone()),
            Self::Ring(ring) => Self::Ring(ring.clone()),
            Self::Conflating(queue) => Self::Conflating(queue.clone()),
        }
    }
}

/// The growing batch. `None` before the first event, and after a slice has been sent.
type Last<T> = Option<Box<OwnBatch<T>>>;

#[derive(Debug)]
pub(crate) struct Ring<T> {
    slices: VecDeque<BatchSlice<T>>,
    /// The total number of events in `slices`.
    events: usize,
    /// The maximum number of events, and therefore of slices.
    most: usize,
}

/// The front of a queue, from the perspective of a reader that has reached a given offset.
pub(crate) enum Front<T> {
    /// A slice, which has been taken out of the queue. If a gap precedes the slice, its offset is
    /// greater than the reader's offset.
    Slice(BatchSlice<T>),
    /// A gap, represented by the number of events in it and by its last position. The event after
    /// the gap stays in the ring.
    Gap(u64, u64),
    Nothing,
}

impl<T> SliceQueue<T> {
    /// Creates a queue for `capacity` events, and for `replayed` additional events that do not need
    /// credit. If `grows` is set, the queue is a growing queue instead of a chain.
    pub(crate) fn new(capacity: usize, replayed: usize, policy: OverflowPolicy, grows: bool) -> Self {
        if policy == OverflowPolicy::DropOldest {
            return Self::Ring(Arc::new(Mutex::new(Ring {
                slices: VecDeque::new(),
                events: 0,
                most: capacity,
            })));
        }
        let chain = Fifo::new(capacity + replayed);
        if grows { Self::Growing(chain, Arc::new(Mutex::new(None))) } else { Self::Chain(chain) }
    }

    /// Creates a queue that holds at most one event for each key.
    pub(crate) fn conflating() -> Self {
        Self::Conflating(Arc::new(Mutex::new(Conflating::new())))
    }

    /// Returns whether this queue holds at most one event for each key.
    pub(super) fn conflates(&self) -> bool {
        matches!(self, Self::Conflating(..))
    }

    /// Adds a slice for which there is capacity. The caller must have credit for the slice, or must
    /// have called [`cut`](Self::cut) on a ring. The queue must not be a conflating queue.
    #[inline]
    pub(crate) fn push(&self, slice: BatchSlice<T>) {
        match self {
            Self::Chain(chain) | Self::Growing(chain, ..) => chain.push(slice),
            Self::Ring(ring) => ring.lock().push(slice),
            Self::Conflating(_) => debug_assert!(false, "slices have no key"),
        }
    }

    /// Returns whether this is a growing queue.
    #[inline]
    pub(crate) fn grows(&self) -> bool {
        matches!(self, Self::Growing(..))
    }

    /// Moves the events in `entry` into the growing batch. If the events do not directly follow the
    /// growing batch, or if the batch already holds more than `space` events, moves the events into
    /// a new batch instead. The first event has the given `offset` and `position`. The caller must
    /// have credit for the events. Has no effect on the other forms of queue.
    #[inline]
    pub(crate) fn grow(&self, space: usize, offset: u64, position: u64, entry: Entry<T>) {
        let Self::Growing(chain, growing) = self else { return };
        let mut last = growing.lock();
        if last.as_ref().is_some_and(|own| !own.is_followed_by(offset, position, space)) {
            seal(chain, &mut last);
        }
        let batch = last.get_or_insert_default().grow(offset, position);
        match entry {
            Entry::Event(event) => batch.push(event),
            Entry::Batch(mut events) => batch.append(&mut events),
        }
    }

    /// Moves the growing batch into the chain, so that a slice can be sent after it.
    #[cold]
    pub(crate) fn seal(&self) {
        let Self::Growing(chain, growing) = self else { return };
        seal(chain, &mut growing.lock());
    }

    /// Adds a slice to a ring, and removes the oldest events so that at most `capacity` events are
    /// left. Returns the removed events, oldest first. If the queue is a chain, only adds the
    /// slice.
    #[inline]
    pub(crate) fn push_newest(&self, slice: BatchSlice<T>, capacity: usize) -> Vec<BatchSlice<T>> {
        let Self::Ring(ring) = self else {
            self.push(slice);
            return Vec::new();
        };
        let mut ring = ring.lock();
        let lost = ring.cut(capacity.saturating_sub(slice.len()));
        ring.push(slice);
        lost
    }

    /// Removes the oldest events from a ring until at most `capacity` events are left. Returns the
    /// removed events, oldest first. Has no effect on a chain.
    pub(crate) fn cut(&self, capacity: usize) -> Vec<BatchSlice<T>> {
        let Self::Ring(ring) = self else { return Vec::new() };
        ring.lock().cut(capacity)
    }

    /// Takes one slice out of a chain, or one event out of a ring or a conflating queue. If events
    /// are missing before the front, the event stays in the queue. If a growing queue returns
    /// its batch, it keeps `spare` in exchange.
    #[inline]
    pub(crate) fn pop_at(&self, expected: u64, spare: &mut Last<T>) -> Front<T> {
        match self {
            Self::Chain(chain) => chain.pop().map_or(Front::Nothing, Front::Slice),
            Self::Growing(chain, growing) => match chain.pop() {
                Some(slice) => Front::Slice(slice),
                None => take_last(chain, growing, spare).map_or(Front::Nothing, Front::Slice),
            },
            Self::Ring(ring) => ring.lock().pop_at(expected),
            Self::Conflating(queue) => {
                let taken = queue.lock().take();
                let Some(Slot { event, offset, position }) = taken else { return Front::Nothing };
                // The memory of a batch that has been read is reused.
                let mut own = spare.take().unwrap_or_default();
                own.grow(offset, position).push(event);
                Front::Slice(BatchSlice::Own(own))
            }
        }
    }

    /// Takes one event out of a ring. Returns `None` for the other forms of queue. The caller
    /// reports the event together with the gap that precedes the event.
    pub(crate) fn pop_behind_gap(&self) -> Option<BatchSlice<T>> {
        let Self::Ring(ring) = self else { return None };
        ring.lock().pop()
    }

    /// Empties the queue and returns its slices, so that the caller can choose when the events'
    /// destructors run.
    pub(crate) fn take_all(&self) -> Vec<BatchSlice<T>> {
        match self {
            Self::Chain(chain) => std::iter::from_fn(|| chain.pop()).collect(),
            Self::Growing(chain, growing) => {
                std::iter::from_fn(|| chain.pop().or_else(|| take_last(chain, growing, &mut None))).collect()
            }
            Self::Ring(ring) => ring.lock().cut(0),
            Self::Conflating(queue) => {
                let events = queue.lock().take_all();
                // These events are only counted, so they need no positions.
                let len = events.len();
                let batch = SharedBatch::new(events, Positions::none());
                vec![BatchSlice::new(batch, 0..len, 0)]
            }
        }
    }
}

fn seal<T>(chain: &Fifo<BatchSlice<T>>, last: &mut Last<T>) {
    if let Some(own) = last.take_if(|own| !own.is_empty()) {
        chain.push(BatchSlice::Own(own));
    }
}

/// Takes the growing batch, and leaves `spare` in its place so that the memory is reused. If a
/// slice has been added to the chain in the meantime, takes the slice instead, because the slice is
/// older than the batch.
fn take_last<T>(
    chain: &Fifo<BatchSlice<T>>,
    growing: &Mutex<Last<T>>,
    spare: &mut Last<T>,
) -> Option<BatchSlice<T>> {
    let mut last = growing.lock();
    let older = chain.pop();
    if older.is_some() || last.as_ref().is_none_or(|own| own.is_empty()) {
        return older;
    }
    std::mem::replace(&mut *last, spare.take()).map(BatchSlice::Own)
}

/// Returns the total number of events in the slices.
pub(crate) fn events_in<T>(slices: &[BatchSlice<T>]) -> u64 {
    slices.iter().map(|slice| slice.len() as u64).sum()
}

impl<T> Ring<T> {
    fn push(&mut self, slice: BatchSlice<T>) {
        self.events += slice.len();
        let held = self.slices.len();
        if held == self.slices.capacity() {
            // The deque doubles its capacity, but not beyond the maximum number of slices.
            self.slices.reserve_exact(held.max(4).min(self.most.saturating_sub(held)).max(1));
        }
        self.slices.push_back(slice);
    }

    fn pop_at(&mut self, expected: u64) -> Front<T> {
        match self.slices.front() {
            Some(front) if front.offset() > expected => {
                Front::Gap(front.offset() - expected, front.position_behind(0))
            }
            _ => self.pop().map_or(Front::Nothing, Front::Slice),
        }
    }

    fn pop(&mut self) -> Option<BatchSlice<T>> {
        let one = match self.slices.front_mut() {
            Some(front) if front.len() > 1 => front.split_front(1)?,
            Some(_) => self.slices.pop_front()?,
            None => return None,
        };
        self.events -= one.len();
        Some(one)
    }

    fn cut(&mut self, capacity: usize) -> Vec<BatchSlice<T>> {
        let mut lost = Vec::new();
        while self.events > capacity {
            let excess = self.events - capacity;
            let slice = match self.slices.front_mut() {
                Some(front) if front.len() > excess => front.split_front(excess),
                _ => self.slices.pop_front(),
            };
            let Some(slice) = slice else { break };
            self.events -= slice.len();
            lost.push(slice);
        }
        lost
    }
}
