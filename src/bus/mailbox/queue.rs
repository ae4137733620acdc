//! A watcher's queue of slices, which has one of three forms.
//!
//! The *chain* has one entry per slice. It is one of crossbeam's queues: a fixed array if the
//! capacity is small, and otherwise linked segments, so that a queue with a large capacity uses
//! little memory while it is short. Credit limits what is sent into the chain, and the length of
//! the history limits what is replayed into it.
//!
//! The *growing* queue is for an inline bus. It is a chain followed by a batch. Each event that
//! only this watcher gets is added to the batch, until the reader takes the batch. A single event
//! therefore needs no entry and no allocation, and the reader's thread does not free memory that
//! the publisher's thread has allocated. The batch has a lock, which the publisher and the reader
//! hold while they move events or a few words. No event is cloned or dropped under this lock.
//! Everything in the chain must be older than the batch, so the publisher seals the batch before it
//! sends a slice, and the reader checks the chain before it takes the batch.
//!
//! The *ring* is only for `DropOldest`, where the sender has to evict exactly the oldest events. A
//! chain does not allow this from its sending end. The ring is a deque with its own lock, which the
//! dispatcher, or the owner of an inline bus, and one reader hold for a few instructions. On a bus
//! with a dispatcher, a publisher never holds this lock. The reader takes one event at a time. It
//! leaves the event after a gap in the ring until it has reported the gap, so that the sender can
//! still drop the queued events. No event is cloned or dropped under the lock.

use std::collections::VecDeque;

use crate::bus::policy::OverflowPolicy;
use crate::sync::{Fifo, Mutex};

use super::entry::Entry;
use super::slice::{BatchSlice, OwnBatch};

#[derive(Debug)]
pub(crate) enum SliceQueue<T> {
    Chain(Fifo<BatchSlice<T>>),
    Growing(Fifo<BatchSlice<T>>, Mutex<Last<T>>),
    Ring(Box<Mutex<Ring<T>>>),
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

/// The front of a queue, as found by a reader that has reached a given offset.
pub(crate) enum Front<T> {
    /// A slice, which has been taken out. If a gap precedes it, its offset is greater than the
    /// reader's.
    Slice(BatchSlice<T>),
    /// A gap with its number of events and its last position. The event after the gap stays in the
    /// ring.
    Gap(u64, u64),
    Nothing,
}

impl<T> SliceQueue<T> {
    /// Creates a queue for `capacity` events, and for `replayed` additional events that need no
    /// credit. If `grows` is set, the queue is a growing queue instead of a chain.
    pub(crate) fn new(capacity: usize, replayed: usize, policy: OverflowPolicy, grows: bool) -> Self {
        if policy == OverflowPolicy::DropOldest {
            return Self::Ring(Box::new(Mutex::new(Ring {
                slices: VecDeque::new(),
                events: 0,
                most: capacity,
            })));
        }
        let chain = Fifo::new(capacity + replayed);
        if grows { Self::Growing(chain, Mutex::new(None)) } else { Self::Chain(chain) }
    }

    /// Adds a slice for which there is capacity. The caller must have credit for it, or must have
    /// cut the ring.
    #[inline]
    pub(crate) fn push(&self, slice: BatchSlice<T>) {
        match self {
            Self::Chain(chain) | Self::Growing(chain, ..) => chain.push(slice),
            Self::Ring(ring) => ring.lock().push(slice),
        }
    }

    /// Returns whether this is a growing queue.
    #[inline]
    pub(crate) fn grows(&self) -> bool {
        matches!(self, Self::Growing(..))
    }

    /// Moves events into the growing batch, or into a new batch if the events do not directly
    /// follow the growing batch, or if it already holds more than `space` events. The first of the
    /// events has this offset and position. The caller must have credit for them. Has no effect on
    /// queues of another form.
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

    /// Moves the growing batch into the chain, so that a slice may follow it.
    #[cold]
    pub(crate) fn seal(&self) {
        let Self::Growing(chain, growing) = self else { return };
        seal(chain, &mut growing.lock());
    }

    /// Adds a slice to a ring, and takes out the oldest events so that at most `capacity` events
    /// are left. Returns the events that it has taken out, oldest first. A chain only adds the
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

    /// Takes the oldest events out of a ring until at most `capacity` events are left. Returns the
    /// events that it has taken out, oldest first. Has no effect on a chain.
    pub(crate) fn cut(&self, capacity: usize) -> Vec<BatchSlice<T>> {
        let Self::Ring(ring) = self else { return Vec::new() };
        ring.lock().cut(capacity)
    }

    /// Takes one slice out of a chain, or one event out of a ring. If the front of a ring is past
    /// `expected`, the ring is left unchanged. A growing queue takes `spare` in exchange for the
    /// batch that it returns.
    #[inline]
    pub(crate) fn pop_at(&self, expected: u64, spare: &mut Last<T>) -> Front<T> {
        match self {
            Self::Chain(chain) => chain.pop().map_or(Front::Nothing, Front::Slice),
            Self::Growing(chain, growing) => match chain.pop() {
                Some(slice) => Front::Slice(slice),
                None => take_last(chain, growing, spare).map_or(Front::Nothing, Front::Slice),
            },
            Self::Ring(ring) => ring.lock().pop_at(expected),
        }
    }

    /// Takes one event out of a ring. Returns `None` for a chain. The caller reports the event
    /// together with the gap before it.
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
        }
    }
}

fn seal<T>(chain: &Fifo<BatchSlice<T>>, last: &mut Last<T>) {
    if let Some(own) = last.take_if(|own| !own.is_empty()) {
        chain.push(BatchSlice::Own(own));
    }
}

/// Takes the growing batch, and leaves the memory of `spare` in its place. If the chain holds a
/// slice by now, that slice is older and is taken instead.
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
