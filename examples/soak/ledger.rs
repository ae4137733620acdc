//! What the program counts itself, and what it found wrong.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use eventcast::BusStats;

/// More are counted, but not kept.
const FAULTS: usize = 20;

#[derive(Debug, Default)]
pub(crate) struct Ledger {
    /// Publishes that returned `Ok`, in events.
    pub(crate) accepted: AtomicU64,
    pub(crate) full: AtomicU64,
    pub(crate) stopped: AtomicU64,
    /// Events that readers and handlers were given, prefixes not counted.
    pub(crate) received: AtomicU64,
    /// The sum of the gaps that they were told of.
    pub(crate) lagged: AtomicU64,
    /// What the journal was given.
    pub(crate) journal: AtomicU64,
    /// Watchers that came, and went.
    pub(crate) visits: AtomicU64,
    /// Panics on purpose.
    pub(crate) panics: AtomicU64,
    pub(crate) flushes: AtomicU64,
    /// The end has begun.
    pub(crate) over: AtomicBool,
    /// Publishers rest while the books are compared.
    pub(crate) lull: AtomicBool,
    pub(crate) resting: AtomicU64,
    faults: Mutex<Vec<String>>,
    more: AtomicU64,
    /// Who is at work, and what at.
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

    /// Says what somebody is at.
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

    /// What of the accounting (G6) does not hold on a bus where nobody publishes and everybody has read everything.
    pub(crate) fn compare(&self, stats: &BusStats) -> Vec<String> {
        let mut wrong = Vec::new();
        let mut equal = |what: &str, theirs: u64, ours: u64| {
            if theirs != ours {
                wrong.push(format!("{what}: the bus says {theirs}, the program counted {ours}"));
            }
        };
        equal("accepted", stats.accepted, get(&self.accepted));
        equal("rejected, full", stats.rejected_full, get(&self.full));
        equal("rejected, stopped", stats.rejected_stopped, get(&self.stopped));
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
