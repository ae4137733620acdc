//! The list of a bus's watchers, and the summed counters of dropped watchers.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::bus::counters::{BusStats, WatcherStats};
use crate::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use crate::sync::{Arc, Mutex};

use super::watcher::WatcherState;

/// The maximum number of names of dropped watchers that the registry keeps. The limit bounds the
/// memory use if a program generates names.
const NAMES: usize = 256;

pub(crate) struct Registry {
    entries: Mutex<Entries>,
    /// The number of registered watchers whose readers have not been dropped. Written only while
    /// holding the lock of `entries`.
    present: AtomicU32,
    /// Whether `reapable` may be non-empty.
    reaping: AtomicBool,
    /// The ids of stopped watchers whose senders the dispatcher has yet to remove.
    reapable: Mutex<Vec<u64>>,
}

struct Entries {
    /// The number of watchers registered so far, which is also the next watcher's id.
    total: u64,
    /// Whether the dispatcher has offered everything and closed every mailbox.
    ended: bool,
    watchers: BTreeMap<u64, Arc<WatcherState>>,
    /// The summed counters of dropped watchers. `None` until a watcher has been dropped.
    departed: Option<Box<Departed>>,
}

/// The sums of the counters of dropped watchers.
#[derive(Clone)]
struct Departed {
    all: WatcherStats,
    /// The part of `all` that belongs to watchers with a given name, keyed by name.
    named: BTreeMap<String, WatcherStats>,
}

impl Default for Departed {
    fn default() -> Self {
        let all = WatcherStats { name: "departed".to_owned(), ..WatcherStats::default() };
        Self { all, named: BTreeMap::new() }
    }
}

impl Departed {
    fn add(&mut self, mut stats: WatcherStats) {
        stats.oldest_age = Duration::ZERO;
        self.all.add(&stats);
        if let Some(sum) = self.named.get_mut(&stats.name) {
            sum.add(&stats);
        } else if self.named.len() < NAMES {
            let sum = WatcherStats { policy: None, ..stats };
            self.named.insert(sum.name.clone(), sum);
        }
    }
}

impl Entries {
    fn unfinished(&self) -> impl Iterator<Item = &Arc<WatcherState>> {
        self.watchers.values().filter(|state| state.is_handler && !state.is_finished())
    }
}

impl Registry {
    pub(crate) fn new() -> Self {
        let entries = Entries { total: 0, ended: false, watchers: BTreeMap::new(), departed: None };
        Self {
            entries: Mutex::new(entries),
            present: AtomicU32::new(0),
            reaping: AtomicBool::new(false),
            reapable: Mutex::new(Vec::new()),
        }
    }

    /// Adds a new watcher, unless the dispatcher has ended. A settled bus therefore stays settled.
    /// `make` receives the watcher's id.
    pub(crate) fn add(&self, make: impl FnOnce(u64) -> WatcherState) -> Option<Arc<WatcherState>> {
        let mut entries = self.entries.lock();
        if entries.ended {
            return None;
        }
        let id = entries.total;
        entries.total += 1;
        let state = Arc::new(make(id));
        entries.watchers.insert(id, state.clone());
        Some(state)
    }

    /// Removes a watcher that could no longer be registered.
    pub(crate) fn remove(&self, state: &WatcherState) {
        self.entries.lock().watchers.remove(&state.id);
    }

    /// Counts a watcher as present, after its registration has been accepted.
    pub(crate) fn count_present(&self) {
        let _entries = self.entries.lock();
        // Release: pairs with the Acquire in `present`.
        self.present.fetch_add(1, Ordering::Release);
    }

    /// Marks a watcher's reader as finished, and no longer counts the watcher as present. If the
    /// watcher's mailbox is also closed, retires the watcher.
    pub(crate) fn finish(&self, state: &Arc<WatcherState>, is_closing: impl FnOnce() -> bool) {
        let entries = self.entries.lock();
        // A watcher whose registration was refused is not listed, and has not been counted.
        let counted = u32::from(entries.watchers.contains_key(&state.id));
        // Relaxed: a thread that sees a lower count does not depend on what this thread did. The
        // exchange keeps the Releases in `count_present` visible to the Acquire in `present`.
        self.present.fetch_sub(counted, Ordering::Relaxed);
        let is_closed = state.set_finished();
        drop(entries);
        if is_closed {
            self.retire(state, is_closing);
        }
    }

    /// Removes a watcher whose mailbox is closed and whose reader has finished. Adds its counters
    /// to the sums.
    pub(crate) fn retire(&self, state: &Arc<WatcherState>, is_closing: impl FnOnce() -> bool) {
        let mut entries = self.entries.lock();
        if !ends_with_the_bus(state, is_closing) && entries.watchers.remove(&state.id).is_some() {
            entries.departed.get_or_insert_default().add(state.stats());
        }
    }

    /// Records that the dispatcher has offered everything and closed every mailbox.
    pub(crate) fn set_ended(&self) {
        self.entries.lock().ended = true;
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.entries.lock().ended
    }

    /// Returns whether the dispatcher has ended and every handler has finished. A result of `true`
    /// is final.
    pub(crate) fn is_settled(&self) -> bool {
        let entries = self.entries.lock();
        entries.ended && entries.unfinished().next().is_none()
    }

    /// Returns the handlers that have not finished.
    pub(crate) fn unfinished(&self) -> Vec<Arc<WatcherState>> {
        self.entries.lock().unfinished().cloned().collect()
    }

    /// Returns the watchers whose readers have not finished, or whose user code is running.
    pub(crate) fn monitored(&self) -> Vec<Arc<WatcherState>> {
        let is_active = |state: &&Arc<WatcherState>| !state.is_finished() || state.is_running_user_code();
        self.entries.lock().watchers.values().filter(is_active).cloned().collect()
    }

    /// Returns the number of watchers that have not been dropped, plus the number of handlers that
    /// have not ended.
    #[inline]
    pub(crate) fn present(&self) -> usize {
        // Acquire: pairs with the Release in `count_present`, so that a thread that sees a watcher
        // publishes its next events after the watcher's registration.
        self.present.load(Ordering::Acquire) as usize
    }

    /// Returns whether no watcher has a queued event.
    #[cfg(feature = "topics")]
    pub(crate) fn is_drained(&self) -> bool {
        self.entries.lock().watchers.values().all(|state| state.queued() == 0)
    }

    /// Returns the watchers that the dispatcher is currently waiting for.
    pub(crate) fn waited_for(&self) -> Vec<Arc<WatcherState>> {
        self.entries.lock().watchers.values().filter(|state| state.is_waited_for()).cloned().collect()
    }

    // ── stopped watchers, which the dispatcher reaps ──

    /// Adds a stopped watcher to the list of watchers that the dispatcher has to reap. The caller
    /// must then fence and wake the dispatcher.
    pub(crate) fn add_reapable(&self, id: u64) {
        if !self.has_ended() {
            self.reapable.lock().push(id);
        }
        // Relaxed: the caller's fence orders this store. The fence pairs with the fences of the
        // dispatcher's wake cell.
        self.reaping.store(true, Ordering::Relaxed);
    }

    pub(crate) fn must_reap(&self) -> bool {
        // Relaxed: the wake cell's fence orders this load. While the dispatcher is awake, a stale
        // read does no harm.
        self.reaping.load(Ordering::Relaxed)
    }

    pub(crate) fn take_reapable(&self) -> Vec<u64> {
        // Relaxed: the flag is cleared before the list is taken, so that adding a watcher later
        // sets the flag again.
        self.reaping.store(false, Ordering::Relaxed);
        std::mem::take(&mut *self.reapable.lock())
    }

    // ── statistics ──

    /// Returns the part of the statistics that concerns watchers. A dropped watcher immediately
    /// counts as departed, even if the dispatcher has not closed its mailbox yet.
    pub(crate) fn stats(&self, is_closing: bool) -> BusStats {
        let entries = self.entries.lock();
        let mut departed = entries.departed.as_deref().cloned().unwrap_or_default();
        let (left, present): (Vec<_>, Vec<_>) = entries
            .watchers
            .values()
            .partition(|state| state.is_finished() && !ends_with_the_bus(state, || is_closing));
        for state in left {
            departed.add(state.stats());
        }
        BusStats {
            watchers: present.iter().map(|state| state.stats()).collect(),
            departed: departed.all,
            departed_by_name: departed.named.into_values().collect(),
            ..BusStats::default()
        }
    }
}

/// Returns whether a watcher stays listed after its end. Handlers that end with the bus stay
/// listed, so that the bus's report shows the outcome of each handler. The number of these handlers
/// cannot exceed the number of handlers that existed when the bus was closed.
fn ends_with_the_bus(state: &WatcherState, is_closing: impl FnOnce() -> bool) -> bool {
    state.is_handler && is_closing()
}
