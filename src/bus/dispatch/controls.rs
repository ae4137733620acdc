//! The control entries of a bus with a dispatcher. Control entries wait in a list next to the
//! incoming queue, so they neither need nor take up any capacity in that queue.
//!
//! A control entry's place in the bus's single order is the number of entries that were pushed into
//! the incoming queue before it. The dispatcher processes a control entry once it has offered that
//! many entries, before it offers the next entry. The caller adds the control entry while inside
//! the gate. If a publish call begins after the control entry has been added, it pushes its entry
//! after the control entry's place, and the thread that takes the pushed entry out of the queue
//! sees the control entry. If a publish call runs at the same time, its entry may be offered before
//! the control entry is processed.
//!
//! Control entries that are no longer needed are removed. If a flush times out, its caller removes
//! the flush. If a watcher is dropped, the dropping thread removes the watcher's registration. Gaps
//! at the same place are merged. The list therefore has at most one entry for each existing watcher
//! and each waiting flush, and at most one gap between any two of these entries or between two
//! entries in the incoming queue.

use std::collections::VecDeque;

use crate::bus::state::{BusState, Drive};
use crate::bus::wait::BusThread;
use crate::sync::atomic::{AtomicUsize, Ordering};
use crate::sync::{Arc, Mutex};

use super::entry::{Control, FlushTicket};

/// The number of entries for which an empty list keeps memory.
const KEPT: usize = 16;

pub(crate) struct Controls<T> {
    /// The control entries in order, each with its place.
    list: Mutex<VecDeque<(u64, Control<T>)>>,
    /// The length of the list. This field is written only while holding the list's lock.
    waiting: AtomicUsize,
}

impl<T> Controls<T> {
    pub(crate) fn new() -> Self {
        Self { list: Mutex::new(VecDeque::new()), waiting: AtomicUsize::new(0) }
    }

    /// Adds a control entry after all entries pushed into the incoming queue so far. `pushed`
    /// returns the number of these entries. The caller must be inside the gate.
    pub(crate) fn add(&self, control: Control<T>, pushed: impl FnOnce() -> u64) {
        let mut list = self.list.lock();
        // The number is read while holding the lock, so that the places in the list increase.
        let place = pushed();
        match (list.back_mut(), control) {
            (Some((last, Control::Gap(sum))), Control::Gap(events)) if *last == place => {
                *sum = sum.saturating_add(events);
            }
            (_, control) => list.push_back((place, control)),
        }
        // Relaxed: the caller's next steps publish this store. A thread that takes a later entry
        // out of the incoming queue has synchronised with that entry's publisher. A dispatcher that
        // goes to sleep, or a reader that hands back the fan-out, has synchronised with the
        // caller's `leave`.
        self.waiting.store(list.len(), Ordering::Relaxed);
    }

    /// Returns whether any control entry is waiting.
    #[inline]
    pub(super) fn is_waiting(&self) -> bool {
        // Relaxed: see `add`. In all other cases, reading a stale value does no harm.
        self.waiting.load(Ordering::Relaxed) > 0
    }

    /// Returns whether the first control entry's place has been reached, given the number of
    /// entries that have been offered.
    #[inline]
    pub(super) fn is_due(&self, offered: u64) -> bool {
        self.is_waiting() && is_first_due(&self.list.lock(), offered)
    }

    /// Takes the first control entry if it [is due](Self::is_due).
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

    /// Removes a flush after its caller has stopped waiting for it.
    pub(crate) fn forget(&self, ticket: &Arc<FlushTicket>) {
        self.remove(|control| matches!(control, Control::Flush(other) if Arc::ptr_eq(other, ticket)));
    }

    /// Removes the entry for which `is_it` returns `true`. There must be at most one such entry.
    /// The search starts at both ends of the list, and takes time proportional to the entry's
    /// distance from the nearer end.
    fn remove(&self, is_it: impl Fn(&Control<T>) -> bool) -> Option<Control<T>> {
        if !self.is_waiting() {
            return None;
        }
        let mut list = self.list.lock();
        let last = list.len().checked_sub(1)?;
        let mut indices = (0..=last / 2).flat_map(|i| [last - i, i]);
        let index = indices.find(|i| is_it(&list[*i].1))?;
        let (_, control) = list.remove(index)?;
        // If the removed entry separated two gaps at the same place, the gaps are merged.
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
        let is_its =
            |control: &_| matches!(control, Control::Register(sender, _) if sender.state.id == watcher);
        if let Some(Control::Register(sender, _)) = self.remove(is_its) {
            // The destructors of the sender's closures must not wait for this bus, because the bus
            // may be waiting for this thread.
            let _mark = BusThread::enter(bus.id);
            // No thread has to be woken. Only the watcher's reader could be asleep on the wake
            // cell, and this code runs while the reader is being dropped.
            drop(sender.close(bus));
        }
    }
}

fn is_first_due<T>(list: &VecDeque<(u64, Control<T>)>, offered: u64) -> bool {
    list.front().is_some_and(|(place, _)| *place <= offered)
}
