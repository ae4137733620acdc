//! The owner of an inline bus, which is the thread that holds the bus's lock and is inside a call.
//!
//! The owner does the work that other threads delegate to it. A thread that has recorded due work
//! (reaping a watcher or closing the bus) sets a bit in the word that contains the owner's number.
//! The owner reads the bit in the same atomic exchange that ends its ownership, so one of the two
//! threads sees the other.

use crate::sync::atomic::{AtomicU64, Ordering};
use crate::sync::thread_number;

/// The bit that is set if work is due.
const DUE: u64 = 1;

/// The owner's thread number, or zero if there is no owner, combined with the `DUE` bit.
pub(crate) struct Owner {
    word: AtomicU64,
}

impl Owner {
    pub(crate) fn new() -> Self {
        Self { word: AtomicU64::new(0) }
    }

    fn this_thread() -> u64 {
        (thread_number() as u64 + 1) << 1
    }

    /// Returns whether the current thread is the owner.
    #[inline]
    pub(crate) fn is_this_thread(&self) -> bool {
        // Relaxed: only this thread stores its own number.
        let word = self.word.load(Ordering::Relaxed);
        word != 0 && word & !DUE == Self::this_thread()
    }

    /// Makes the current thread the owner. The caller must hold the lock.
    #[inline]
    pub(crate) fn set(&self) {
        // Relaxed: a thread that does not see this store yet fails to acquire the lock, and checks
        // again.
        self.word.store(Self::this_thread(), Ordering::Relaxed);
    }

    /// Ends the ownership. Returns whether work is due. The caller must still hold the lock.
    #[inline]
    pub(crate) fn leave(&self) -> bool {
        // Acquire: pairs with the Release in `ask`, so that the owner sees the due work.
        // Release: pairs with the Acquire in `ask`. A thread that finds no owner sees what this
        // thread did, and tries to acquire the lock.
        self.word.swap(0, Ordering::AcqRel) & DUE != 0
    }

    /// Requests that the owner do the due work. Returns `false` if there is no owner.
    pub(crate) fn ask(&self) -> bool {
        let due = |word: u64| (word != 0).then_some(word | DUE);
        // Release: pairs with the Acquire in `leave`, so that the owner sees the due work. Acquire:
        // pairs with the Release in `leave`. An attempt fails only if there is no owner.
        self.word.fetch_update(Ordering::Release, Ordering::Acquire, due).is_ok()
    }
}
