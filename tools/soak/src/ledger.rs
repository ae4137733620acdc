//! The program's own counts, and the faults that it has found.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use eventcast::stats::BusStats;

/// The maximum number of faults to keep. Further faults are only counted.
const FAULTS: usize = 20;

#[derive(Debug, Default)]
pub(crate) struct Ledger {
    /// The number of published events that were accepted.
    pub(crate) accepted: AtomicU64,
    pub(crate) full: AtomicU64,
    pub(crate) stopped: AtomicU64,
    /// The number of events that readers and handlers received, not counting prefixes.
    pub(crate) received: AtomicU64,
    /// The sum of the gaps that readers and handlers received.
    pub(crate) lagged: AtomicU64,
    /// The number of events that the journal received.
    pub(crate) journal: AtomicU64,
    /// The number of watchers that were registered and have since ended.
    pub(crate) visits: AtomicU64,
    /// The number of deliberate panics.
    pub(crate) panics: AtomicU64,
    pub(crate) flushes: AtomicU64,
    /// Whether the program has begun to end.
    pub(crate) over: AtomicBool,
    /// Whether the publishers must pause while the counts are compared.
    pub(crate) lull: AtomicBool,
    pub(crate) resting: AtomicU64,
    faults: Mutex<Vec<String>>,
    more: AtomicU64,
    /// The active threads and tasks, each with a description of its current activity.
    working: Mutex<BTreeMap<String, String>>,
}

pub(crate) fn add(counter: &AtomicU64, count: u64) {
    counter.fetch_add(count, Ordering::Relaxed);
}

pub(crate) fn get(counter: &AtomicU64) -> u64 {
    counter.load(Ordering::Relaxed)
}

impl Ledger {
    pub(crate) fn fault(&self, text: String) {
        let mut faults = self.faults.lock().unwrap_or_else(PoisonError::into_inner);
        if faults.len() < FAULTS {
            faults.push(text);
        } else {
            add(&self.more, 1);
        }
    }

    pub(crate) fn faults(&self) -> Vec<String> {
        let mut faults = self.faults.lock().unwrap_or_else(PoisonError::into_inner).clone();
        match get(&self.more) {
            0 => {}
            more => faults.push(format!("and {more} more")),
        }
        faults
    }

    pub(crate) fn is_over(&self) -> bool {
        self.over.load(Ordering::Relaxed)
    }

    /// Records the current activity of the thread or task that is named `who`.
    pub(crate) fn work(&self, who: &str, what: String) {
        self.working.lock().unwrap_or_else(PoisonError::into_inner).insert(who.to_owned(), what);
    }

    pub(crate) fn done(&self, who: &str) {
        self.working.lock().unwrap_or_else(PoisonError::into_inner).remove(who);
    }

    pub(crate) fn working(&self) -> Vec<String> {
        let working = self.working.lock().unwrap_or_else(PoisonError::into_inner);
        working.iter().map(|(who, what)| format!("{who} ({what})")).collect()
    }

    /// Returns a line for each equation in the accounting (G6) that does not hold. No thread may be
    /// publishing on the bus, and every watcher must have read all of its events.
    pub(crate) fn compare(&self, stats: &BusStats) -> Vec<String> {
        let mut wrong = Vec::new();
        let mut equal = |what: &str, theirs: u64, ours: u64| {
            if theirs != ours {
                wrong.push(format!("{what}: the bus says {theirs}, the program counted {ours}"));
            }
        };
        equal("accepted", stats.accepted, get(&self.accepted));
        equal("rejected, full", stats.rejected_full, get(&self.full));
        equal("rejected, closed", stats.rejected_closed, get(&self.stopped));
        equal("in the journal", stats.accepted, get(&self.journal));
        let all = || stats.watchers.iter().chain([&stats.departed]);
        equal("delivered", all().map(|watcher| watcher.delivered).sum(), get(&self.received));
        for watcher in all() {
            let sum = watcher.delivered + watcher.dropped.total() + watcher.queued;
            equal(&format!("offered to {}", watcher.name), watcher.offered, sum);
            equal(&format!("queued for {}", watcher.name), watcher.queued, 0);
            equal(&format!("lag of {}", watcher.name), watcher.lag, 0);
        }
        wrong
    }
}
