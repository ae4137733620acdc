//! A correlator's three bounded caches, which are stored in one sharded map.
//!
//! For each base, the map contains the base's entries in all three caches. A decision therefore
//! locks a single shard once, and two threads contend only if their objects share one of the
//! [`SHARDS`].
//!
//! Each shard keeps the entries of each cache in the order of their last use. While a cache has
//! free capacity, any shard may use that capacity. In a full cache, each new entry evicts the least
//! recently used entry of its shard, unless that shard has less than its share of the capacity. In
//! that case, a shard with more than its share evicts an entry instead. With one shard, the
//! eviction order is therefore exact. With several shards, the eviction order is exact within each
//! shard, but a remaining entry may be older than an entry that was evicted from another shard.
//!
//! Lock order: `Caches::map` before `Caches::orders`. A thread holds the locks of only one shard at
//! a time, so threads cannot deadlock.

use super::base::{Base, BaseRef};
use super::few::Few;
use super::key::{Key, KeyRef, are, copied};
use super::{aggregator::Group, observer::Seen, spam_filter::Bucket};
use crate::record::event::Text;
use crate::record::recency::Recency;
use crate::sync::atomic::{AtomicUsize, Ordering};
use crate::sync::{Arc, CachePadded, DashMap, Mutex, SharedValue};

/// The maximum number of shards, which is large enough that two threads rarely contend.
const SHARDS: usize = 64;

/// A shard's minimum share, in entries, unless the whole cache is smaller.
const SHARE: usize = 64;

/// The number of caches, and the index of each cache.
const CACHES: usize = 3;
const BUDGETS: usize = 0;
const GROUPS: usize = 1;
const EVENTS: usize = 2;

pub(super) struct Caches {
    /// The entries of each base, by the base's hash. The code below accesses the map only through
    /// its shards, and compares the bases itself, so two bases with the same hash have separate
    /// entries in the map.
    map: DashMap<u64, Box<Entries>, ahash::RandomState>,
    /// For each shard of the map, the order in which its entries were last used.
    orders: Box<[CachePadded<Mutex<Order>>]>,
    /// Each shard's share of the entries in a full cache. A shard may have more or fewer entries
    /// than its share.
    share: usize,
    /// The number of entries that can be added to each cache before the cache has to evict an
    /// entry.
    free: [AtomicUsize; CACHES],
}

/// The entries of one base in all three caches.
struct Entries {
    base: Base,
    budget: Option<Slot<Bucket>>,
    groups: Few<Slot<GroupEntry>>,
    events: Few<Slot<EventEntry>>,
}

/// An entry, with its position in the order of last use.
struct Slot<V> {
    place: u32,
    value: V,
}

struct GroupEntry {
    fields: [Text; 3],
    group: Group,
}

pub(super) struct EventEntry {
    pub(super) key: Arc<Key>,
    pub(super) seen: Seen,
}

/// For each cache, the order in which its entries in one shard were last used.
type Order = [Recency<Used>; CACHES];

/// The hashes used to look up an entry.
struct Used {
    base: u64,
    hash: u64,
}

/// Gives a caller access to the entries of one base while the caller holds the lock of the base's
/// shard.
pub(super) struct Access<'a> {
    entries: &'a mut Entries,
    uses: Uses<'a>,
}

/// Records how the entries of one base are used and added.
struct Uses<'a> {
    order: &'a mut Order,
    free: &'a [AtomicUsize; CACHES],
    base: u64,
    /// The number of entries that each cache still has to evict.
    excess: [usize; CACHES],
}

/// An entry in the map.
type MapEntry = (u64, SharedValue<Box<Entries>>);

impl Caches {
    /// Creates the caches. Caches that are not shared between threads have only one shard.
    pub(super) fn new(capacity: usize, is_shared: bool) -> Self {
        let most = if is_shared { SHARDS } else { 1 };
        let shards = 1 << (capacity / SHARE).clamp(1, most).ilog2();
        // The hasher is seeded at random, because object names are external input.
        let hasher = ahash::RandomState::new();
        Self {
            // A `DashMap` has at least two shards. If `orders` has only one element, only the first
            // shard is used.
            map: DashMap::with_hasher_and_shard_amount(hasher, shards.max(2)),
            orders: (0..shards).map(|_| CachePadded::default()).collect(),
            share: capacity / shards,
            free: [(); CACHES].map(|()| AtomicUsize::new(capacity)),
        }
    }

    /// Returns the hasher that is used for all keys.
    pub(super) fn hasher(&self) -> &ahash::RandomState {
        self.map.hasher()
    }

    /// Runs `work` on the entries of a base, while holding the lock of the base's shard. `work`
    /// must be short, and must not call user code. If `work` adds entries to a full cache, old
    /// entries are evicted before this function returns. Also returns the number of evicted
    /// entries.
    pub(super) fn with<R>(
        &self,
        hash: u64,
        base: BaseRef<'_>,
        work: impl FnOnce(&mut Access<'_>) -> R,
    ) -> (R, usize) {
        // The number of shards is a power of two.
        let number = self.map.determine_shard(hash as usize) & (self.orders.len() - 1);
        let (result, excess) = {
            let mut table = self.map.shards()[number].write();
            let mut order = self.orders[number].lock();
            let same = |(key, entries): &MapEntry| *key == hash && base.is(&entries.get().base);
            let mut new = None;
            let entries = match table.get_mut(hash, same) {
                Some((_, entries)) => entries.get_mut(),
                None => new.insert(Box::new(Entries::of(base.to_base()))),
            };
            let uses = Uses { order: &mut order, free: &self.free, base: hash, excess: [0; CACHES] };
            let mut access = Access { entries, uses };
            let result = work(&mut access);
            let excess = access.uses.excess;
            if let Some(entries) = new.filter(|entries| !entries.is_empty()) {
                table.insert_entry(hash, (hash, SharedValue::new(entries)), |(key, _)| *key);
            }
            (result, excess)
        };
        let evicted = excess.iter().sum();
        if evicted > 0 {
            self.evict(excess, number);
        }
        (result, evicted)
    }

    /// Evicts the excess entries of each cache. The search begins at the shard `first`, and
    /// considers only shards with more than their share. If other threads have already evicted
    /// entries from those shards, entries are evicted from any shard.
    fn evict(&self, mut excess: [usize; CACHES], first: usize) {
        let shards = self.orders.len();
        let mut step = 0;
        while excess != [0; CACHES] {
            let least = if step / shards % 2 == 0 { self.share } else { 0 };
            self.evict_from((first + step) % shards, least, &mut excess);
            step += 1;
        }
    }

    /// Evicts one entry from each cache that has excess entries and more than `least` entries in
    /// the given shard.
    fn evict_from(&self, number: usize, least: usize, excess: &mut [usize; CACHES]) {
        let mut table = self.map.shards()[number].write();
        let mut order = self.orders[number].lock();
        for (cache, (order, excess)) in order.iter_mut().zip(excess).enumerate() {
            let oldest = order.oldest().filter(|_| *excess > 0 && order.len() > least);
            let Some((place, Used { base, hash })) =
                oldest.and_then(|place| Some((place, order.remove(place)?)))
            else {
                continue;
            };
            *excess -= 1;
            let has = |(key, entries): &MapEntry| *key == base && entries.get().has(cache, hash, place);
            let is_empty = table.get_mut(base, has).is_some_and(|(_, entries)| {
                entries.get_mut().remove(cache, hash, place);
                entries.get().is_empty()
            });
            if is_empty {
                table.remove_entry(base, |(key, entries)| *key == base && entries.get().is_empty());
            }
        }
    }
}

impl Uses<'_> {
    /// Adds an entry to the order of last use, and returns the entry with its position.
    fn add<V>(&mut self, cache: usize, hash: u64, value: V) -> Slot<V> {
        // Relaxed, both: only the number itself matters.
        let take = |free: usize| free.checked_sub(1);
        if self.free[cache].fetch_update(Ordering::Relaxed, Ordering::Relaxed, take).is_err() {
            self.excess[cache] += 1;
        }
        Slot { place: self.order[cache].push(Used { base: self.base, hash }), value }
    }
}

impl Entries {
    fn of(base: Base) -> Self {
        Self { base, budget: None, groups: Few::default(), events: Few::default() }
    }

    fn is_empty(&self) -> bool {
        self.budget.is_none() && self.groups.len() == 0 && self.events.len() == 0
    }

    fn has(&self, cache: usize, hash: u64, place: u32) -> bool {
        match cache {
            BUDGETS => self.budget.as_ref().is_some_and(|slot| slot.place == place),
            GROUPS => self.groups.get(hash, |slot| slot.place == place).is_some(),
            _ => self.events.get(hash, |slot| slot.place == place).is_some(),
        }
    }

    fn remove(&mut self, cache: usize, hash: u64, place: u32) {
        match cache {
            BUDGETS => self.budget = None,
            GROUPS => self.groups.remove(hash, |slot| slot.place == place),
            _ => self.events.remove(hash, |slot| slot.place == place),
        }
    }
}

impl Access<'_> {
    pub(super) fn bucket(&mut self, make: impl FnOnce() -> Bucket) -> &mut Bucket {
        let Self { entries, uses } = self;
        let base = uses.base;
        let slot = entries.budget.get_or_insert_with(|| uses.add(BUDGETS, base, make()));
        uses.order[BUDGETS].touch(slot.place);
        &mut slot.value
    }

    pub(super) fn group(&mut self, key: KeyRef<'_>, make: impl FnOnce() -> Group) -> &mut Group {
        let Self { entries, uses } = self;
        let is = |slot: &Slot<GroupEntry>| are(&slot.value.fields, key.fields);
        let make = || GroupEntry { fields: copied(key.fields), group: make() };
        let slot = entries.groups.get_or_insert_with(key.hash, is, || uses.add(GROUPS, key.hash, make()));
        uses.order[GROUPS].touch(slot.place);
        &mut slot.value.group
    }

    /// Returns an event's entry. If the event has no entry, creates one with a new key.
    pub(super) fn event(&mut self, key: KeyRef<'_>) -> &mut EventEntry {
        let Self { entries: Entries { base, events, .. }, uses } = self;
        let base_hash = uses.base;
        let is = |slot: &Slot<EventEntry>| key.is(&slot.value.key);
        let make = || EventEntry { key: key.to_key(base_hash, base), seen: Seen::default() };
        let slot = events.get_or_insert_with(key.hash, is, || uses.add(EVENTS, key.hash, make()));
        uses.order[EVENTS].touch(slot.place);
        &mut slot.value
    }

    /// Returns the entry of an existing key. If the key has no entry, creates one with this key.
    pub(super) fn event_of(&mut self, key: &Arc<Key>) -> &mut Seen {
        let Self { entries, uses } = self;
        let is = |slot: &Slot<EventEntry>| is_same(key, &slot.value.key);
        let make = || EventEntry { key: key.clone(), seen: Seen::default() };
        let slot = entries.events.get_or_insert_with(key.hash, is, || uses.add(EVENTS, key.hash, make()));
        uses.order[EVENTS].touch(slot.place);
        &mut slot.value.seen
    }

    /// Returns a key's entry, if any.
    pub(super) fn find_event(&mut self, key: &Arc<Key>) -> Option<&mut Seen> {
        let is = |slot: &Slot<EventEntry>| is_same(key, &slot.value.key);
        let slot = self.entries.events.get_mut(key.hash, is)?;
        self.uses.order[EVENTS].touch(slot.place);
        Some(&mut slot.value.seen)
    }
}

fn is_same(key: &Arc<Key>, other: &Arc<Key>) -> bool {
    Arc::ptr_eq(key, other) || key == other
}
