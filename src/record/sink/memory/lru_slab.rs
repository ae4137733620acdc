//! Events in the order of their last writes, each to be found by its name.
//!
//! They lie side by side in a vector. A table finds the place of a name, and a tree the place of a write's number, so a
//! reader goes on where it stopped however often the events were written meanwhile. The place of one that went is taken
//! by the next.

use std::collections::BTreeMap;
use std::ops::Bound;

use ahash::RandomState;
use hashbrown::HashTable;

use crate::clock::Deadline;
use crate::record::event::Event;

pub(super) struct WriteOrder {
    slots: Vec<SlabEntry>,
    /// Places, by the hash of what stands there.
    index: HashTable<u32>,
    hasher: RandomState,
    /// Places, by the number of the last write of what stands there.
    order: BTreeMap<u64, u32>,
    /// Places where nothing stands.
    free: Vec<u32>,
}

pub(super) struct SlabEntry {
    pub(super) event: Event,
    /// The number of its last write; 0 where nothing stands.
    pub(super) version: u64,
    pub(super) expires: Deadline,
    hash: u64,
}

impl WriteOrder {
    pub(super) fn new() -> Self {
        Self {
            slots: Vec::new(),
            index: HashTable::new(),
            // Names come from outside: the keys of the hash are random.
            hasher: RandomState::new(),
            order: BTreeMap::new(),
            free: Vec::new(),
        }
    }

    pub(super) fn len(&self) -> usize {
        self.index.len()
    }

    /// The place of an event.
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

    /// The event that was written longest ago.
    pub(super) fn oldest(&self) -> Option<&SlabEntry> {
        self.order.values().next().map(|&slot| self.at(slot))
    }

    /// Up to so many places from this one on, in no order; beyond the last place there are none.
    pub(super) fn entries_from(&self, from: usize, count: usize) -> &[SlabEntry] {
        let rest = self.slots.get(from..).unwrap_or_default();
        &rest[..rest.len().min(count)]
    }

    /// The events that were written after the write of this number, each with the number of its last write.
    pub(super) fn after(&self, version: u64) -> impl Iterator<Item = (u64, &Event)> {
        self.range((Bound::Excluded(version), Bound::Unbounded))
    }

    /// The events that were written before the write of this number, backwards.
    pub(super) fn before(&self, version: u64) -> impl Iterator<Item = (u64, &Event)> {
        self.range((Bound::Unbounded, Bound::Excluded(version))).rev()
    }

    fn range(&self, versions: (Bound<u64>, Bound<u64>)) -> impl DoubleEndedIterator<Item = (u64, &Event)> {
        self.order.range(versions).map(|(&version, &slot)| (version, &self.at(slot).event))
    }

    /// Adds an event whose name is not there, as the newest.
    pub(super) fn push(&mut self, event: Event, version: u64, expires: Deadline) {
        let hash = self.hash(&event.metadata.namespace, &event.metadata.name);
        let entry = SlabEntry { event, version, expires, hash };
        let slot = if let Some(slot) = self.free.pop() {
            *self.at_mut(slot) = entry;
            slot
        } else {
            self.slots.push(entry);
            // A store holds at most 2^24.
            self.slots.len() as u32 - 1
        };
        self.order.insert(version, slot);
        let slots = &self.slots;
        self.index.insert_unique(hash, slot, |&at| slots[at as usize].hash);
    }

    /// Makes one that is there the newest, changed so. Its name must stay.
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

    /// Takes away the event that was written longest ago.
    pub(super) fn remove_oldest(&mut self) {
        let Some((_, slot)) = self.order.pop_first() else { return };
        // Its texts go now, its place stays.
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
