//! A watcher's queue of slices, in one of two forms.
//!
//! The *chain* has one entry for each slice. It is one of crossbeam's queues: a fixed array for a
//! short queue, and segments for all others, so that a queue that may become long costs nothing
//! while it is short. Credit bounds what is sent into the chain. The length of the history bounds
//! what is replayed into it.
//!
//! The *ring* is for `DropOldest` alone. There the sender has to take back exactly the oldest
//! events, which a chain cannot do from its sending end. The ring is a deque under its own lock.
//! The dispatcher and one reader hold this lock for a few instructions, and a publisher never holds
//! it. The reader takes one event at a time, and leaves the event behind a gap in the ring until it
//! has reported the gap, so that the sender can still drop the queued events. No event is cloned or
//! dropped under the lock.

use std::collections::VecDeque;

use crate::policy::OverflowPolicy;
use crate::sync::{Fifo, Mutex};

use super::slice::BatchSlice;

#[derive(Debug)]
pub(crate) enum SliceQueue<T> {
    Chain(Fifo<BatchSlice<T>>),
    Ring(Box<Mutex<Ring<T>>>),
}

#[derive(Debug)]
pub(crate) struct Ring<T> {
    slices: VecDeque<BatchSlice<T>>,
    /// The number of events, which is the sum of the lengths of `slices`.
    events: usize,
    /// The highest number of events, and therefore of slices.
    most: usize,
}

/// The front of a queue, for a reader that has come to a given offset.
pub(crate) enum Front<T> {
    /// A slice, which has been taken out. Its offset is past the reader's if a gap precedes it.
    Slice(BatchSlice<T>),
    /// A gap of this many events, up to this position. The event behind it stays in the ring.
    Gap(u64, u64),
    Nothing,
}

impl<T> SliceQueue<T> {
    /// Creates a queue for this many events, and for `replayed` more that need no credit.
    pub(crate) fn new(capacity: usize, replayed: usize, policy: OverflowPolicy) -> Self {
        if policy == OverflowPolicy::DropOldest {
            return Self::Ring(Box::new(Mutex::new(Ring {
                slices: VecDeque::new(),
                events: 0,
                most: capacity,
            })));
        }
        Self::Chain(Fifo::new(capacity + replayed))
    }

    /// Adds a slice for which there is room. The caller has credit for it, or has cut the ring.
    #[inline]
    pub(crate) fn push(&self, slice: BatchSlice<T>) {
        match self {
            Self::Chain(chain) => chain.push(slice),
            Self::Ring(ring) => ring.lock().push(slice),
        }
    }

    /// Adds a slice to a ring, and takes the oldest events out so that at most `capacity` stay.
    /// Returns these, oldest first. A chain only adds the slice.
    #[inline]
    pub(crate) fn push_newest(&self, slice: BatchSlice<T>, capacity: usize) -> Vec<BatchSlice<T>> {
        match self {
            Self::Chain(chain) => {
                chain.push(slice);
                Vec::new()
            }
            Self::Ring(ring) => {
                let mut ring = ring.lock();
                let lost = ring.cut(capacity.saturating_sub(slice.len()));
                ring.push(slice);
                lost
            }
        }
    }

    /// Takes the oldest events out until at most `capacity` are left. Returns them, oldest first. A
    /// chain is left as it is.
    pub(crate) fn cut(&self, capacity: usize) -> Vec<BatchSlice<T>> {
        match self {
            Self::Chain(_) => Vec::new(),
            Self::Ring(ring) => ring.lock().cut(capacity),
        }
    }

    /// Takes out one slice of a chain, or one event of a ring. A ring whose front is not at
    /// `expected` is left as it is.
    #[inline]
    pub(crate) fn pop_at(&self, expected: u64) -> Front<T> {
        match self {
            Self::Chain(chain) => chain.pop().map_or(Front::Nothing, Front::Slice),
            Self::Ring(ring) => ring.lock().pop_at(expected),
        }
    }

    /// Takes one event out of a ring, and returns `None` for a chain. The caller reports the gap
    /// before the event together with it.
    pub(crate) fn pop_behind_gap(&self) -> Option<BatchSlice<T>> {
        match self {
            Self::Chain(_) => None,
            Self::Ring(ring) => ring.lock().pop(),
        }
    }

    /// Empties the queue. Returns its slices, so that the caller chooses when the events'
    /// destructors run.
    pub(crate) fn take_all(&self) -> Vec<BatchSlice<T>> {
        match self {
            Self::Chain(chain) => std::iter::from_fn(|| chain.pop()).collect(),
            Self::Ring(ring) => ring.lock().cut(0),
        }
    }
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
