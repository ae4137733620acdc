//! The handles that keep a bus open. They are counted here, because a handle that does not keep the
//! bus open has to find out whether any is left that does, and loom's `Arc` has no `Weak`.

use crate::sync::atomic::{AtomicUsize, Ordering};

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

    /// Adds a handle if there still is one. Returns whether there was.
    pub(crate) fn try_add(&self) -> bool {
        let add = |open: usize| (open > 0).then_some(open + 1);
        // Relaxed, both: only the order of this count matters, and no data depends on it.
        self.open.fetch_update(Ordering::Relaxed, Ordering::Relaxed, add).is_ok()
    }

    /// Removes a handle. Returns whether it was the last one. The caller then closes the bus.
    pub(crate) fn remove(&self) -> bool {
        // Release: pairs with the fence in `BusState::close`, which follows the last removal, so
        // that the bus ends after everything that was done before any removal.
        self.open.fetch_sub(1, Ordering::Release) == 1
    }
}
