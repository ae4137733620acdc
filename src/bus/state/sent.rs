//! The counters of a watcher that the fan-out keeps for itself.

use crate::bus::counters::{DropCounts, DropReason};

/// The dispatcher's copy of the counters that it publishes. The fields are in the order of memory,
/// like the fields of [`WatcherState`](super::watcher::WatcherState).
#[derive(Clone, Copy, Default)]
#[repr(C)]
pub(crate) struct Sent {
    pub(crate) decided: u64,
    pub(crate) offered: u64,
    pub(crate) queued: u64,
    pub(crate) high_water: u64,
    /// Whether `drops` or `filtered` has changed since these counts were last published.
    pub(super) has_unpublished: bool,
    pub(super) drops: DropCounts,
    pub(super) filtered: u64,
    pub(crate) missed: u64,
}

impl Sent {
    /// Returns a mutable reference to the count of lost events for one reason.
    pub(crate) fn drops_mut(&mut self, reason: DropReason) -> &mut u64 {
        self.has_unpublished = true;
        self.drops.by_mut(reason)
    }

    pub(crate) fn count_filtered(&mut self, events: u64) {
        self.has_unpublished |= events > 0;
        self.filtered += events;
    }
}
