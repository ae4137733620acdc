//! Events in the order of their last writes, each to be found by its name.
//!
//! The events lie side by side in a vector of slots. A table finds the slot of a name, and a tree
//! finds the slot of a write's number. A reader therefore continues where it stopped, however often
//! the events were written meanwhile. The next new event takes the slot of a removed one.

use std::collections::BTreeMap;
use std::ops::Bound;

use ahash::RandomState;
use hashbrown::HashTable;

use crate::clock::Deadline;
use crate::record::event::Event;

pub(super) struct WriteOrder {
    slots: Vec<SlabEntry>,
    /// Slots, by the hash of the namespace and the name of the event in each.
    index: HashTable<u32>,
    hasher: RandomState,
    /// Slots, by the number of the last write of the event in each.
    order: BTreeMap<u64, u32>,
    /// Slots that are free.
    free: Vec<u32>,
}

pub(super) struct SlabEntry {
    pub(super) event: Event,
    /// The number of the event's last write, or 0 in a free slot.
    pub(super) version: u64,
    pub(super) expires: Deadline,
    hash: u64,
}

impl WriteOrder {
    pub(super) fn new() -> Self {
        Self {
            slots: Vec::new(),
            index: HashTable::new(),
            // Names come from outside, so the keys of the hash are random.
            hasher: RandomState::new(),
            order: BTreeMap::new(),
            free: Vec::new(),
        }
    }

    pub(super) fn len(&self) -> usize {
        self.index.len()
    }

    /// Returns the slot of an event, or `None` if there is no event of this name.
    pub(super) fn find(&self, namespace: &str, name: &str) -> Option<u32> {
        let is = |&at: &u32| {
            let metadata = &self.at(at).event.metadata;
            metadata.name == name && metadata.namespace == namespace
        };
        self.index.find(self.hash(namespace, name), is).copied()
    }

    pub(super) fn at(&self, slot: u32) -> &SlabEntry {
        &self.slots[slot as usize]
    }

    fn at_mut(&mut self, slot: u32) -> &mut SlabEntry {
        &mut self.slots[slot as usize]
    }

    /// Returns the event that was written longest ago, or `None` if there are no events.
    pub(super) fn oldest(&self) -> Option<&SlabEntry> {
        self.order.values().next().map(|&slot| self.at(slot))
    }

    /// Returns up to `count` entries from the slot `from` on, in no order, those of free slots
    /// included. Beyond the last slot there are none.
    pub(super) fn entries_from(&self, from: usize, count: usize) -> &[SlabEntry] {
        let rest = self.slots.get(from..).unwrap_or_default();
        &rest[..rest.len().min(count)]
    }

    /// Returns the events that were written after the write of this number, in the order of their
    /// last writes, each with the number of its last write.
    pub(super) fn after(&self, version: u64) -> impl Iterator<Item = (u64, &Event)> {
        self.range((Bound::Excluded(version), Bound::Unbounded))
    }

    /// Returns the events that were written before the write of this number, backwards, each with
    /// the number of its last write.
    pub(super) fn before(&self, version: u64) -> impl Iterator<Item = (u64, &Event)> {
        self.range((Bound::Unbounded, Bound::Excluded(version))).rev()
    }

    fn range(&self, versions: (Bound<u64>, Bound<u64>)) -> impl DoubleEndedIterator<Item = (u64, &Event)> {
        self.order.range(versions).map(|(&version, &slot)| (version, &self.at(slot).event))
    }

    /// Adds an event as the newest, and returns its slot. There must be no event of its name yet.
    pub(super) fn push(&mut self, event: Event, version: u64, expires: Deadline) -> u32 {
        let hash = self.hash(&event.metadata.namespace, &event.metadata.name);
        let entry = SlabEntry { event, version, expires, hash };
        let slot = if let Some(slot) = self.free.pop() {
            *self.at_mut(slot) = entry;
            slot
        } else {
            self.slots.push(entry);
            // A store holds at most 2^24 events.
            self.slots.len() as u32 - 1
        };
        self.order.insert(version, slot);
        let slots = &self.slots;
        self.index.insert_unique(hash, slot, |&at| slots[at as usize].hash);
        slot
    }

    /// Applies `change` to the event in `slot`, and makes it the newest. The change must keep the
    /// name.
    pub(super) fn rewrite(
        &mut self,
        slot: u32,
        version: u64,
        expires: Deadline,
        change: impl FnOnce(&mut Event),
    ) {
        let entry = &mut self.slots[slot as usize];
        self.order.remove(&entry.version);
        self.order.insert(version, slot);
        (entry.version, entry.expires) = (version, expires);
        change(&mut entry.event);
    }

    /// Removes the event that was written longest ago.
    pub(super) fn remove_oldest(&mut self) {
        let Some((_, slot)) = self.order.pop_first() else { return };
        // The event's texts are freed now. Its slot stays.
        let entry = self.at_mut(slot);
        (entry.event, entry.version) = (Event::default(), 0);
        let hash = entry.hash;
        if let Ok(entry) = self.index.find_entry(hash, |&at| at == slot) {
            entry.remove();
        }
        self.free.push(slot);
    }

    fn hash(&self, namespace: &str, name: &str) -> u64 {
        self.hasher.hash_one((namespace, name))
    }
}
