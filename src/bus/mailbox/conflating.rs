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
    /// The slots, each of which holds its key's newest event and the position of its first event.
    slots: VecDeque<(T, u64)>,
    /// The number of the slot at the front. Slots are numbered from 1, so no key has slot 0.
    front: u64,
    /// The number of events that had been decided for the watcher when the newest slot was added.
    decided: u64,
    /// The position of the last event that was put into the queue.
    position: u64,
}

/// An event that was taken out of the queue.
pub(super) struct Taken<T> {
    pub(super) event: T,
    pub(super) offset: u64,
    /// The position up to which nothing is left in the queue.
    pub(super) position: u64,
}

impl<T> Conflating<T> {
    pub(super) fn new() -> Self {
        Self { slots: VecDeque::new(), front: 1, decided: 0, position: 0 }
    }

    /// Returns the number of the slot at the front, or of the next slot if the queue is empty.
    pub(super) fn front(&self) -> u64 {
        self.front
    }

    fn index(&self, slot: u64) -> Option<usize> {
        let index = slot.checked_sub(self.front)? as usize;
        (index < self.slots.len()).then_some(index)
    }

    /// Returns whether there is a place for an event whose key had this slot last.
    pub(super) fn has_place(&self, slot: u64, most: usize) -> bool {
        self.slots.len() < most || self.index(slot).is_some()
    }

    /// Puts an event into its key's slot, or into a new slot if the reader has taken the key's last
    /// slot. `slot` is updated. `decided` is the number of events decided for the watcher if this
    /// event gets a new slot. If a new slot is needed while there are already `most` slots, the
    /// oldest event is lost if `evicts` is set, and otherwise the new event. Returns the lost or
    /// replaced event.
    pub(super) fn put(
        &mut self,
        slot: &mut u64,
        (event, position): (T, u64),
        decided: u64,
        most: usize,
        evicts: bool,
    ) -> Option<(DropReason, T)> {
        let held = self.index(*slot);
        if held.is_none() && self.slots.len() >= most && !evicts {
            return Some((DropReason::Incoming, event));
        }
        self.position = position;
        if let Some(held) = held {
            let older = std::mem::replace(&mut self.slots[held].0, event);
            return Some((DropReason::Conflated, older));
        }
        let evicted = if self.slots.len() >= most { self.pop() } else { None };
        *slot = self.front + self.slots.len() as u64;
        self.decided = decided;
        self.slots.push_back((event, position));
        evicted.map(|event| (DropReason::Oldest, event))
    }

    fn pop(&mut self) -> Option<T> {
        let (event, _) = self.slots.pop_front()?;
        self.front += 1;
        Some(event)
    }

    pub(super) fn take(&mut self) -> Option<Taken<T>> {
        // Every event that was decided after the front either is in the queue or was lost before
        // the newest slot was added, so the reader receives each loss before the next event.
        let offset = self.decided - self.slots.len() as u64;
        let event = self.pop()?;
        let position = self.slots.front().map_or(self.position, |(_, since)| since - 1);
        Some(Taken { event, offset, position })
    }

    pub(super) fn take_all(&mut self) -> Vec<T> {
        std::iter::from_fn(|| self.pop()).collect()
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
