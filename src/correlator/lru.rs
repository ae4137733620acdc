//! A bounded cache that forgets what was least recently used, for many threads.
//!
//! The entries lie in a sharded map. Each carries a stamp, the number of its last use. Who is oldest is known from a
//! heap beside the map, which holds every key once, with a stamp that the entry had at some time: a lower bound, because
//! stamps only grow. A hit therefore touches its shard and nothing else. To evict, look at the key with the lowest bound:
//! if that is still its stamp, no other entry can be older; if it has been used since, put the bound right and
//! look again. Each such correction is paid for by a use, so the cost stays logarithmic for each use.
//!
//! * From one thread the entry that goes is exactly the least recently used one.
//! * The map holds at most `capacity` entries, and one more for each thread that is inserting at that moment.
//! * Locks: the heap's before a shard's, never the other way round, and nothing is held when a call returns.

use std::cmp::Ordering as Order;
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;

use dashmap::{DashMap, Entry};

use super::key::{AnyKey, Key};
use crate::sync::Mutex;
use crate::sync::atomic::{AtomicU64, Ordering};

pub(super) struct LruCache<V> {
    map: DashMap<Key, Slot<V>, ahash::RandomState>,
    /// Every key of the map once, but for those that a thread is about to add.
    oldest: Mutex<BinaryHeap<Bound>>,
    capacity: usize,
    next_stamp: AtomicU64,
    evicted: AtomicU64,
}

struct Slot<V> {
    last_use: u64,
    value: V,
}

/// "This key was last used at `stamp` or later."
struct Bound {
    stamp: u64,
    key: Key,
}

/// The greatest is the oldest, as the heap gives out its greatest. Two equal stamps never meet.
impl Ord for Bound {
    fn cmp(&self, other: &Self) -> Order {
        other.stamp.cmp(&self.stamp)
    }
}

impl PartialOrd for Bound {
    fn partial_cmp(&self, other: &Self) -> Option<Order> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Bound {
    fn eq(&self, other: &Self) -> bool {
        self.stamp == other.stamp
    }
}

impl Eq for Bound {}

impl<V> LruCache<V> {
    pub(super) fn new(capacity: usize) -> Self {
        Self {
            // Seeded by the system: the names of objects come from outside.
            map: DashMap::with_hasher(ahash::RandomState::new()),
            oldest: Mutex::new(BinaryHeap::new()),
            capacity,
            next_stamp: AtomicU64::new(0),
            evicted: AtomicU64::new(0),
        }
    }

    /// Uses the entry of `key`, made by `make` where there is none. `work` runs under the lock of one shard: it must be
    /// short, and call nothing of the user's.
    pub(super) fn with<R>(
        &self,
        key: &dyn AnyKey,
        make: impl FnOnce() -> V,
        work: impl FnOnce(&Key, &mut V) -> R,
    ) -> R {
        // Relaxed: the stamp is only compared, and is written under the shard's lock.
        let stamp = self.next_stamp.fetch_add(1, Ordering::Relaxed);
        if let Some(mut found) = self.map.get_mut(key) {
            let (key, slot) = found.pair_mut();
            return slot.using(stamp, key, work);
        }
        let key = key.to_key();
        let result = match self.map.entry(key.clone()) {
            // Another thread was quicker, and adds the key to the heap.
            Entry::Occupied(mut found) => return found.get_mut().using(stamp, &key, work),
            Entry::Vacant(vacant) => {
                let mut slot = vacant.insert(Slot { last_use: stamp, value: make() });
                slot.using(stamp, &key, work)
            }
        };
        self.add(Bound { stamp, key });
        result
    }

    /// How many entries have been forgotten to make room.
    pub(super) fn evicted(&self) -> u64 {
        self.evicted.load(Ordering::Relaxed)
    }

    /// Makes an entry known as one that can be forgotten, and forgets as many as there are too many.
    fn add(&self, bound: Bound) {
        let mut oldest = self.oldest.lock();
        oldest.push(bound);
        // So many corrections put every bound right once. Others may use entries faster than that; then what is on top
        // goes, although it may have been used this very moment.
        let mut corrections = oldest.len();
        while oldest.len() > self.capacity {
            let Some(mut top) = oldest.peek_mut() else { return };
            let last_use = self.map.get(&top.key).map(|slot| slot.last_use);
            match last_use {
                Some(last_use) if last_use != top.stamp && corrections > 0 => {
                    corrections -= 1;
                    top.stamp = last_use;
                }
                _ => {
                    let Bound { key, .. } = PeekMut::pop(top);
                    self.map.remove(&key);
                    self.evicted.fetch_add(1, Ordering::Relaxed);
                }
            }
        }
    }
}

impl<V> Slot<V> {
    fn using<R>(&mut self, stamp: u64, key: &Key, work: impl FnOnce(&Key, &mut V) -> R) -> R {
        // A thread with a later stamp may have been here first.
        self.last_use = self.last_use.max(stamp);
        work(key, &mut self.value)
    }
}
