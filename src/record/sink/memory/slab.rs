//! Stores events in slots. An event keeps its slot until the event is removed.
//!
//! - A hash table maps each event's name to its slot.
//! - [`Versions`] returns the slots in the order in which their events were last written. A reader
//!   can therefore continue where it stopped, no matter how often the events have been written
//!   since then.
//! - For each object name, a linked list holds the events about objects with that name, in no
//!   particular order. A second hash table maps each object name's hash to the head of its list.
//!
//! When an event is removed, its slot is reused for the next new event.

use std::hash::Hash;

use ahash::RandomState;
use hashbrown::{HashTable, hash_table};

use crate::clock::Deadline;
use crate::record::event::{Event, Stored, Text, Timestamp};
use crate::record::sink::rules;

use super::versions::Versions;

#[derive(Default)]
pub(super) struct EventSlab {
    /// The events as they were written, without the values that [`whole`](Self::whole) adds. All
    /// chunks except the last chunk are full.
    events: Vec<Vec<Event>>,
    /// For each slot, the store's own data about the event.
    entries: Vec<Entry>,
    /// Maps each event's namespace and name to its slot.
    names: HashTable<Key>,
    /// Maps the hash of an object's name to the first slot in the list for names with that hash.
    objects: HashTable<Key>,
    /// The number of times an event has been added to a list.
    links: u64,
    versions: Versions,
    /// The slots that are free.
    free: Vec<u32>,
    hasher: RandomState,
    /// The store's number, which is part of every uid.
    number: u64,
}

#[derive(Clone, Copy)]
struct Entry {
    /// The number of the event's last write, or 0 if the slot is free.
    version: u64,
    expires: Deadline,
    birth: Birth,
    name_hash: u32,
    object_hash: u32,
    /// The value of `links` when the event was added to the list for its object's name.
    link: u64,
    /// The next and previous slots in the list for the object's name, or `NONE`.
    next: u32,
    previous: u32,
}

/// An entry in a hash table. The hash is stored together with the slot, so that the table can grow
/// without reading the events.
struct Key {
    hash: u32,
    slot: u32,
}

impl Key {
    /// Returns the hash in the form required by the hash table. The table uses both the high and
    /// the low bits, so the hash is repeated in the high and low bits.
    fn spread(&self) -> u64 {
        spread(self.hash)
    }
}

fn spread(hash: u32) -> u64 {
    u64::from(hash) << 32 | u64::from(hash)
}

/// The values that are assigned to an event when the event is created.
#[derive(Clone, Copy)]
pub(super) struct Birth {
    /// The number of events created by the store so far, including this event. The uid is derived
    /// from this number.
    pub(super) number: u64,
    /// The creation time, in whole seconds.
    pub(super) at: Timestamp,
}

/// The position in a list from which a reader continues. The position consists of a slot and the
/// `link` of the event in that slot.
#[derive(Clone, Copy)]
pub(super) struct Place(u32, u64);

/// The number of events in a chunk. Because events are stored in chunks, a growing store does not
/// have to move existing events.
const CHUNK: usize = 1024;

/// Represents the absence of a slot. This value is never a valid slot, because a store holds at
/// most 2^24 events.
const NONE: u32 = u32::MAX;

impl EventSlab {
    pub(super) fn new(number: u64) -> Self {
        Self { number, ..Self::default() }
    }

    pub(super) fn len(&self) -> usize {
        self.names.len()
    }

    /// Returns the slot of an event, or `None` if there is no event with this name.
    pub(super) fn find(&self, namespace: &str, name: &str) -> Option<u32> {
        let hash = self.hash((namespace, name));
        let is = |key: &Key| {
            let metadata = &self.at(key.slot).metadata;
            key.hash == hash && metadata.name == name && metadata.namespace == namespace
        };
        self.names.find(spread(hash), is).map(|key| key.slot)
    }

    /// Returns the event in a slot as it was written. The event's uid, creation time and version
    /// are not the values that the store reports.
    pub(super) fn at(&self, slot: u32) -> &Event {
        &self.events[slot as usize / CHUNK][slot as usize % CHUNK]
    }

    pub(super) fn at_mut(&mut self, slot: u32) -> &mut Event {
        &mut self.events[slot as usize / CHUNK][slot as usize % CHUNK]
    }

    /// Returns a copy of the event in a slot, including the values that the store adds.
    pub(super) fn whole(&self, slot: u32) -> Event {
        let Entry { version, birth, .. } = self.entries[slot as usize];
        let mut event = self.at(slot).clone();
        event.metadata.set_uid(rules::uid(self.number, birth.number));
        event.metadata.set_creation_timestamp(birth.at);
        event.metadata.set_resource_version(Text::decimal(version));
        event
    }

    /// Returns the fields that a recording needs from the event in a slot.
    pub(super) fn stored(&self, slot: u32) -> Stored {
        let event = self.at(slot);
        Stored {
            name: event.metadata.name.clone(),
            resource_version: Text::decimal(self.version(slot)),
            count: event.count,
            first_timestamp: event.first_timestamp,
        }
    }

    /// Returns the number of the last write of the event in a slot, or 0 if the slot is free.
    pub(super) fn version(&self, slot: u32) -> u64 {
        self.entries[slot as usize].version
    }

    /// Returns the time when the least recently written event expires. Returns `None` if there are
    /// no events or if that event never expires.
    pub(super) fn next_expiry(&self) -> Deadline {
        self.versions.first().and_then(|slot| self.entries[slot as usize].expires)
    }

    /// Returns a range of up to `count` slots, starting at the slot `from`. The range includes free
    /// slots, and is not in write order. If `from` is beyond the last slot, the range is empty.
    pub(super) fn slots_from(&self, from: u32, count: u32) -> std::ops::Range<u32> {
        let end = self.entries.len() as u32;
        from.min(end)..from.saturating_add(count).min(end)
    }

    /// Returns the versions above `version` and their events' slots, in ascending order.
    pub(super) fn after(&self, version: u64) -> impl Iterator<Item = (u64, u32)> {
        self.versions.after(version)
    }

    /// Returns the versions below `version` and their events' slots, in descending order.
    pub(super) fn before(&self, version: u64) -> impl Iterator<Item = (u64, u32)> {
        self.versions.before(version)
    }

    /// Returns the position of the first event in the list for this object name, or `None` if there
    /// is no such event. If a different object name has the same hash, the list also holds events
    /// about objects with that name.
    pub(super) fn first_about(&self, object: &str) -> Option<Place> {
        let hash = self.hash(object);
        let head = self.objects.find(spread(hash), |head| head.hash == hash)?;
        Some(self.place(head.slot))
    }

    /// Returns the slots in a list, starting at a position. Returns `None` if the event to which
    /// the position refers is no longer there.
    pub(super) fn list_from(&self, place: Place) -> Option<impl Iterator<Item = u32>> {
        let Place(slot, link) = place;
        let is_there = self.entries.get(slot as usize).is_some_and(|entry| entry.link == link);
        let next = |slot: &u32| Some(self.entries[*slot as usize].next).filter(|next| *next != NONE);
        is_there.then(|| std::iter::successors(Some(slot), next))
    }

    pub(super) fn place(&self, slot: u32) -> Place {
        Place(slot, self.entries[slot as usize].link)
    }

    /// Adds an event as the most recently written event, and returns the event's slot. The store
    /// must not already contain an event with the same name.
    pub(super) fn push(&mut self, event: Event, birth: Birth, version: u64, expires: Deadline) -> u32 {
        let name_hash = self.hash((event.metadata.namespace.as_str(), event.metadata.name.as_str()));
        let (object_hash, link) = (0, 0);
        let entry =
            Entry { version, expires, birth, name_hash, object_hash, link, next: NONE, previous: NONE };
        let slot = if let Some(slot) = self.free.pop() {
            *self.at_mut(slot) = event;
            self.entries[slot as usize] = entry;
            slot
        } else {
            match self.events.last_mut() {
                Some(chunk) if chunk.len() < CHUNK => chunk.push(event),
                _ => {
                    let mut chunk = Vec::with_capacity(CHUNK);
                    chunk.push(event);
                    self.events.push(chunk);
                }
            }
            self.entries.push(entry);
            self.entries.len() as u32 - 1
        };
        self.versions.push(version, slot);
        self.names.insert_unique(spread(name_hash), Key { hash: name_hash, slot }, Key::spread);
        self.link(slot);
        slot
    }

    /// Marks the event in a slot as the most recently written event.
    pub(super) fn written(&mut self, slot: u32, version: u64, expires: Deadline) {
        let entry = &mut self.entries[slot as usize];
        self.versions.remove(entry.version);
        self.versions.push(version, slot);
        (entry.version, entry.expires) = (version, expires);
    }

    /// Replaces the event in a slot with another event that has the same name.
    pub(super) fn replace(&mut self, slot: u32, event: Event) {
        let is_moved = self.at(slot).involved_object.name != event.involved_object.name;
        if is_moved {
            self.unlink(slot);
        }
        *self.at_mut(slot) = event;
        if is_moved {
            self.link(slot);
        }
    }

    /// Removes the least recently written event, and frees the event's strings.
    pub(super) fn remove_oldest(&mut self) {
        if let Some(slot) = self.free_oldest() {
            *self.at_mut(slot) = Event::default();
        }
    }

    /// Removes the least recently written event, so that its slot can be used for the next new
    /// event. The removed event's strings are not freed until the new event is added.
    pub(super) fn free_oldest(&mut self) -> Option<u32> {
        let slot = self.versions.first()?;
        self.unlink(slot);
        let entry = &mut self.entries[slot as usize];
        self.versions.remove(entry.version);
        entry.version = 0;
        if let Ok(found) = self.names.find_entry(spread(entry.name_hash), |key| key.slot == slot) {
            found.remove();
        }
        self.free.push(slot);
        Some(slot)
    }

    /// Inserts an event at the head of the list for its object's name.
    fn link(&mut self, slot: u32) {
        let hash = self.hash(self.at(slot).involved_object.name.as_str());
        let next = match self.objects.entry(spread(hash), |head| head.hash == hash, Key::spread) {
            hash_table::Entry::Occupied(mut head) => std::mem::replace(&mut head.get_mut().slot, slot),
            hash_table::Entry::Vacant(head) => {
                head.insert(Key { hash, slot });
                NONE
            }
        };
        self.links += 1;
        let entry = &mut self.entries[slot as usize];
        (entry.object_hash, entry.link) = (hash, self.links);
        (entry.next, entry.previous) = (next, NONE);
        if next != NONE {
            self.entries[next as usize].previous = slot;
        }
    }

    /// Removes an event from the list for its object's name.
    fn unlink(&mut self, slot: u32) {
        let Entry { object_hash, next, previous, .. } = self.entries[slot as usize];
        self.entries[slot as usize].link = 0;
        if next != NONE {
            self.entries[next as usize].previous = previous;
        }
        if previous != NONE {
            self.entries[previous as usize].next = next;
        } else if let Ok(mut head) = self.objects.find_entry(spread(object_hash), |head| head.slot == slot) {
            if next == NONE {
                head.remove();
            } else {
                head.get_mut().slot = next;
            }
        }
    }

    fn hash(&self, name: impl Hash) -> u32 {
        self.hasher.hash_one(name) as u32
    }
}

#[cfg(test)]
mod tests {
    use crate::record::event::{Event, ObjectReference, Timestamp};
    use crate::record::sink::memory::slab::{Birth, CHUNK, EventSlab};

    /// Adds an event about an object. The version is used as the event's name.
    fn push(slab: &mut EventSlab, version: u64, object: &str) -> u32 {
        slab.push(event(version, object), Birth { number: version, at: Timestamp::UNIX_EPOCH }, version, None)
    }

    fn event(version: u64, object: &str) -> Event {
        let mut event = Event::default();
        event.metadata.name = version.to_string().into();
        event.involved_object = ObjectReference::new("Pod", object);
        event
    }

    /// Returns the names of the events about an object.
    fn about(slab: &EventSlab, object: &str) -> Vec<String> {
        let Some(place) = slab.first_about(object) else { return Vec::new() };
        let slots = slab.list_from(place).unwrap();
        let mut names: Vec<_> = slots.map(|slot| slab.at(slot).metadata.name.to_string()).collect();
        names.sort();
        names
    }

    #[test]
    fn an_event_is_in_the_list_of_its_object_as_long_as_it_is_there() {
        let mut slab = EventSlab::new(0);
        for (version, object) in (1..).zip(["a", "b", "a", "", "a", "b"]) {
            push(&mut slab, version, object);
        }
        assert_eq!((about(&slab, "a"), about(&slab, "b")), (owned(["1", "3", "5"]), owned(["2", "6"])));
        assert_eq!((about(&slab, ""), about(&slab, "c")), (owned(["4"]), owned([])));
        // Removes the last event, the only event and the first event of a list from that list.
        slab.remove_oldest();
        slab.replace(slab.find("", "4").unwrap(), event(4, "b"));
        slab.replace(slab.find("", "5").unwrap(), event(5, "c"));
        assert_eq!((about(&slab, "a"), about(&slab, "b")), (owned(["3"]), owned(["2", "4", "6"])));
        assert_eq!((about(&slab, ""), about(&slab, "c")), (owned([]), owned(["5"])));
        // If a list has only one event, the list is removed together with that event, and is
        // created again later.
        slab.replace(slab.find("", "3").unwrap(), event(3, "b"));
        assert_eq!((about(&slab, "a"), about(&slab, "b")), (owned([]), owned(["2", "3", "4", "6"])));
        assert_eq!(push(&mut slab, 7, "a"), 0, "the slot of the removed event");
        assert_eq!(about(&slab, "a"), owned(["7"]));
        for _ in 0..6 {
            slab.remove_oldest();
        }
        assert_eq!(slab.len() + slab.names.len() + slab.objects.len(), 0);
    }

    fn owned<const N: usize>(names: [&str; N]) -> Vec<String> {
        names.map(str::to_owned).to_vec()
    }

    /// If a reader continued from a wrong position, it would skip events or return an event twice.
    #[test]
    fn a_place_in_a_list_is_lost_with_its_event() {
        let mut slab = EventSlab::new(0);
        let [first, second] = [1, 2].map(|version| push(&mut slab, version, "a"));
        let [at_first, at_second] = [first, second].map(|slot| slab.place(slot));
        let next = |slab: &EventSlab, place| slab.list_from(place).map(Vec::from_iter);
        push(&mut slab, 3, "a");
        slab.written(first, 4, None);
        slab.replace(first, event(1, "a"));
        assert_eq!(next(&slab, at_second), Some(vec![second, first]));
        assert_eq!(next(&slab, at_first), Some(vec![first]));
        // The event is moved to another list, moved back to a different position, or removed.
        slab.replace(first, event(1, "b"));
        assert_eq!(next(&slab, at_first), None);
        slab.replace(first, event(1, "a"));
        assert_eq!(next(&slab, at_first), None);
        slab.remove_oldest();
        assert_eq!(next(&slab, at_second), None);
        assert_eq!(push(&mut slab, 5, "a"), second);
        assert_eq!(next(&slab, at_second), None);
    }

    /// Slot numbers continue across all chunks. The slot of an evicted event is reused for the next
    /// event.
    #[test]
    fn a_store_of_several_chunks_has_each_event_in_its_slot() {
        let mut slab = EventSlab::new(0);
        let count = 2 * CHUNK as u64 + 3;
        for version in 1..=count {
            assert_eq!(u64::from(push(&mut slab, version, "a")), version - 1);
        }
        for version in [1, 1024, 1025, 2048, 2049, count] {
            let slot = slab.find("", &version.to_string()).unwrap();
            assert_eq!((u64::from(slot), slab.version(slot)), (version - 1, version));
            assert_eq!(slab.whole(slot).metadata.resource_version(), version.to_string().as_str());
        }
        assert_eq!(slab.slots_from(2040, 256), 2040..count as u32);
        assert!(slab.slots_from(count as u32, 256).is_empty());
        assert_eq!(slab.free_oldest(), Some(0));
        assert_eq!((slab.find("", "1"), push(&mut slab, count + 1, "b")), (None, 0));
        assert_eq!(about(&slab, "a").len() as u64, count - 1);
    }
}
