//! The entries of one shard's part of a cache. Each entry has its own place, and a ring links the
//! entries in the order of their uses.
//!
//! A use moves an entry to the newest end, and the oldest end is the entry to forget. Both take
//! constant time. The slots have no gaps, because the last one moves to the place of one that is
//! taken out.

/// A number beyond every stamp: the oldest use of a slab without entries.
pub(super) const NEVER: u64 = u64::MAX;

/// A place that no slot has: the point where the ring's two ends meet. Its newer neighbour is the
/// oldest entry.
const ENDS: u32 = u32::MAX;

pub(super) struct Slab<K, V> {
    slots: Vec<Slot<K, V>>,
    ends: Links,
}

pub(super) struct Slot<K, V> {
    pub(super) hash: u64,
    pub(super) key: K,
    pub(super) value: V,
    last_use: u64,
    links: Links,
}

/// The places of the two neighbours in the ring.
#[derive(Clone, Copy)]
struct Links {
    older: u32,
    newer: u32,
}

impl<K, V> Slab<K, V> {
    pub(super) fn new() -> Self {
        Self { slots: Vec::new(), ends: Links { older: ENDS, newer: ENDS } }
    }

    pub(super) fn slot(&mut self, place: u32) -> &mut Slot<K, V> {
        &mut self.slots[place as usize]
    }

    /// Returns the place of the least recently used entry. Returns `None` if the slab has no
    /// entries.
    pub(super) fn oldest(&self) -> Option<u32> {
        (self.ends.newer != ENDS).then_some(self.ends.newer)
    }

    /// Returns the stamp of the oldest entry's last use. Returns [`NEVER`] if the slab has no
    /// entries.
    pub(super) fn oldest_use(&self) -> u64 {
        self.slots.get(self.ends.newer as usize).map_or(NEVER, |slot| slot.last_use)
    }

    /// Makes an entry the newest one.
    pub(super) fn touch(&mut self, place: u32, stamp: u64) {
        if self.ends.older != place {
            self.unlink(place);
            self.link(place);
        }
        self.slot(place).last_use = stamp;
    }

    /// Adds an entry as the newest one, and returns its place.
    pub(super) fn push(&mut self, hash: u64, key: K, value: V, stamp: u64) -> u32 {
        // The place fits, because a cache has at most 2^24 entries, and one or two more for each
        // thread.
        let place = self.slots.len() as u32;
        let links = Links { older: ENDS, newer: ENDS };
        self.slots.push(Slot { hash, key, value, last_use: stamp, links });
        self.link(place);
        place
    }

    /// Removes and returns an entry. The last entry moves to its place, and its hash is returned
    /// too. The hash is `None` if the removed entry was itself the last.
    pub(super) fn take(&mut self, place: u32) -> (Slot<K, V>, Option<u64>) {
        self.unlink(place);
        let slot = self.slots.swap_remove(place as usize);
        let moved = self.slots.get(place as usize).map(|moved| (moved.hash, moved.links));
        if let Some((_, Links { older, newer })) = moved {
            self.links(older).newer = place;
            self.links(newer).older = place;
        }
        (slot, moved.map(|(hash, _)| hash))
    }

    /// Returns the place after the last one. After [`take`](Self::take) this is the former place of
    /// the entry that moved.
    pub(super) fn end(&self) -> u32 {
        self.slots.len() as u32
    }

    fn links(&mut self, place: u32) -> &mut Links {
        self.slots.get_mut(place as usize).map_or(&mut self.ends, |slot| &mut slot.links)
    }

    fn unlink(&mut self, place: u32) {
        let Links { older, newer } = self.slot(place).links;
        self.links(older).newer = newer;
        self.links(newer).older = older;
    }

    fn link(&mut self, place: u32) {
        let newest = self.ends.older;
        self.slot(place).links = Links { older: newest, newer: ENDS };
        self.links(newest).newer = place;
        self.ends.older = place;
    }
}
