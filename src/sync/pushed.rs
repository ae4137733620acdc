//! The number of values that have ever been pushed into a queue, for a queue that knows only its
//! length.
//!
//! The receiving side counts what it pops. The sum of this count and of the queue's length is the
//! number of pushes if no pop happens between the two reads. The count is therefore odd while a pop
//! is under way, and a thread that reads it waits for an even one that stays the same: a sequence
//! lock, in which the writer never waits.

#[cfg(not(eventcast_loom))]
use std::sync::atomic::{AtomicU64, Ordering, fence};
#[cfg(not(eventcast_loom))]
use std::thread::yield_now;

#[cfg(eventcast_loom)]
use super::model::atomic::{AtomicU64, Ordering, fence};
#[cfg(eventcast_loom)]
use super::model::hint::spin_loop as yield_now;

/// The count of pops of a queue with one receiving thread at a time.
#[derive(Debug)]
pub struct Popped {
    /// Twice the number of pops, and one more during a pop.
    word: AtomicU64,
}

impl Popped {
    /// Creates the count of a new queue.
    pub fn new() -> Self {
        Self { word: AtomicU64::new(0) }
    }

    /// Calls `pop`, and counts whether it has popped a value.
    #[inline]
    pub fn count<R>(&self, pop: impl FnOnce() -> Option<R>) -> Option<R> {
        // Relaxed: the lock of the receiving side orders it.
        let before = self.word.load(Ordering::Relaxed);
        // Relaxed: the fence orders it before what the pop does to the queue.
        self.word.store(before + 1, Ordering::Relaxed);
        // Release: pairs with the Acquire fence in `pushed`, whose queue shows this pop.
        fence(Ordering::Release);
        let popped = pop();
        let after = before + if popped.is_some() { 2 } else { 0 };
        // Release: pairs with the Acquire in `pushed`, so that the queue shows this pop there.
        self.word.store(after, Ordering::Release);
        popped
    }

    /// Returns how many values had been pushed at some time during this call. `len` returns the
    /// length of the queue. Yields while a pop is under way.
    pub fn pushed(&self, len: impl Fn() -> usize) -> u64 {
        loop {
            // Acquire: pairs with the Release in `count`.
            let before = self.word.load(Ordering::Acquire);
            let len = len() as u64;
            // Acquire: pairs with the Release fence in `count`. If the length shows a pop that
            // `before` does not count, the word has changed.
            fence(Ordering::Acquire);
            // Relaxed: the fence orders it.
            if before % 2 == 0 && self.word.load(Ordering::Relaxed) == before {
                return before / 2 + len;
            }
            yield_now();
        }
    }
}
