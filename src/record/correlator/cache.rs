//! The memory of a correlator: three bounded caches, cut into shards for many threads.
//!
//! Each cache is a sharded map. The shards with the same number belong together: one lock beside
//! them guards the entries of all three. All keys that are made of an event's own fields lie under
//! the number of its source, object and type ([`shard_of`]). A decision therefore takes that lock
//! once, and two threads meet only if their objects share one of the [`SHARDS`]. A thread that
//! holds the lock may take the lock of one map's shard with that number, and releases it before it
//! takes the next. No thread holds two locks of one kind, so no threads wait in a circle.
//!
//! The bounds hold across shards, and so does the order in which entries are forgotten:
//!
//! * Each cache counts its entries in `len`. A thread that has added an entry then checks, with no
//!   lock held, whether there are too many. If so, the thread takes the surplus out of `len`, and
//!   then an entry out of a shard. A cache therefore holds at most `capacity` entries, plus those
//!   that threads have added and not yet made room for.
//! * In a shard the entries are linked in the order of their uses, and each use has a stamp. Each
//!   shard publishes a lower bound for the stamp of its oldest entry. A thread that looks for a
//!   victim goes to the shard with the lowest bound and makes the bound exact. If the bound is
//!   still the lowest, the shard's oldest entry is the victim.
//! * On one thread the victim is exactly the least recently used entry. Threads take their stamps
//!   in blocks (`sync::stamp`), without asking each other. Between shards that several threads use,
//!   the order may therefore be wrong for about the latest hundred uses.

use super::cache_shard::{CacheShard, Map};
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

/// The entries of one shard in all three caches.
struct Slabs {
    groups: Slab<Arc<Key>, Group>,
    events: Slab<Arc<Key>, Seen>,
    budgets: Slab<BudgetKey, Bucket>,
}

pub(super) type EventCache<'a> = CacheShard<'a, Arc<Key>, Seen>;

/// One shard's part of all three caches.
pub(super) struct Shard<'a> {
    pub(super) groups: CacheShard<'a, Arc<Key>, Group>,
    pub(super) events: EventCache<'a>,
    pub(super) budgets: CacheShard<'a, BudgetKey, Bucket>,
}

/// The keys of one cache, its capacity, and the bounds that lead to its oldest entries.
struct Bounded<K> {
    map: Map<K>,
    capacity: usize,
    len: CachePadded<AtomicUsize>,
    evicted: AtomicU64,
    bounds: Box<[AtomicU64]>,
}

impl Caches {
    pub(super) fn new(capacity: usize) -> Self {
        // The system seeds the hasher, because the names of objects come from outside.
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

    /// Runs `work` on the shard of `hash`, under the shard's lock. `work` must be short, and call
    /// no code of the user's. If `work` adds entries to a full cache, old entries are removed
    /// before this returns.
    pub(super) fn with<R>(&self, hash: u64, work: impl FnOnce(&mut Shard<'_>) -> R) -> R {
        let index = shard_of(hash);
        let (result, [groups, events, budgets]) = {
            let mut slabs = self.shards[index].lock();
            // Taken under the lock. With a stamp from before the wait for the lock, a later use in
            // this shard could have a much lower number than an earlier one.
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

    /// Returns how many entries were forgotten.
    pub(super) fn evicted(&self) -> u64 {
        // Relaxed: counts.
        let Self { groups, events, budgets, .. } = self;
        [&groups.evicted, &events.evicted, &budgets.evicted]
            .iter()
            .map(|evicted| evicted.load(Ordering::Relaxed))
            .sum()
    }

    /// Removes the oldest entries if there are too many, at most one for each that was added.
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
        // While only one thread uses the cache, it looks at every shard at most once. Other threads
        // may use entries faster than this one looks at them. After the last look this thread
        // therefore removes an entry even if it was used a moment ago.
        let mut looks = 2 * SHARDS;
        loop {
            let Some((index, runner_up)) = cache.lowest() else {
                // The entry that this thread must remove is still in some shard. `lowest` reads one
                // shard's bound after the other, and other threads emptied the shards ahead of it
                // while they filled the ones behind it.
                thread::yield_now();
                continue;
            };
            looks = looks.saturating_sub(1);
            // The entry is dropped after the lock is released.
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

    /// Returns one shard's part. `slab` is the locked slab of the shard with this number.
    fn part<'a, V>(&'a self, index: usize, slab: &'a mut Slab<K, V>, stamp: u64) -> CacheShard<'a, K, V> {
        CacheShard { map: &self.map, index, slab, stamp, added: 0 }
    }

    /// Counts the entries that were added, and returns their number. The caller holds the shard's
    /// lock.
    fn added<V>(&self, part: &CacheShard<'_, K, V>) -> usize {
        if part.added > 0 {
            // A bound that was published for other entries is still a lower bound.
            // Relaxed: only a thread that holds the shard's lock writes it, and the caller holds
            // that lock.
            if self.bounds[part.index].load(Ordering::Relaxed) == NEVER {
                self.publish(part);
            }
            // Release: pairs with the Acquire in `take_surplus`, so that a thread that counts this
            // entry also sees the bound of its shard.
            self.len.fetch_add(part.added, Ordering::Release);
        }
        part.added
    }

    /// Publishes the bound of a shard. The caller holds the shard's lock, so bounds are published
    /// in their order.
    fn publish<V>(&self, part: &CacheShard<'_, K, V>) {
        // Relaxed: an old bound is a lower one, and only costs a look at the shard. The Release in
        // `added` publishes a new entry's bound.
        self.bounds[part.index].store(part.slab.oldest_use(), Ordering::Relaxed);
    }

    /// Takes one entry out of `len` if there are too many. Returns whether it did. If so, this
    /// thread must remove an entry from a shard.
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

    /// Returns the shard with the lowest bound, and the lowest bound of the others. Returns `None`
    /// if it finds no shard with an entry.
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
