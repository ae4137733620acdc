//! One cache: a map from a key to a place, and the entries that lie there.
//!
//! The map is cut into shards, and each shard of it has a [`Slab`] beside it. Only who has locked the slab locks the
//! map's shard, so nobody ever waits for that second lock, and the map's word is always that of the slab.

use std::hash::{Hash, Hasher};

use super::slab::{Slab, Slot};
use crate::sync::{DashMap, SharedValue};

/// From a key to its entry's place in the slab of the same shard. It is reached by its shards alone, with the hash that
/// the key keeps, because the object chooses the shard. Its hasher is the one that made those hashes.
pub(super) type Map<K> = DashMap<Hashed<K>, u32, ahash::RandomState>;

/// A key that keeps its hash, so that a map that grows need not look for it.
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

/// One shard's part of a cache, in the hands of who has locked its slab, for uses at one moment.
pub(super) struct Cache<'a, K, V> {
    pub(super) map: &'a Map<K>,
    pub(super) index: usize,
    pub(super) slab: &'a mut Slab<K, V>,
    pub(super) stamp: u64,
    /// How many entries were made.
    pub(super) added: usize,
}

impl<K: Clone + Eq, V> Cache<'_, K, V> {
    /// Uses an entry, made by `make` where there is none.
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

    /// Takes out the least recently used entry.
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
