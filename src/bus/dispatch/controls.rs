//! The control entries of a bus with a dispatcher. They wait beside the incoming queue, so they
//! take no capacity from events, and need none.
//!
//! Each has its place in the single order of the bus: the number of entries that had been pushed
//! into the incoming queue before it. The dispatcher carries it out once it has offered that many
//! entries, before it offers the next one. The caller adds it inside the gate. A publish that
//! begins later pushes after this place, and the thread that takes its entry out of the queue sees
//! the control entry. A publish at the same time may be offered earlier.
//!
//! A control entry that is no longer needed is removed: a flush by its caller at the timeout, and
//! the registration of a watcher by the thread that drops the watcher. Gaps at the same place are
//! merged. The list therefore has at most one entry for each existing watcher, for each waiting
//! flush, and for the gaps between them and between two entries of the incoming queue.

use std::collections::VecDeque;

use crate::bus::state::{BusState, Drive};
use crate::bus::wait::BusThread;
use crate::sync::atomic::{AtomicUsize, Ordering};
use crate::sync::{Arc, Mutex};

use super::entry::{Control, FlushTicket};

/// The number of entries for which an empty list keeps memory.
const KEPT: usize = 16;

pub(crate) struct Controls<T> {
    /// The entries in order, each with its place.
    list: Mutex<VecDeque<(u64, Control<T>)>>,
    /// The length of the list. Written under its lock.
    waiting: AtomicUsize,
}

impl<T> Controls<T> {
    pub(crate) fn new() -> Self {
        Self { list: Mutex::new(VecDeque::new()), waiting: AtomicUsize::new(0) }
    }

    /// Adds an entry after all entries of the incoming queue, whose number `pushed` returns. The
    /// caller is inside the gate.
    pub(crate) fn add(&self, control: Control<T>, pushed: impl FnOnce() -> u64) {
        let mut list = self.list.lock();
        // Under the lock, so that the places in the list grow.
        let place = pushed();
        match (list.back_mut(), control) {
            (Some((last, Control::Gap(sum))), Control::Gap(events)) if *last == place => {
                *sum = sum.saturating_add(events);
            }
            (_, control) => list.push_back((place, control)),
        }
        // Relaxed: what the caller does next publishes it. A thread that takes a later entry out of
        // the incoming queue has synchronized with its publisher. A dispatcher that goes to sleep,
        // or a reader that hands back, has synchronized with the caller's `leave`.
        self.waiting.store(list.len(), Ordering::Relaxed);
    }

    /// Returns whether there is an entry.
    #[inline]
    pub(super) fn is_waiting(&self) -> bool {
        // Relaxed: see `add`. At any other time a stale read loses nothing.
        self.waiting.load(Ordering::Relaxed) > 0
    }

    /// Returns whether the place of the first entry has been reached when this number of entries
    /// has been offered.
    #[inline]
    pub(super) fn is_due(&self, offered: u64) -> bool {
        self.is_waiting() && is_first_due(&self.list.lock(), offered)
    }

    /// Takes the first entry if it [is due](Self::is_due).
    pub(super) fn take_due(&self, offered: u64) -> Option<Control<T>> {
        if !self.is_waiting() {
            return None;
        }
        let mut list = self.list.lock();
        if !is_first_due(&list, offered) {
            return None;
        }
        let (_, control) = list.pop_front()?;
        self.note_removed(&mut list);
        Some(control)
    }

    /// Removes a flush for which its caller no longer waits.
    pub(crate) fn forget(&self, ticket: &Arc<FlushTicket>) {
        self.remove(|control| matches!(control, Control::Flush(other) if Arc::ptr_eq(other, ticket)));
    }

    /// Removes the entry for which `is_it` returns `true`. There is at most one. Searches from both
    /// ends, in time proportional to the entry's distance from the nearer end.
    fn remove(&self, is_it: impl Fn(&Control<T>) -> bool) -> Option<Control<T>> {
        if !self.is_waiting() {
            return None;
        }
        let mut list = self.list.lock();
        let last = list.len().checked_sub(1)?;
        let mut indices = (0..=last / 2).flat_map(|i| [last - i, i]);
        let index = indices.find(|i| is_it(&list[*i].1))?;
        let (_, control) = list.remove(index)?;
        // The two gaps that it separated become one.
        if let Some((place, Control::Gap(events))) = list.get(index) {
            let (place, events) = (*place, *events);
            if let Some((_, Control::Gap(sum))) =
                index.checked_sub(1).and_then(|before| list.get_mut(before)).filter(|(at, _)| *at == place)
            {
                *sum = sum.saturating_add(events);
                list.remove(index);
            }
        }
        self.note_removed(&mut list);
        Some(control)
    }

    fn note_removed(&self, list: &mut VecDeque<(u64, Control<T>)>) {
        if list.capacity() > KEPT && list.len() < list.capacity() / 4 {
            list.shrink_to(KEPT.max(2 * list.len()));
        }
        // Relaxed: see `add`.
        self.waiting.store(list.len(), Ordering::Relaxed);
    }
}

impl<T: Send + Sync> Drive for Arc<Controls<T>> {
    fn drive(&self, bus: &BusState) {
        bus.dispatcher.wake();
    }

    fn withdraw(&self, watcher: u64, bus: &BusState) {
        let is_its = |control: &_| matches!(control, Control::Register(sender) if sender.state.id == watcher);
        if let Some(Control::Register(sender)) = self.remove(is_its) {
            // The destructors of its closures must not wait for this bus, which may wait for this
            // thread.
            let _mark = BusThread::enter(bus.id);
            // Only its reader could sleep there, and this is its drop.
            drop(sender.close(bus));
        }
    }
}

fn is_first_due<T>(list: &VecDeque<(u64, Control<T>)>, offered: u64) -> bool {
    list.front().is_some_and(|(place, _)| *place <= offered)
}
