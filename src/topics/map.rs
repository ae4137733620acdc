//! The map from keys to topics. Each shard of the map has its own lock. In models, a single lock
//! protects the whole map.
//!
//! A closure passed to the map runs while a shard is locked, so the closure must not acquire a lock
//! that may be held while user code is running.

#[cfg(eventcast_loom)]
pub(super) use model::TopicMap;
#[cfg(not(eventcast_loom))]
pub(super) use real::TopicMap;

#[cfg(not(eventcast_loom))]
mod real {
    use std::borrow::Borrow;
    use std::hash::Hash;

    use ahash::RandomState;

    use crate::sync::{DashMap, Entry};

    pub(in crate::topics) struct TopicMap<K, V> {
        shards: DashMap<K, V, RandomState>,
    }

    impl<K: Hash + Eq, V> TopicMap<K, V> {
        pub(in crate::topics) fn new() -> Self {
            Self { shards: DashMap::with_hasher(RandomState::new()) }
        }

        pub(in crate::topics) fn get<Q, R>(&self, key: &Q, read: impl FnOnce(&V) -> R) -> Option<R>
        where
            K: Borrow<Q>,
            Q: Hash + Eq + ?Sized,
        {
            self.shards.get(key).map(|entry| read(&entry))
        }

        /// Calls `change` with the key's value. If the key has no value, `make` creates the value
        /// first.
        pub(in crate::topics) fn enter<R, E>(
            &self,
            key: K,
            make: impl FnOnce(&K) -> Result<V, E>,
            change: impl FnOnce(&mut V) -> R,
        ) -> Result<R, E> {
            match self.shards.entry(key) {
                Entry::Occupied(mut entry) => Ok(change(entry.get_mut())),
                Entry::Vacant(entry) => {
                    let value = make(entry.key())?;
                    Ok(change(&mut entry.insert(value)))
                }
            }
        }

        /// Calls `change` with the key's value, and removes the entry if `change` returns `true`.
        pub(in crate::topics) fn remove_if<Q>(
            &self,
            key: &Q,
            change: impl FnOnce(&mut V) -> bool,
        ) -> Option<(K, V)>
        where
            K: Borrow<Q>,
            Q: Hash + Eq + ?Sized,
        {
            self.shards.remove_if_mut(key, |_, value| change(value))
        }

        /// Calls `see` with each entry, one shard at a time.
        pub(in crate::topics) fn for_each(&self, mut see: impl FnMut(&K, &mut V)) {
            for mut entry in self.shards.iter_mut() {
                let (key, value) = entry.pair_mut();
                see(key, value);
            }
        }
    }
}

#[cfg(eventcast_loom)]
mod model {
    use std::borrow::Borrow;
    use std::collections::HashMap;
    use std::collections::hash_map::{DefaultHasher, Entry};
    use std::hash::{BuildHasherDefault, Hash};

    use crate::sync::Mutex;

    /// Uses a hasher with a fixed seed so that the iteration order is the same in each execution of
    /// a model.
    pub(in crate::topics) struct TopicMap<K, V> {
        entries: Mutex<HashMap<K, V, BuildHasherDefault<DefaultHasher>>>,
    }

    impl<K: Hash + Eq, V> TopicMap<K, V> {
        pub(in crate::topics) fn new() -> Self {
            Self { entries: Mutex::new(HashMap::default()) }
        }

        pub(in crate::topics) fn get<Q, R>(&self, key: &Q, read: impl FnOnce(&V) -> R) -> Option<R>
        where
            K: Borrow<Q>,
            Q: Hash + Eq + ?Sized,
        {
            self.entries.lock().get(key).map(read)
        }

        pub(in crate::topics) fn enter<R, E>(
            &self,
            key: K,
            make: impl FnOnce(&K) -> Result<V, E>,
            change: impl FnOnce(&mut V) -> R,
        ) -> Result<R, E> {
            match self.entries.lock().entry(key) {
                Entry::Occupied(mut entry) => Ok(change(entry.get_mut())),
                Entry::Vacant(entry) => {
                    let value = make(entry.key())?;
                    Ok(change(entry.insert(value)))
                }
            }
        }

        pub(in crate::topics) fn remove_if<Q>(
            &self,
            key: &Q,
            change: impl FnOnce(&mut V) -> bool,
        ) -> Option<(K, V)>
        where
            K: Borrow<Q>,
            Q: Hash + Eq + ?Sized,
        {
            let mut entries = self.entries.lock();
            if change(entries.get_mut(key)?) { entries.remove_entry(key) } else { None }
        }

        pub(in crate::topics) fn for_each(&self, mut see: impl FnMut(&K, &mut V)) {
            for (key, value) in self.entries.lock().iter_mut() {
                see(key, value);
            }
        }
    }
}
