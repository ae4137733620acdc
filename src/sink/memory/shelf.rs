//! Events in the order of their last writes, each to be found by its name.
//!
//! They lie side by side in a vector, doubly linked in the order of their writes; a table finds the place of a name. So
//! each operation touches one or two events, whatever their number, and the place of one that went is taken by the next.

use ahash::RandomState;
use hashbrown::HashTable;

use crate::clock::Deadline;
use crate::event::Event;

/// No place: the end of a chain.
const NONE: u32 = u32::MAX;

pub(super) struct Shelf {
    slots: Vec<Slot>,
    /// Places, by the hash of what stands there.
    index: HashTable<u32>,
    hasher: RandomState,
    oldest: u32,
    newest: u32,
    /// The first place that is free; the others follow by `newer`.
    free: u32,
}

pub(super) struct Slot {
    pub(super) event: Event,
    /// The number of its last write.
    pub(super) version: u64,
    pub(super) expires: Deadline,
    hash: u64,
    older: u32,
    newer: u32,
}

impl Shelf {
    pub(super) fn new() -> Self {
        Self {
            slots: Vec::new(),
            index: HashTable::new(),
            // Names come from outside: the keys of the hash are random.
            hasher: RandomState::new(),
            oldest: NONE,
            newest: NONE,
            free: NONE,
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

    pub(super) fn at(&self, place: u32) -> &Slot {
        &self.slots[place as usize]
    }

    fn at_mut(&mut self, place: u32) -> &mut Slot {
        &mut self.slots[place as usize]
    }

    /// The event that was written longest ago.
    pub(super) fn oldest(&self) -> Option<&Slot> {
        self.slots.get(self.oldest as usize)
    }

    /// From the event that was written longest ago, or from the other end.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Event> {
        self.chain(self.oldest, |slot| slot.newer)
    }

    pub(super) fn newest_first(&self) -> impl Iterator<Item = &Event> {
        self.chain(self.newest, |slot| slot.older)
    }

    fn chain(&self, from: u32, next: fn(&Slot) -> u32) -> impl Iterator<Item = &Event> {
        let slots = std::iter::successors(self.slots.get(from as usize), move |slot| {
            self.slots.get(next(slot) as usize)
        });
        slots.map(|slot| &slot.event)
    }

    /// Adds an event whose name is not there, as the newest.
    pub(super) fn push(&mut self, event: Event, version: u64, expires: Deadline) {
        let hash = self.hash(&event.metadata.namespace, &event.metadata.name);
        let slot = Slot { event, version, expires, hash, older: NONE, newer: NONE };
        let place = if self.free == NONE {
            self.slots.push(slot);
            // A store holds at most 2^24.
            self.slots.len() as u32 - 1
        } else {
            let place = self.free;
            let old = std::mem::replace(self.at_mut(place), slot);
            self.free = old.newer;
            place
        };
        self.append(place);
        let slots = &self.slots;
        self.index.insert_unique(hash, place, |&at| slots[at as usize].hash);
    }

    /// Makes one that is there the newest, changed so. Its name must stay.
    pub(super) fn rewrite(
        &mut self,
        place: u32,
        version: u64,
        expires: Deadline,
        change: impl FnOnce(&mut Event),
    ) {
        self.unlink(place);
        self.append(place);
        let slot = self.at_mut(place);
        (slot.version, slot.expires) = (version, expires);
        change(&mut slot.event);
    }

    /// Takes away the event that was written longest ago.
    pub(super) fn remove_oldest(&mut self) {
        let place = self.oldest;
        let Some(slot) = self.slots.get_mut(place as usize) else { return };
        // Its texts go now, its place stays.
        slot.event = Event::default();
        let hash = slot.hash;
        if let Ok(entry) = self.index.find_entry(hash, |&at| at == place) {
            entry.remove();
        }
        self.unlink(place);
        self.at_mut(place).newer = self.free;
        self.free = place;
    }

    fn append(&mut self, place: u32) {
        let older = self.newest;
        let slot = self.at_mut(place);
        (slot.older, slot.newer) = (older, NONE);
        self.newest = place;
        match self.slots.get_mut(older as usize) {
            Some(older) => older.newer = place,
            None => self.oldest = place,
        }
    }

    fn unlink(&mut self, place: u32) {
        let Slot { older, newer, .. } = *self.at(place);
        match self.slots.get_mut(older as usize) {
            Some(older) => older.newer = newer,
            None => self.oldest = newer,
        }
        match self.slots.get_mut(newer as usize) {
            Some(newer) => newer.older = older,
            None => self.newest = older,
        }
    }

    fn hash(&self, namespace: &str, name: &str) -> u64 {
        self.hasher.hash_one((namespace, name))
    }
}
