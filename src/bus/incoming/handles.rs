//! The handles that keep a bus open. They are counted here, because a handle that does not keep the
//! bus open has to find out whether one is left, and loom's `Arc` has no `Weak`.

use crate::sync::atomic::{AtomicUsize, Ordering};

#[derive(Debug)]
pub(crate) struct Handles {
    /// The number of handles. Once it is zero, it stays zero.
    ///
    /// It cannot overflow: each handle also holds a reference to the bus, and that count aborts the
    /// process first.
    open: AtomicUsize,
}

impl Handles {
    /// Creates the count of a bus with its first handle.
    pub(crate) fn new() -> Self {
        Self { open: AtomicUsize::new(1) }
    }

    /// Adds a handle. The caller has one.
    pub(crate) fn add(&self) {
        // Relaxed: the caller's own handle keeps the count above zero, and no data depends on it.
        self.open.fetch_add(1, Ordering::Relaxed);
    }

    /// Removes a handle. Returns whether it was the last one. The caller then closes the bus.
    pub(crate) fn remove(&self) -> bool {
        // Release: pairs with the Acquire of the last removal, so that the close of the bus follows
        // everything that was done with the other handles.
        // Acquire: pairs with the Release of the earlier removals.
        self.open.fetch_sub(1, Ordering::AcqRel) == 1
    }
}
