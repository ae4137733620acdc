//! The queue of a watcher that conflates events by key. It holds at most one event for each key,
//! which is the newest one.
//!
//! The queue has a *slot* for each key with an unread event, in the order in which the keys got
//! their slots. A newer event replaces the event in its key's slot, and the slot keeps its place,
//! so a key whose events arrive quickly delays no other key, and is not delayed itself. The slots
//! have consecutive numbers. The sender knows each key's last slot, and the number tells whether
//! the reader has already taken that slot. The reader therefore never needs a key.
//!
//! The lock is held by the dispatcher (or the owner of an inline bus) and by one reader, for a few
//! instructions at a time. No event is cloned, compared or dropped while it is held.

use std::collections::{HashMap, VecDeque};
use std::hash::Hash;

use crate::bus::counters::DropReason;
use crate::catch::catch_panic;

/// The number of keys that are remembered, at the least, before keys without an unread event are
/// removed.
const FEWEST: usize = 64;

#[derive(Debug)]
pub(crate) struct Conflating<T> {
    slots: VecDeque<Slot<T>>,
    /// The number of the slot at the front. Slots are numbered from 1, so no key has slot 0.
    front: u64,
    /// The total number of events that were replaced in the slots of the queue.
    replaced: u64,
    /// The number of events that had been decided for the watcher after the last event was put into
    /// the queue.
    decided: u64,
    /// The position of the last event that was put into the queue.
    position: u64,
    /// Whether the reader has received the gap before the event at the front.
    is_announced: bool,
}

#[derive(Debug)]
struct Slot<T> {
    event: T,
    /// The position of the first event in this slot.
    since: u64,
    /// The number of events that were replaced in this slot.
    replaced: u64,
}

/// What a reader finds at the front of the queue.
pub(super) enum Found<T> {
    /// An event, which was taken out of the queue, with its offset and with the position up to
    /// which nothing is left in the queue.
    Event(T, u64, u64),
    /// The events that are missing before the event at the front, and the position up to which
    /// nothing is left in the queue. The event stays in the queue, where it can still be replaced.
    Gap(u64, u64),
    Nothing,
}

impl<T> Conflating<T> {
    pub(super) fn new() -> Self {
        Self { slots: VecDeque::new(), front: 1, replaced: 0, decided: 0, position: 0, is_announced: false }
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
    /// slot. `slot` is updated. `decided` is the number of events decided for the watcher,
    /// including this one. If a new slot is needed while there are already `most` slots, the oldest
    /// event is lost if `evicts` is set, and otherwise the new event. Returns the lost or replaced
    /// event.
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
        (self.decided, self.position) = (decided, position);
        if let Some(held) = held {
            let held = &mut self.slots[held];
            held.replaced += 1;
            self.replaced += 1;
            return Some((DropReason::Conflated, std::mem::replace(&mut held.event, event)));
        }
        let evicted = if self.slots.len() >= most { self.pop() } else { None };
        *slot = self.front + self.slots.len() as u64;
        self.slots.push_back(Slot { event, since: position, replaced: 0 });
        evicted.map(|slot| (DropReason::Oldest, slot.event))
    }

    fn pop(&mut self) -> Option<Slot<T>> {
        let slot = self.slots.pop_front()?;
        self.front += 1;
        self.replaced -= slot.replaced;
        Some(slot)
    }

    /// Takes the event at the front for a reader that has received everything below `expected`. If
    /// events are missing, the reader first receives their number. Events that are replaced or lost
    /// after that are part of the next gap, so that a reader of a busy key does not receive one gap
    /// after another.
    pub(super) fn take(&mut self, expected: u64) -> Found<T> {
        let len = self.slots.len() as u64;
        let Some(front) = self.slots.front_mut() else { return Found::Nothing };
        // Each decided event is in the queue, was replaced there, was received, or is missing.
        let gap = self.decided - len - (self.replaced - front.replaced) - expected;
        if gap > 0 && !self.is_announced {
            self.is_announced = true;
            self.replaced -= std::mem::take(&mut front.replaced);
            return Found::Gap(gap, front.since - 1);
        }
        self.is_announced = false;
        match self.pop() {
            Some(Slot { event, .. }) => Found::Event(event, expected, self.position_before_front()),
            None => Found::Nothing,
        }
    }

    fn position_before_front(&self) -> u64 {
        self.slots.front().map_or(self.position, |next| next.since - 1)
    }

    pub(super) fn take_all(&mut self) -> Vec<T> {
        std::iter::from_fn(|| self.pop()).map(|slot| slot.event).collect()
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
