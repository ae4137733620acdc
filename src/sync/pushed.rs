//! Counts all values that were ever pushed into a queue that knows only its current length.
//!
//! The receiving side counts the values that it pops. The sum of this count and the queue's length
//! is the number of pushes if no pop happens between the two reads. The count is therefore odd
//! while a pop is in progress, and a thread that reads the count waits until it is even and stays
//! the same. The count is a sequence lock whose writer never waits.

#[cfg(not(eventcast_loom))]
use std::sync::atomic::{AtomicU64, Ordering, fence};
#[cfg(not(eventcast_loom))]
use std::thread::yield_now;

#[cfg(eventcast_loom)]
use super::model::atomic::{AtomicU64, Ordering, fence};
#[cfg(eventcast_loom)]
use super::model::hint::spin_loop as yield_now;

/// The number of pops from a queue that has one receiving thread at a time.
#[derive(Debug)]
pub struct Popped {
    /// Twice the number of pops, plus one during a pop.
    word: AtomicU64,
}

impl Popped {
    /// Creates the count for a new queue.
    pub fn new() -> Self {
        Self { word: AtomicU64::new(0) }
    }

    /// Calls `pop`, and increments the count if `pop` returned a value.
    #[inline]
    pub fn count<R>(&self, pop: impl FnOnce() -> Option<R>) -> Option<R> {
        // Relaxed: the receiving side's lock orders this load.
        let before = self.word.load(Ordering::Relaxed);
        // Relaxed: the fence orders this store before the pop's changes to the queue.
        self.word.store(before + 1, Ordering::Relaxed);
        // Release: pairs with the Acquire fence in `pushed` if the queue's length there reflects
        // this pop.
        fence(Ordering::Release);
        let popped = pop();
        let after = before + if popped.is_some() { 2 } else { 0 };
        // Release: pairs with the Acquire in `pushed`, so that the queue's length there reflects
        // this pop.
        self.word.store(after, Ordering::Release);
        popped
    }

    /// Returns the number of values that had been pushed at some point during this call. `len` must
    /// return the length of the queue. Yields while a pop is in progress.
    pub fn pushed(&self, len: impl Fn() -> usize) -> u64 {
        loop {
            // Acquire: pairs with the Release in `count`.
            let before = self.word.load(Ordering::Acquire);
            let len = len() as u64;
            // Acquire: pairs with the Release fence in `count`. If the length reflects a pop that
            // `before` does not count, the word has changed.
            fence(Ordering::Acquire);
            // Relaxed: the fence orders this load.
            if before % 2 == 0 && self.word.load(Ordering::Relaxed) == before {
                return before / 2 + len;
            }
            yield_now();
        }
    }
}
