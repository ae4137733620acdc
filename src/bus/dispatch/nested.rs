//! The entries that are added by code running inside a call to an inline bus. Such code is a
//! filter, a hook, or an event's `Clone` or `Drop` that publishes on its own bus. The owner
//! processes these entries before the outermost call returns.

use std::collections::VecDeque;

use crate::bus::mailbox::Entry;
use crate::bus::state::Refusal;
use crate::sync::Mutex;
use crate::sync::atomic::{AtomicUsize, Ordering};

use super::entry::{Control, Refused, Step};

/// The number of entries for which an empty list keeps memory.
const KEPT: usize = 16;

/// The nested entries and their counts. Only the owner uses this type, so the counts need no
/// synchronisation. The bus's lock orders one owner's accesses before the next owner's accesses.
/// The list has its own lock, because the owner also accesses the list without going through the
/// bus's lock.
pub(super) struct NestedEntries<T> {
    list: Mutex<VecDeque<Step<T>>>,
    /// The number of entries added during the current outermost call, and the number of entries
    /// that are waiting.
    added: AtomicUsize,
    waiting: AtomicUsize,
    /// The number of events for which every mailbox still has capacity, in addition to the events
    /// accepted so far.
    events_left: AtomicUsize,
    /// The maximum number of entries that may be added in one outermost call.
    most: usize,
}

impl<T> NestedEntries<T> {
    pub(super) fn new(most: usize) -> Self {
        Self {
            list: Mutex::new(VecDeque::new()),
            added: AtomicUsize::new(0),
            waiting: AtomicUsize::new(0),
            events_left: AtomicUsize::new(usize::MAX),
            most,
        }
    }

    /// Begins an outermost call.
    #[inline]
    pub(super) fn begin(&self) {
        // Relaxed: only the owner accesses this count.
        self.added.store(0, Ordering::Relaxed);
    }

    /// Records the capacity that is left after the accepted events.
    #[inline]
    pub(super) fn set_events_left(&self, events: usize) {
        // Relaxed: only the owner accesses this count.
        self.events_left.store(events, Ordering::Relaxed);
    }

    /// Adds an entry, or the first events of a batch if there is capacity for only some of them.
    ///
    /// # Errors
    ///
    /// Returns the events that were not added.
    pub(super) fn add(&self, mut entry: Entry<T>) -> Result<(), Refused<T>> {
        // Relaxed: only the owner accesses this count.
        let left = self.events_left.load(Ordering::Relaxed);
        if self.is_full() || left == 0 {
            return Err(Refused(entry, Refusal::Full));
        }
        let rest = entry.split_off(left);
        self.set_events_left(left - entry.len());
        self.push(Step::Offer(entry));
        rest.map_or(Ok(()), |rest| Err(Refused(rest, Refusal::Full)))
    }

    /// Adds a control entry.
    ///
    /// # Errors
    ///
    /// Returns the entry if it was not added.
    pub(super) fn add_control(&self, control: Control<T>) -> Result<(), (Control<T>, Refusal)> {
        if self.is_full() {
            return Err((control, Refusal::Full));
        }
        // Relaxed: only the owner accesses this count.
        let left = self.events_left.load(Ordering::Relaxed);
        self.set_events_left(left.min(control.credit_at_first()));
        self.push(Step::Control(control));
        Ok(())
    }

    fn is_full(&self) -> bool {
        // Relaxed: only the owner accesses this count.
        self.added.load(Ordering::Relaxed) >= self.most
    }

    fn push(&self, step: Step<T>) {
        // Relaxed, both: only the owner accesses these counts.
        self.added.store(self.added.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
        self.waiting.store(self.waiting.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
        self.list.lock().push_back(step);
    }

    /// Takes the oldest entry.
    #[inline]
    pub(super) fn take(&self) -> Option<Step<T>> {
        // Relaxed: only the owner accesses this count.
        let waiting = self.waiting.load(Ordering::Relaxed);
        if waiting == 0 {
            return None;
        }
        // Relaxed: only the owner accesses this count.
        self.waiting.store(waiting - 1, Ordering::Relaxed);
        let mut list = self.list.lock();
        let entry = list.pop_front();
        if list.is_empty() && list.capacity() > KEPT {
            list.shrink_to(KEPT);
        }
        entry
    }
}
