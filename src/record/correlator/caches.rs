//! What a correlator remembers: three bounded caches, cut into shards for many threads.
//!
//! Each cache is a sharded map. The shards of one number belong together: one lock beside them guards the entries of all
//! three. An event's own keys all lie under the number of its source, object and type ([`shard_of`]). So a decision takes
//! that lock once, and two threads meet only when their objects share one of the [`SHARDS`]. A thread that has that lock
//! may take the lock of one map's shard of that number, and gives it back before the next. No thread holds two locks of
//! one kind, so no threads wait in a circle.
//!
//! The bounds hold across shards, and so does the order of who is forgotten:
//!
//! * Each cache has its `len`. Who has added an entry looks, with no lock held, whether there are too many; if so, takes
//!   the surplus out of `len`, and then an entry out of a shard. So a cache holds at most `capacity` entries, and one more
//!   for each thread that is between the two.
//! * In a shard the entries are linked in the order of their uses, and each use has a stamp. Each shard publishes a lower
//!   bound for the stamp of its oldest entry. Who looks for a victim goes to the shard with the lowest bound and makes it
//!   exact; if it is still the lowest, that is the one.
//! * From one thread the entry that goes is exactly the least recently used one. Threads number their uses in blocks,
//!   without asking each other (`sync::stamp`), so between shards that several threads use, the order is right but for
//!   the latest hundred uses.

use super::cache::{Cache, Map};
use super::key::{BudgetKey, Key};
use super::shards::{SHARDS, shard_of};
use super::slab::{NEVER, Slab, Slot};
use super::{aggregator::Group, observer::Seen, spam_filter::Bucket};
use crate::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use crate::sync::{Arc, CachePadded, DashMap, Mutex, stamp, thread};

pub(super) struct Caches {
    shards: Box<[CachePadded<Mutex<Slabs>>]>,
    groups: Bounded<Arc<Key>>,
    events: Bounded<Arc<Key>>,
    budgets: Bounded<BudgetKey>,
}

/// The entries of one shard.
struct Slabs {
    groups: Slab<Arc<Key>, Group>,
    events: Slab<Arc<Key>, Seen>,
    budgets: Slab<BudgetKey, Bucket>,
}

pub(super) type EventCache<'a> = Cache<'a, Arc<Key>, Seen>;

/// One shard's part of all three caches.
pub(super) struct Shard<'a> {
    pub(super) groups: Cache<'a, Arc<Key>, Group>,
    pub(super) events: EventCache<'a>,
    pub(super) budgets: Cache<'a, BudgetKey, Bucket>,
}

/// The keys of one cache, its bound, and where its oldest entries are.
struct Bounded<K> {
    map: Map<K>,
    capacity: usize,
    len: CachePadded<AtomicUsize>,
    evicted: AtomicU64,
    bounds: Box<[AtomicU64]>,
}

impl Caches {
    pub(super) fn new(capacity: usize) -> Self {
        // Seeded by the system: the names of objects come from outside.
        let hasher = ahash::RandomState::new();
        let slabs = || Slabs { groups: Slab::new(), events: Slab::new(), budgets: Slab::new() };
        Self {
            shards: (0..SHARDS).map(|_| CachePadded::new(Mutex::new(slabs()))).collect(),
            groups: Bounded::new(capacity, hasher.clone()),
            events: Bounded::new(capacity, hasher.clone()),
            budgets: Bounded::new(capacity, hasher),
        }
    }

    /// Returns the hasher of all keys.
    pub(super) fn hasher(&self) -> &ahash::RandomState {
        self.events.map.hasher()
    }

    /// Works on the shard of `hash`. The work must be short, and call nothing of the user's. What it adds makes old
    /// entries go before this returns.
    pub(super) fn with<R>(&self, hash: u64, work: impl FnOnce(&mut Shard<'_>) -> R) -> R {
        let index = shard_of(hash);
        let (result, [groups, events, budgets]) = {
            let mut slabs = self.shards[index].lock();
            // Under the lock, so that no other use here is later and yet has a lower number from long ago.
            let stamp = stamp();
            let Slabs { groups, events, budgets } = &mut *slabs;
            let mut shard = Shard {
                groups: self.groups.part(index, groups, stamp),
                events: self.events.part(index, events, stamp),
                budgets: self.budgets.part(index, budgets, stamp),
            };
            let result = work(&mut shard);
            let Shard { groups, events, budgets } = &shard;
            (result, [self.groups.added(groups), self.events.added(events), self.budgets.added(budgets)])
        };
        if groups + events + budgets > 0 {
            self.make_room(&self.groups, groups, |slabs| &mut slabs.groups);
            self.make_room(&self.events, events, |slabs| &mut slabs.events);
            self.make_room(&self.budgets, budgets, |slabs| &mut slabs.budgets);
        }
        result
    }

    /// How many entries were forgotten.
    pub(super) fn evicted(&self) -> u64 {
        // Relaxed: counts.
        let Self { groups, events, budgets, .. } = self;
        [&groups.evicted, &events.evicted, &budgets.evicted]
            .iter()
            .map(|evicted| evicted.load(Ordering::Relaxed))
            .sum()
    }

    /// Forgets the oldest entries if there are too many, one for each that was added.
    fn make_room<K: Clone + Eq, V>(
        &self,
        cache: &Bounded<K>,
        added: usize,
        slab: fn(&mut Slabs) -> &mut Slab<K, V>,
    ) {
        for _ in 0..added {
            if cache.take_surplus() {
                self.forget_one(cache, slab);
            }
        }
    }

    fn forget_one<K: Clone + Eq, V>(&self, cache: &Bounded<K>, slab: fn(&mut Slabs) -> &mut Slab<K, V>) {
        // From one thread every shard is looked at once at most. Others may use entries faster than they are looked at;
        // then one goes that has been used a moment ago.
        let mut looks = 2 * SHARDS;
        loop {
            let Some((index, runner_up)) = cache.lowest() else {
                // The surplus that this thread took is still in some shard. The look goes from shard to shard, and others
                // emptied the ones ahead of it while they filled the ones behind it.
                thread::yield_now();
                continue;
            };
            looks = looks.saturating_sub(1);
            // The entry is dropped when the lock is free again.
            let forgotten: Option<Slot<K, V>> = {
                let mut slabs = self.shards[index].lock();
                let mut part = cache.part(index, slab(&mut slabs), NEVER);
                let goes = part.slab.oldest_use() <= runner_up || looks == 0;
                let forgotten = if goes { part.forget_oldest() } else { None };
                cache.publish(&part);
                forgotten
            };
            if forgotten.is_some() {
                // Relaxed: nothing is read on the strength of a counter.
                cache.evicted.fetch_add(1, Ordering::Relaxed);
                return;
            }
        }
    }
}

impl<K: Clone + Eq> Bounded<K> {
    fn new(capacity: usize, hasher: ahash::RandomState) -> Self {
        Self {
            map: DashMap::with_hasher_and_shard_amount(hasher, SHARDS),
            capacity,
            len: CachePadded::new(AtomicUsize::new(0)),
            evicted: AtomicU64::new(0),
            bounds: (0..SHARDS).map(|_| AtomicU64::new(NEVER)).collect(),
        }
    }

    /// One shard's part. `slab` is that of its number, locked.
    fn part<'a, V>(&'a self, index: usize, slab: &'a mut Slab<K, V>, stamp: u64) -> Cache<'a, K, V> {
        Cache { map: &self.map, index, slab, stamp, added: 0 }
    }

    /// Counts what was added. Called under the shard's lock.
    fn added<V>(&self, part: &Cache<'_, K, V>) -> usize {
        if part.added > 0 {
            // A bound that is published for other entries stays a lower one.
            // Relaxed: written under the shard's lock only, which the caller holds.
            if self.bounds[part.index].load(Ordering::Relaxed) == NEVER {
                self.publish(part);
            }
            // Release: pairs with the Acquire in `take_surplus`, so that a thread that counts this entry also sees
            // the bound of its shard.
            self.len.fetch_add(part.added, Ordering::Release);
        }
        part.added
    }

    /// Called under the shard's lock, so that bounds are published in their order.
    fn publish<V>(&self, part: &Cache<'_, K, V>) {
        // Relaxed: an old bound is a lower one, and only costs a look at the shard. A new entry's bound is
        // published by the Release in `added`.
        self.bounds[part.index].store(part.slab.oldest_use(), Ordering::Relaxed);
    }

    /// Whether there is an entry too many, which this thread is to take out.
    fn take_surplus(&self) -> bool {
        // Acquire: pairs with the Release in `added`.
        let mut len = self.len.load(Ordering::Acquire);
        while len > self.capacity {
            // Acquire, both: as above.
            match self.len.compare_exchange_weak(len, len - 1, Ordering::Acquire, Ordering::Acquire) {
                Ok(_) => return true,
                Err(found) => len = found,
            }
        }
        false
    }

    /// The shard with the lowest bound, and the lowest of the others.
    fn lowest(&self) -> Option<(usize, u64)> {
        let (mut first, mut second, mut index) = (NEVER, NEVER, None);
        for (i, bound) in self.bounds.iter().enumerate() {
            // Relaxed: the Acquire in `take_surplus` orders it.
            let bound = bound.load(Ordering::Relaxed);
            if bound < first {
                (second, first, index) = (first, bound, Some(i));
            } else if bound < second {
                second = bound;
            }
        }
        index.map(|index| (index, second))
    }
}
