//! A watcher's queue of slices, in one of three forms.
//!
//! The *chain* has one entry for each slice. It is one of crossbeam's queues: a fixed array for a
//! short queue, and segments for all others, so that a queue that may become long costs nothing
//! while it is short. Credit bounds what is sent into the chain. The length of the history bounds
//! what is replayed into it.
//!
//! The *growing* queue is for an inline bus. It is a chain followed by a batch. Each event that
//! only this watcher gets is added to the batch, until the reader takes the batch. An event that is
//! published on its own then needs no entry and no allocation, and the reader's thread does not
//! free memory that the publisher's thread has allocated. The batch has a lock. The publisher and
//! the reader hold it to move events or a few words. No event is cloned or dropped under it.
//! Everything in the chain is older than the batch, so the publisher seals the batch before it
//! sends a slice, and the reader checks the chain before it takes the batch.
//!
//! The *ring* is only for `DropOldest`. There the sender has to take back exactly the oldest
//! events, which a chain cannot do from its sending end. The ring is a deque under its own lock.
//! The dispatcher and one reader hold this lock for a few instructions, and a publisher never holds
//! it. The reader takes one event at a time, and leaves the event after a gap in the ring until it
//! has reported the gap, so that the sender can still drop the queued events. No event is cloned or
//! dropped under the lock.

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

/// The batch that grows. `None` before the first event, and after a slice.
type Last<T> = Option<Box<OwnBatch<T>>>;

#[derive(Debug)]
pub(crate) struct Ring<T> {
    slices: VecDeque<BatchSlice<T>>,
    /// The number of events, which is the sum of the lengths of `slices`.
    events: usize,
    /// The highest number of events, and therefore of slices.
    most: usize,
}

/// The front of a queue, for a reader that has reached a given offset.
pub(crate) enum Front<T> {
    /// A slice, which has been taken out. Its offset is past the reader's if a gap precedes it.
    Slice(BatchSlice<T>),
    /// A gap of this many events, up to this position. The event after it stays in the ring.
    Gap(u64, u64),
    Nothing,
}

impl<T> SliceQueue<T> {
    /// Creates a queue for this many events, and for `replayed` more that need no credit. If
    /// `grows` is set, it is a growing queue instead of a chain.
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

    /// Adds a slice for which there is capacity. The caller has credit for it, or has cut the ring.
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

    /// Moves events into the batch that grows, or into a new one if there are more than `space`.
    /// The first of them has this offset and position. The caller has credit for them. A queue of
    /// another form is left as it is.
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

    /// Moves the batch that grows into the chain, so that a slice may follow it.
    #[cold]
    pub(crate) fn seal(&self) {
        let Self::Growing(chain, growing) = self else { return };
        seal(chain, &mut growing.lock());
    }

    /// Adds a slice to a ring, and takes the oldest events out so that at most `capacity` stay.
    /// Returns these, oldest first. A chain only adds the slice.
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

    /// Takes the oldest events out until at most `capacity` are left. Returns them, oldest first. A
    /// chain is left as it is.
    pub(crate) fn cut(&self, capacity: usize) -> Vec<BatchSlice<T>> {
        let Self::Ring(ring) = self else { return Vec::new() };
        ring.lock().cut(capacity)
    }

    /// Takes out one slice of a chain, or one event of a ring. A ring whose front is not at
    /// `expected` is left as it is. A growing queue takes `spare` for the batch that it gives out.
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

    /// Takes one event out of a ring, and returns `None` for a chain. The caller reports the gap
    /// before the event together with it.
    pub(crate) fn pop_behind_gap(&self) -> Option<BatchSlice<T>> {
        let Self::Ring(ring) = self else { return None };
        ring.lock().pop()
    }

    /// Empties the queue. Returns its slices, so that the caller chooses when the events'
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

/// Takes the batch that grows, and leaves the memory of `spare` in its place. If the chain has a
/// slice by now, that slice is older, and is taken instead.
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

/// Returns how many events the slices hold.
pub(crate) fn events_in<T>(slices: &[BatchSlice<T>]) -> u64 {
    slices.iter().map(|slice| slice.len() as u64).sum()
}

impl<T> Ring<T> {
    fn push(&mut self, slice: BatchSlice<T>) {
        self.events += slice.len();
        let held = self.slices.len();
        if held == self.slices.capacity() {
            // The deque doubles, but not beyond the highest number of slices.
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
