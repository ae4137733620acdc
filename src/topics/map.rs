//! The map from keys to topics. Each shard of the map has its own lock. In models, a single lock
//! protects the whole map.
//!
//! A closure passed to the map runs while a shard is locked, so the closure must not acquire a lock
//! that may be held while user code is running.

use std::borrow::Borrow;
use std::hash::Hash;

#[cfg(not(eventcast_loom))]
use crate::sync::{DashMap, Entry};
#[cfg(eventcast_loom)]
use {
    crate::sync::Mutex,
    std::collections::HashMap,
    std::collections::hash_map::{DefaultHasher, Entry},
    std::hash::BuildHasherDefault,
    std::ops::DerefMut,
};

/// Uses a hasher with a fixed seed so that the iteration order is the same in each execution of a
/// model.
#[cfg(eventcast_loom)]
type Map<K, V> = HashMap<K, V, BuildHasherDefault<DefaultHasher>>;
#[cfg(not(eventcast_loom))]
type Map<K, V> = DashMap<K, V, ahash::RandomState>;

pub(super) struct TopicMap<K, V> {
    #[cfg(eventcast_loom)]
    shards: Mutex<Map<K, V>>,
    #[cfg(not(eventcast_loom))]
    shards: Map<K, V>,
}

impl<K: Hash + Eq, V> TopicMap<K, V> {
    pub(super) fn new() -> Self {
        Self { shards: <_>::default() }
    }

    /// Locks the map of a model.
    #[cfg(eventcast_loom)]
    fn map(&self) -> impl DerefMut<Target = Map<K, V>> {
        self.shards.lock()
    }

    /// Returns the map, whose methods each lock a shard.
    #[cfg(not(eventcast_loom))]
    fn map(&self) -> &Map<K, V> {
        &self.shards
    }

    pub(super) fn get<Q, R>(&self, key: &Q, read: impl FnOnce(&V) -> R) -> Option<R>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        self.map().get(key).map(|value| read(&value))
    }

    /// Calls `change` with the key's value. If the key has no value, `make` creates the value
    /// first.
    pub(super) fn enter<R, E>(
        &self,
        key: K,
        make: impl FnOnce(&K) -> Result<V, E>,
        change: impl FnOnce(&mut V) -> R,
    ) -> Result<R, E> {
        match self.map().entry(key) {
            Entry::Occupied(mut entry) => Ok(change(entry.get_mut())),
            Entry::Vacant(entry) => {
                let value = make(entry.key())?;
                Ok(change(&mut entry.insert(value)))
            }
        }
    }

    /// Calls `change` with the key's value, and removes the entry if `change` returns `true`.
    pub(super) fn remove_if<Q>(&self, key: &Q, change: impl FnOnce(&mut V) -> bool) -> Option<(K, V)>
    where
        K: Borrow<Q>,
        Q: Hash + Eq + ?Sized,
    {
        #[cfg(not(eventcast_loom))]
        return self.map().remove_if_mut(key, |_, value| change(value));
        #[cfg(eventcast_loom)]
        {
            let mut map = self.map();
            if change(map.get_mut(key)?) { map.remove_entry(key) } else { None }
        }
    }

    /// Calls `see` with each entry, one shard at a time.
    pub(super) fn for_each(&self, mut see: impl FnMut(&K, &mut V)) {
        self.map().retain(|key, value| {
            see(key, value);
            true
        });
    }
}
