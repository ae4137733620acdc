//! Statistics of topics that were removed.

use crate::bus::Broadcaster;
use crate::stats::{BusStats, WatcherStats};

/// The summed counters of removed topics' buses, and the removed buses whose counters may still
/// change.
pub(super) struct Past<T> {
    pub(super) sums: Sums,
    /// Closed buses that another thread is still using, or whose events a reader has not received.
    leaving: Vec<Broadcaster<T>>,
    /// The number of buses in `leaving` at which the next search for ended buses takes place.
    settles_at: usize,
}

#[derive(Clone, Default)]
pub(super) struct Sums {
    pub(super) accepted: u64,
    pub(super) watchers: WatcherStats,
}

impl Sums {
    pub(super) fn add(&mut self, stats: &BusStats) {
        self.accepted += stats.accepted;
        for watcher in stats.watchers.iter().chain([&stats.departed]) {
            self.watchers.add(watcher);
        }
    }
}

impl<T> Default for Past<T> {
    fn default() -> Self {
        Self { sums: Sums::default(), leaving: Vec::new(), settles_at: 1 }
    }
}

impl<T> Past<T> {
    /// Adds a removed topic's bus.
    pub(super) fn add(&mut self, bus: Broadcaster<T>) {
        self.leaving.push(bus);
    }

    /// Adds the counters of all buses that have ended to the sums, and returns these buses. The
    /// caller must drop the returned buses without holding the lock, because dropping a bus may run
    /// user-defined destructors.
    pub(super) fn settle(&mut self) -> Vec<Broadcaster<T>> {
        let (settled, leaving): (Vec<_>, _) =
            std::mem::take(&mut self.leaving).into_iter().partition(Broadcaster::is_settled);
        self.leaving = leaving;
        self.settles_at = 2 * self.leaving.len() + 1;
        for bus in &settled {
            self.sums.add(&bus.stats());
        }
        settled
    }

    /// Calls [`settle`](Self::settle) if there are twice as many buses as after the last call. The
    /// time spent on each removed topic is therefore constant, regardless of how many removed
    /// topics a reader still has to read.
    pub(super) fn settle_if_many(&mut self) -> Vec<Broadcaster<T>> {
        if self.leaving.len() < self.settles_at { Vec::new() } else { self.settle() }
    }

    pub(super) fn leaving(&self) -> impl Iterator<Item = &Broadcaster<T>> {
        self.leaving.iter()
    }
}
