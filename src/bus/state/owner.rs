//! The owner of an inline bus: the thread that has the lock of the bus, and is inside a call.
//!
//! The owner does the work that other threads leave to it. A thread that has noted due work (a
//! watcher to reap, the close) asks the owner with a bit in the word that names the owner. The
//! owner reads the bit in the same exchange with which it releases the bus, so one of the two sees
//! the other.

use crate::sync::atomic::{AtomicU64, Ordering};
use crate::sync::thread_number;

/// Something is due.
const DUE: u64 = 1;

/// The number of the owner, or zero for none, and the bit.
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

    /// Returns whether the running thread is the owner.
    #[inline]
    pub(crate) fn is_this_thread(&self) -> bool {
        // Relaxed: only this thread stores its own number.
        let word = self.word.load(Ordering::Relaxed);
        word != 0 && word & !DUE == Self::this_thread()
    }

    /// Makes the running thread the owner. The caller has the lock.
    #[inline]
    pub(crate) fn set(&self) {
        // Relaxed: a thread that does not see this yet fails to get the lock, and checks again.
        self.word.store(Self::this_thread(), Ordering::Relaxed);
    }

    /// Ends the ownership. Returns whether work is due. The caller still has the lock.
    #[inline]
    pub(crate) fn leave(&self) -> bool {
        // Acquire: pairs with the Release in `ask`, so that the owner sees what is due.
        // Release: pairs with the Acquire in `ask`. A thread that finds no owner gets the lock, and
        // sees what this one did.
        self.word.swap(0, Ordering::AcqRel) & DUE != 0
    }

    /// Asks the owner to do the due work. Returns `false` if there is no owner.
    pub(crate) fn ask(&self) -> bool {
        let due = |word: u64| (word != 0).then_some(word | DUE);
        // Release: pairs with the Acquire in `leave`, so that the owner sees what is due. Acquire:
        // pairs with the Release in `leave`. A failed attempt has found no owner.
        self.word.fetch_update(Ordering::Release, Ordering::Acquire, due).is_ok()
    }
}
