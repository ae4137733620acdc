//! Counts the handles that keep a bus open. The count is needed because a weak handle has to find
//! out whether any such handle is left, and loom's `Arc` has no `Weak`.

use crate::sync::atomic::{AtomicUsize, Ordering};

pub(crate) struct Handles {
    /// The number of handles. Once the count reaches zero, it stays zero.
    ///
    /// The count cannot overflow. Each handle also holds a reference to the bus, and an overflow of
    /// that reference count would abort the process first.
    open: AtomicUsize,
}

impl Handles {
    /// Creates the count for a new bus, including its first handle.
    pub(crate) fn new() -> Self {
        Self { open: AtomicUsize::new(1) }
    }

    /// Adds a handle. The caller must already hold a handle.
    pub(crate) fn add(&self) {
        // Relaxed: the caller's own handle keeps the count above zero, and no data depends on the
        // count.
        self.open.fetch_add(1, Ordering::Relaxed);
    }

    /// Adds a handle if any handle is left. Returns whether a handle was left.
    pub(crate) fn try_add(&self) -> bool {
        let add = |open: usize| (open > 0).then_some(open + 1);
        // Relaxed, both: only the modification order of this count matters, and no data depends on
        // the count.
        self.open.fetch_update(Ordering::Relaxed, Ordering::Relaxed, add).is_ok()
    }

    /// Removes a handle. Returns whether the removed handle was the last one. If so, the caller
    /// must close the bus.
    pub(crate) fn remove(&self) -> bool {
        // Release: pairs with the fence in `BusState::close`, which follows the last removal, so
        // that everything done before any removal happens before the bus ends.
        self.open.fetch_sub(1, Ordering::Release) == 1
    }
}
