//! What a correlator remembers: three bounded caches, cut into shards for many threads.
//!
//! A shard holds a part of all three caches under one lock, and an event's own keys all lie in one shard, the one of its
//! source, object and type. So a decision takes one lock, for its own time; two threads meet only when their objects
//! share one of the [`SHARDS`].
//!
//! The bounds hold across shards, and so does the order of who is forgotten:
//!
//! * Each cache has its `len`. Who has added an entry looks, with no lock held, whether there are too many; if so, takes
//!   the surplus out of `len`, and then an entry out of a shard. So a cache holds at most `capacity` entries, and one more
//!   for each thread that is between the two.
//! * Each shard publishes a lower bound for the last use of its oldest entry. Who looks for a victim goes to the shard
//!   with the lowest bound and has it made exact; if it is still the lowest, that is the one.
//! * From one thread the entry that goes is exactly the least recently used one. Threads number their uses in blocks,
//!   without asking each other (`sync::stamp`), so between threads the order is right but for the latest hundred uses.

use super::cache::{Cache, NEVER};
use super::key::{BudgetKey, Key};
use super::{aggregator::Group, observer::Seen, spam_filter::Bucket};
use crate::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use crate::sync::{Arc, CachePadded, Mutex};

/// Enough for two threads seldom to meet, few enough to look through for the oldest entry.
const SHARDS: usize = 32;

pub(super) struct Memory {
    shards: Box<[CachePadded<Mutex<Shard>>]>,
    groups: Limit,
    events: Limit,
    budgets: Limit,
}

pub(super) type Events = Cache<Arc<Key>, Seen>;

pub(super) struct Shard {
    pub(super) groups: Cache<Arc<Key>, Group>,
    pub(super) events: Events,
    pub(super) budgets: Cache<BudgetKey, Bucket>,
}

/// The bound of one cache, and where its oldest entries are.
struct Limit {
    capacity: usize,
    len: CachePadded<AtomicUsize>,
    evicted: AtomicU64,
    bounds: Box<[AtomicU64]>,
}

/// How many new entries the caches got.
#[derive(Clone, Copy, Default)]
pub(super) struct Added {
    pub(super) groups: usize,
    pub(super) events: usize,
    pub(super) budgets: usize,
}

impl Memory {
    pub(super) fn new(capacity: usize) -> Self {
        let shard = || Shard { groups: Cache::new(), events: Cache::new(), budgets: Cache::new() };
        Self {
            shards: (0..SHARDS).map(|_| CachePadded::new(Mutex::new(shard()))).collect(),
            groups: Limit::new(capacity),
            events: Limit::new(capacity),
            budgets: Limit::new(capacity),
        }
    }

    /// Works on the shard of `place`, a hash. The work must be short, and call nothing of the user's. What it adds makes
    /// old entries go before this returns.
    pub(super) fn with<R>(&self, place: u64, work: impl FnOnce(&mut Shard, &mut Added) -> R) -> R {
        let mut added = Added::default();
        // The table takes the hash's other ends.
        let index = (place >> 40) as usize % SHARDS;
        let result = {
            let mut shard = self.shards[index].lock();
            let result = work(&mut shard, &mut added);
            self.groups.added(index, &shard.groups, added.groups);
            self.events.added(index, &shard.events, added.events);
            self.budgets.added(index, &shard.budgets, added.budgets);
            result
        };
        self.make_room(&self.groups, added.groups, |shard| &mut shard.groups);
        self.make_room(&self.events, added.events, |shard| &mut shard.events);
        self.make_room(&self.budgets, added.budgets, |shard| &mut shard.budgets);
        result
    }

    /// How many entries were forgotten.
    pub(super) fn evicted(&self) -> u64 {
        [&self.groups, &self.events, &self.budgets]
            .iter()
            .map(|limit| limit.evicted.load(Ordering::Relaxed))
            .sum()
    }

    /// Forgets the oldest entries if there are too many, one for each that was added.
    fn make_room<K, V>(&self, limit: &Limit, added: usize, cache: fn(&mut Shard) -> &mut Cache<K, V>) {
        for _ in 0..added {
            self.forget_one(limit, cache);
        }
    }

    fn forget_one<K, V>(&self, limit: &Limit, cache: fn(&mut Shard) -> &mut Cache<K, V>) {
        if !limit.take_surplus() {
            return;
        }
        // From one thread every shard is looked at once at most. Others may use entries faster than they are looked at;
        // then one goes that has been used a moment ago.
        let mut looks = 2 * SHARDS;
        loop {
            let Some((index, runner_up)) = limit.lowest() else { return limit.put_back() };
            let mut shard = self.shards[index].lock();
            let oldest = cache(&mut shard).oldest();
            looks = looks.saturating_sub(1);
            if oldest <= runner_up || looks == 0 {
                let is_forgotten = cache(&mut shard).forget_oldest();
                limit.publish(index, cache(&mut shard));
                if is_forgotten {
                    // Relaxed: nothing is read on the strength of a counter.
                    limit.evicted.fetch_add(1, Ordering::Relaxed);
                    return;
                }
            } else {
                limit.publish(index, cache(&mut shard));
            }
        }
    }
}

impl Limit {
    fn new(capacity: usize) -> Self {
        Self {
            capacity,
            len: CachePadded::new(AtomicUsize::new(0)),
            evicted: AtomicU64::new(0),
            bounds: (0..SHARDS).map(|_| AtomicU64::new(NEVER)).collect(),
        }
    }

    /// Called under the shard's lock.
    fn added<K, V>(&self, index: usize, cache: &Cache<K, V>, count: usize) {
        if count > 0 {
            self.publish(index, cache);
            // Release: who counts this entry also sees the bound of its shard.
            self.len.fetch_add(count, Ordering::Release);
        }
    }

    /// Called under the shard's lock, so that bounds are published in their order.
    fn publish<K, V>(&self, index: usize, cache: &Cache<K, V>) {
        let bound = cache.bound();
        if self.bounds[index].load(Ordering::Relaxed) != bound {
            self.bounds[index].store(bound, Ordering::Relaxed);
        }
    }

    /// Whether there is an entry too many, which this thread is to take out.
    fn take_surplus(&self) -> bool {
        let mut len = self.len.load(Ordering::Acquire);
        while len > self.capacity {
            match self.len.compare_exchange_weak(len, len - 1, Ordering::Acquire, Ordering::Acquire) {
                Ok(_) => return true,
                Err(found) => len = found,
            }
        }
        false
    }

    /// Nothing was found to take out, because others had it first: it is in `len` again.
    fn put_back(&self) {
        self.len.fetch_add(1, Ordering::Release);
    }

    /// The shard with the lowest bound, and the lowest of the others.
    fn lowest(&self) -> Option<(usize, u64)> {
        let (mut first, mut second, mut index) = (NEVER, NEVER, None);
        for (i, bound) in self.bounds.iter().enumerate() {
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
