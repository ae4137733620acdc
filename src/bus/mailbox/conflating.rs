//! The queue of a watcher that conflates events by key. It holds at most one event for each key,
//! which is the newest one.
//!
//! The queue has a *slot* for each key with an unread event, in the order in which the keys got
//! their slots. A newer event replaces the event in its key's slot, and the slot keeps its place,
//! so a key whose events arrive quickly delays no other key, and is not delayed itself. The slots
//! have consecutive numbers. The sender keeps the number of each key's last slot, which shows
//! whether the reader has already taken that slot. The reader therefore never needs a key.
//!
//! The lock is held by the dispatcher (or the owner of an inline bus) and by one reader, for a few
//! instructions at a time. No event is cloned, compared or dropped while it is held.

use std::collections::{HashMap, VecDeque};
use std::hash::Hash;

use crate::bus::counters::DropReason;
use crate::catch::catch_panic;

/// The smallest number of stored keys at which the keys without an unread event are removed.
const FEWEST: usize = 64;

#[derive(Debug)]
pub(crate) struct Conflating<T> {
    slots: VecDeque<Slot<T>>,
    /// The number of the slot at the front. Slots are numbered from 1, so no key has slot 0.
    front: u64,
    /// The number of the last slot that was added for an event from the history.
    replayed: u64,
}

/// The newest event of a key, with the offset and the position of the key's first unread event.
/// Every earlier event is in an earlier slot, or was received, replaced or lost. All events of a
/// slot share the offset, so a replaced event leaves no gap.
#[derive(Debug)]
pub(super) struct Slot<T> {
    pub(super) event: T,
    pub(super) offset: u64,
    pub(super) position: u64,
}

impl<T> Conflating<T> {
    pub(super) fn new() -> Self {
        Self { slots: VecDeque::new(), front: 1, replayed: 0 }
    }

    /// Returns the number of the slot at the front, or of the next slot if the queue is empty.
    pub(super) fn front(&self) -> u64 {
        self.front
    }

    fn index(&self, slot: u64) -> Option<usize> {
        let index = slot.checked_sub(self.front)? as usize;
        (index < self.slots.len()).then_some(index)
    }

    /// Returns whether no further slot fits. Slots for events from the history do not count.
    fn is_full(&self, most: usize) -> bool {
        let replayed = (self.replayed + 1).saturating_sub(self.front) as usize;
        self.slots.len().saturating_sub(replayed) >= most
    }

    /// Returns whether there is a place for an event whose key had this slot last.
    pub(super) fn has_place(&self, slot: u64, most: usize) -> bool {
        self.index(slot).is_some() || !self.is_full(most)
    }

    /// Puts an event into its key's slot. If the reader has taken the key's last slot, adds a slot
    /// with the given offset and position, and updates `last`. If there are already `most` slots,
    /// the oldest event is lost if `evicts` is set, and otherwise the new event. `most` is `None`
    /// for an event from the history. Returns the lost or replaced event.
    pub(super) fn put(
        &mut self,
        last: &mut u64,
        new: Slot<T>,
        most: Option<usize>,
        evicts: bool,
    ) -> Option<(DropReason, T)> {
        if let Some(held) = self.index(*last) {
            let older = std::mem::replace(&mut self.slots[held].event, new.event);
            return Some((DropReason::Conflated, older));
        }
        let is_full = most.is_some_and(|most| self.is_full(most));
        if is_full && !evicts {
            return Some((DropReason::Incoming, new.event));
        }
        let evicted = if is_full { self.take() } else { None };
        *last = self.front + self.slots.len() as u64;
        if most.is_none() {
            self.replayed = *last;
        }
        self.slots.push_back(new);
        evicted.map(|slot| (DropReason::Oldest, slot.event))
    }

    pub(super) fn take(&mut self) -> Option<Slot<T>> {
        let slot = self.slots.pop_front()?;
        self.front += 1;
        Some(slot)
    }

    pub(super) fn take_all(&mut self) -> Vec<T> {
        std::iter::from_fn(|| self.take()).map(|slot| slot.event).collect()
    }
}

/// The keys of a watcher that conflates events, each with the number of the key's last slot.
pub(crate) trait Keys<T>: Send {
    /// Returns the number of the last slot of the event's key, which is 0 if the key has not had a
    /// slot. `front` returns the number of the slot at the front of the queue. Runs user code.
    fn last_slot(&mut self, event: &T, front: &dyn Fn() -> u64) -> &mut u64;
}

pub(crate) struct KeyMap<K, F> {
    key: F,
    slots: HashMap<K, u64>,
    /// The number of keys at which the keys without an unread event are removed.
    most: usize,
}

impl<K, F> KeyMap<K, F> {
    pub(crate) fn new(key: F) -> Self {
        Self { key, slots: HashMap::new(), most: FEWEST }
    }
}

impl<T, K: Hash + Eq + Send, F: FnMut(&T) -> K + Send> Keys<T> for KeyMap<K, F> {
    fn last_slot(&mut self, event: &T, front: &dyn Fn() -> u64) -> &mut u64 {
        if self.slots.len() >= self.most {
            let front = front();
            self.slots.retain(|_, slot| *slot >= front);
            self.most = (2 * self.slots.len()).max(FEWEST);
        }
        self.slots.entry((self.key)(event)).or_default()
    }
}

impl<K, F> Drop for KeyMap<K, F> {
    /// Drops the keys separately from the function, because a second panic while the first one is
    /// unwinding would abort the process.
    fn drop(&mut self) {
        catch_panic(|| drop(std::mem::take(&mut self.slots)));
    }
}
