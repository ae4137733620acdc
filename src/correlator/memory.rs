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
use super::key::{Base, BaseFields, Key};
use super::{aggregator::Group, observer::Seen, spam_filter::Bucket};
use crate::event::Text;
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
    pub(super) counts: Counts,
}

pub(super) enum BudgetKey {
    Base(Arc<Base>),
    Custom(Text),
}

impl BudgetKey {
    pub(super) fn base(&self) -> Option<&Arc<Base>> {
        match self {
            Self::Base(base) => Some(base),
            Self::Custom(_) => None,
        }
    }

    pub(super) fn is_base(&self, fields: &BaseFields<'_>) -> bool {
        self.base().is_some_and(|base| base.is(fields))
    }

    pub(super) fn is_custom(&self, text: &Text) -> bool {
        matches!(self, Self::Custom(custom) if custom == text)
    }
}

/// What was decided in a shard.
#[derive(Default)]
pub(super) struct Counts {
    pub(super) created: u64,
    pub(super) updated: u64,
    pub(super) aggregated: u64,
    pub(super) filtered: u64,
    pub(super) evicted: u64,
}

impl Counts {
    pub(super) fn decided(&mut self, is_accepted: bool, is_repeat: bool) {
        *match (is_accepted, is_repeat) {
            (false, _) => &mut self.filtered,
            (true, true) => &mut self.updated,
            (true, false) => &mut self.created,
        } += 1;
    }
}

/// The bound of one cache, and where its oldest entries are.
struct Limit {
    capacity: usize,
    len: CachePadded<AtomicUsize>,
    bounds: Box<[AtomicU64]>,
}

/// Which caches got a new entry.
#[derive(Clone, Copy, Default)]
pub(super) struct Added {
    pub(super) group: bool,
    pub(super) event: bool,
    pub(super) budget: bool,
}

impl Memory {
    pub(super) fn new(capacity: usize) -> Self {
        let shard = || Shard {
            groups: Cache::new(),
            events: Cache::new(),
            budgets: Cache::new(),
            counts: Counts::default(),
        };
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
            if added.group {
                self.groups.added(index, &shard.groups);
            }
            if added.event {
                self.events.added(index, &shard.events);
            }
            if added.budget {
                self.budgets.added(index, &shard.budgets);
            }
            result
        };
        if added.group {
            self.make_room(&self.groups, |shard| &mut shard.groups);
        }
        if added.event {
            self.make_room(&self.events, |shard| &mut shard.events);
        }
        if added.budget {
            self.make_room(&self.budgets, |shard| &mut shard.budgets);
        }
        result
    }

    pub(super) fn each_shard(&self, mut look: impl FnMut(&Shard)) {
        self.shards.iter().for_each(|shard| look(&shard.lock()));
    }

    /// Forgets the oldest entry if there is one too many.
    fn make_room<K, V>(&self, limit: &Limit, cache: impl Fn(&mut Shard) -> &mut Cache<K, V>) {
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
                    shard.counts.evicted += 1;
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
            bounds: (0..SHARDS).map(|_| AtomicU64::new(NEVER)).collect(),
        }
    }

    /// Called under the shard's lock.
    fn added<K, V>(&self, index: usize, cache: &Cache<K, V>) {
        self.publish(index, cache);
        // Release: who counts this entry also sees the bound of its shard.
        self.len.fetch_add(1, Ordering::Release);
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
