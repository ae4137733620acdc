//! A watcher's queue of slices, in one of two forms.
//!
//! The *chain* is crossbeam's segmented queue, one entry per slice. It takes memory as it fills, so that a queue that may
//! be long costs nothing while it is short; what bounds it is the dispatcher's credit.
//!
//! The *ring* is for `DropOldest` alone: the sender has to take back exactly the oldest events, which a chain cannot
//! do from its sending end. It is a deque under a lock of its own that is held for a few instructions, by the
//! dispatcher and one reader, never by a publisher. The reader takes one event at a time, so that what is queued can
//! still be given up; no event is cloned or dropped under the lock.

use std::collections::VecDeque;

use crate::policy::OverflowPolicy;
use crate::sync::{Mutex, Segments};

use super::slice::BatchSlice;

#[derive(Debug)]
pub(crate) enum SliceQueue<T> {
    /// In a box, whose padding the other form so does not have.
    Chain(Box<Segments<BatchSlice<T>>>),
    Ring(Box<Mutex<Ring<T>>>),
}

#[derive(Debug)]
pub(crate) struct Ring<T> {
    slices: VecDeque<BatchSlice<T>>,
    /// The sum of their lengths.
    events: usize,
    /// How many events there may be, and so slices.
    most: usize,
}

impl<T> SliceQueue<T> {
    pub(crate) fn new(capacity: usize, policy: OverflowPolicy) -> Self {
        if policy == OverflowPolicy::DropOldest {
            return Self::Ring(Box::new(Mutex::new(Ring {
                slices: VecDeque::new(),
                events: 0,
                most: capacity,
            })));
        }
        Self::Chain(Box::new(Segments::new(capacity)))
    }

    /// Adds a slice for which there is credit.
    #[inline]
    pub(crate) fn push(&self, slice: BatchSlice<T>) {
        match self {
            Self::Chain(chain) => chain.push(slice),
            Self::Ring(ring) => ring.lock().push(slice),
        }
    }

    /// Takes the oldest events out until at most `capacity` are left; they come back, oldest first.
    pub(crate) fn cut(&self, capacity: usize) -> Vec<BatchSlice<T>> {
        match self {
            Self::Chain(_) => Vec::new(),
            Self::Ring(ring) => ring.lock().cut(capacity),
        }
    }

    /// A slice of a chain, one event of a ring.
    #[inline]
    pub(crate) fn pop(&self) -> Option<BatchSlice<T>> {
        match self {
            Self::Chain(chain) => chain.pop(),
            Self::Ring(ring) => ring.lock().pop(),
        }
    }

    /// Empties the queue. What was in it comes back, so that the caller chooses when the events' destructors run.
    pub(crate) fn take_all(&self) -> Vec<BatchSlice<T>> {
        match self {
            Self::Chain(chain) => std::iter::from_fn(|| chain.pop()).collect(),
            Self::Ring(ring) => ring.lock().cut(0),
        }
    }
}

/// How many events there are in some slices.
pub(crate) fn events_in<T>(slices: &[BatchSlice<T>]) -> u64 {
    slices.iter().map(|slice| slice.len() as u64).sum()
}

impl<T> Ring<T> {
    fn push(&mut self, slice: BatchSlice<T>) {
        self.events += slice.len();
        let held = self.slices.len();
        if held == self.slices.capacity() {
            // Doubled, but never for more than there can be.
            self.slices.reserve_exact(held.max(4).min(self.most.saturating_sub(held)).max(1));
        }
        self.slices.push_back(slice);
    }

    fn pop(&mut self) -> Option<BatchSlice<T>> {
        let one = match self.slices.front_mut() {
            Some(front) if front.len() > 1 => front.split_front(1),
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
                Some(_) => match self.slices.pop_front() {
                    Some(slice) => slice,
                    None => break,
                },
                None => break,
            };
            self.events -= slice.len();
            lost.push(slice);
        }
        lost
    }
}
