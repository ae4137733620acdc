//! The entries that code running inside a call of an inline bus adds. Such code is a filter, a
//! hook, `Clone` or `Drop` that publishes on its own bus. The owner processes these entries before
//! the outermost call returns.

use std::collections::VecDeque;

use crate::bus::mailbox::Entry;
use crate::bus::state::Refusal;
use crate::sync::Mutex;
use crate::sync::atomic::{AtomicUsize, Ordering};

use super::entry::{Control, Refused, Step};

/// The number of entries that an empty list keeps memory for.
const KEPT: usize = 16;

/// Only the owner uses this type, so the counts need no synchronisation. The bus's lock orders the
/// accesses of one owner before the accesses of the next owner. The list has a lock because the
/// owner also accesses it without going through the bus's lock.
pub(super) struct NestedEntries<T> {
    list: Mutex<VecDeque<Step<T>>>,
    /// The number of entries added in this outermost call, and the number of entries that are
    /// waiting.
    added: AtomicUsize,
    waiting: AtomicUsize,
    /// The number of additional events, besides those accepted so far, that every mailbox has
    /// capacity for.
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
        // Relaxed: only the owner accesses it.
        self.added.store(0, Ordering::Relaxed);
    }

    /// Records the capacity that is left after the accepted events.
    #[inline]
    pub(super) fn set_events_left(&self, events: usize) {
        // Relaxed: only the owner accesses it.
        self.events_left.store(events, Ordering::Relaxed);
    }

    /// Adds an entry, or the first events of a batch if there is capacity for only some of them.
    ///
    /// # Errors
    ///
    /// Returns the events that were not added.
    pub(super) fn add(&self, mut entry: Entry<T>) -> Result<(), Refused<T>> {
        // Relaxed: only the owner accesses it.
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
        // Relaxed: only the owner accesses it.
        let left = self.events_left.load(Ordering::Relaxed);
        self.set_events_left(left.min(control.credit_at_first()));
        self.push(Step::Control(control));
        Ok(())
    }

    fn is_full(&self) -> bool {
        // Relaxed: only the owner accesses it.
        self.added.load(Ordering::Relaxed) >= self.most
    }

    fn push(&self, step: Step<T>) {
        // Relaxed, both: only the owner accesses them.
        self.added.store(self.added.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
        self.waiting.store(self.waiting.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
        self.list.lock().push_back(step);
    }

    /// Takes the oldest entry.
    #[inline]
    pub(super) fn take(&self) -> Option<Step<T>> {
        // Relaxed: only the owner accesses it.
        let waiting = self.waiting.load(Ordering::Relaxed);
        if waiting == 0 {
            return None;
        }
        // Relaxed: same as above.
        self.waiting.store(waiting - 1, Ordering::Relaxed);
        let mut list = self.list.lock();
        let entry = list.pop_front();
        if list.is_empty() && list.capacity() > KEPT {
            list.shrink_to(KEPT);
        }
        entry
    }
}
