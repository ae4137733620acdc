//! A cache: a map from each key to a place, and the entries at these places.
//!
//! The map is cut into shards, and each shard has a [`Slab`] with its entries beside it. A thread
//! locks a shard of the map only while it holds the lock of the shard's slab. No thread therefore
//! ever waits for the second lock, and the map always agrees with the slab.

use std::hash::{Hash, Hasher};

use super::slab::{Slab, Slot};
use crate::sync::{DashMap, SharedValue};

/// A map from a key to the place of its entry in the slab of the same shard. The cache reaches the
/// map only through its shards, with the hash that the key keeps, because the object chooses the
/// shard. The map's hasher is the one that made those hashes.
pub(super) type Map<K> = DashMap<Hashed<K>, u32, ahash::RandomState>;

/// A key with its hash, so that a map that grows reads the hash from here.
#[derive(PartialEq, Eq)]
pub(super) struct Hashed<K> {
    hash: u64,
    key: K,
}

impl<K> Hash for Hashed<K> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.hash);
    }
}

/// One shard's part of a cache, for a caller that has locked the shard's slab. All uses of it have
/// the same stamp.
pub(super) struct CacheShard<'a, K, V> {
    pub(super) map: &'a Map<K>,
    pub(super) index: usize,
    pub(super) slab: &'a mut Slab<K, V>,
    pub(super) stamp: u64,
    /// The number of entries that `entry` made.
    pub(super) added: usize,
}

impl<K: Clone + Eq, V> CacheShard<'_, K, V> {
    /// Returns the key and the value of an entry, and makes the entry the most recently used one.
    /// `make` makes the entry if there is none.
    pub(super) fn entry(
        &mut self,
        hash: u64,
        is: impl Fn(&K) -> bool,
        make: impl FnOnce() -> (K, V),
    ) -> (&K, &mut V) {
        let mut table = self.map.shards()[self.index].write();
        let occurrence = table.get(hash, |(key, _)| key.hash == hash && is(&key.key));
        let place = if let Some((_, place)) = occurrence {
            let place = *place.get();
            self.slab.touch(place, self.stamp);
            place
        } else {
            let (key, value) = make();
            let place = self.slab.push(hash, key.clone(), value, self.stamp);
            table.insert_entry(hash, (Hashed { hash, key }, SharedValue::new(place)), |(key, _)| key.hash);
            self.added += 1;
            place
        };
        let Slot { key, value, .. } = self.slab.slot(place);
        (key, value)
    }

    /// Returns the value of an entry, and makes the entry the most recently used one. Returns
    /// `None` if there is no such entry.
    pub(super) fn get(&mut self, hash: u64, is: impl Fn(&K) -> bool) -> Option<&mut V> {
        let table = self.map.shards()[self.index].read();
        let (_, place) = table.get(hash, |(key, _)| key.hash == hash && is(&key.key))?;
        let place = *place.get();
        self.slab.touch(place, self.stamp);
        Some(&mut self.slab.slot(place).value)
    }

    /// Removes and returns the least recently used entry. Returns `None` if there is none.
    pub(super) fn forget_oldest(&mut self) -> Option<Slot<K, V>> {
        let place = self.slab.oldest()?;
        let (forgotten, moved) = self.slab.take(place);
        let mut table = self.map.shards()[self.index].write();
        table.remove_entry(forgotten.hash, |(_, at)| *at.get() == place);
        if let Some(hash) = moved {
            let before = self.slab.end();
            if let Some((_, at)) = table.get_mut(hash, |(_, at)| *at.get() == before) {
                *at.get_mut() = place;
            }
        }
        Some(forgotten)
    }
}
