//! The room in the caches, and the order in which entries are forgotten to make room.
//!
//! All threads share this state. It lies in stripes, and each thread works in one of them. Two
//! threads therefore seldom touch each other's memory. Every stripe has a lock, and a thread reads
//! and writes nothing here without one:
//!
//! * A stripe knows the entries that its threads have added, in the order of their uses. A use by
//!   one of these threads moves an entry to the newest end. A thread of another stripe only leaves
//!   the stamp of its use in the entry ([`Mark`]). When the entry's turn to be forgotten comes, it
//!   is spared, and moves to the stripe of the thread that would have forgotten it.
//! * A stripe has a part of the room that no entry takes. Room that is not taken, and entries, are
//!   together always as many as the cache has room for, plus the entries that threads have added
//!   and not yet made room for.
//! * A thread that adds an entry takes room of its stripe, then half of another stripe's. If there
//!   is none, an entry is forgotten. That is the oldest one of the thread's own stripe, unless
//!   another stripe has a much older one. The thread looks at the other stripes for that only when
//!   what it found there last is no longer older than its own.
//!
//! While one thread uses the caches, one stripe has all entries, and the order is exact.

use std::ops::DerefMut;

use super::recency::{Node, Recency};
use crate::sync::{CachePadded, Mutex, thread_number};

/// The caches: their number, and the number of each.
pub(super) const CACHES: usize = 3;
pub(super) const BUDGETS: usize = 0;
pub(super) const GROUPS: usize = 1;
pub(super) const EVENTS: usize = 2;

/// The number of stripes. Threads beyond this number share them.
const STRIPES: usize = 32;

/// A thread forgets an entry of its own stripe, although another stripe has an older one, if the
/// older one's last use is longer ago by no more than one part in so many.
const SLACK: u64 = 8;

pub(super) struct Room {
    stripes: Box<[CachePadded<Mutex<Stripe>>]>,
}

pub(super) struct Stripe {
    number: usize,
    caches: [Part; CACHES],
}

/// One cache's part of a stripe.
#[derive(Default)]
struct Part {
    recency: Recency,
    /// The number of entries that may be added with none forgotten.
    free: usize,
    /// The last look at the other stripes. `None` if they may have room.
    others: Option<Others>,
}

/// A look at the other stripes. The stamps of a stripe's entries only become later, so these ones
/// stay lower bounds.
#[derive(Clone, Copy)]
struct Others {
    /// The stripe with the least recently used entry, and the stamp of that entry.
    stripe: usize,
    oldest: u64,
    /// The stamp of the least recently used entry of the rest.
    rest: u64,
}

/// An entry's own record of its place in the order.
pub(super) struct Mark {
    /// The stamp of the last use.
    stamp: u64,
    place: u32,
    stripe: u32,
}

/// The uses of entries at one base, all with one stamp.
pub(super) struct Uses<'a> {
    pub(super) stripe: &'a mut Stripe,
    pub(super) base: u64,
    pub(super) stamp: u64,
    /// The number of entries that were added to each cache.
    pub(super) added: [usize; CACHES],
}

/// An entry whose turn to be forgotten has come.
#[derive(Clone, Copy)]
pub(super) struct Victim {
    pub(super) cache: usize,
    pub(super) base: u64,
    pub(super) hash: u64,
    stamp: u64,
    place: u32,
    pub(super) stripe: usize,
}

impl Room {
    pub(super) fn new(capacity: usize) -> Self {
        let stripe = |number| {
            let free = if number == 0 { capacity } else { 0 };
            let caches = [(); CACHES].map(|()| Part { free, ..Part::default() });
            CachePadded::new(Mutex::new(Stripe { number, caches }))
        };
        Self { stripes: (0..STRIPES).map(stripe).collect() }
    }

    /// Locks the stripe of the calling thread.
    pub(super) fn own(&self) -> impl DerefMut<Target = Stripe> + '_ {
        self.stripes[thread_number() % STRIPES].lock()
    }

    /// Does what [`Stripe::settle`] does, with the room and the entries of all stripes. Returns
    /// `None` although entries are still `owed` only while another thread moves room or entries
    /// from one stripe to another, or has just evicted. The caller then tries again.
    pub(super) fn settle(&self, cache: usize, owed: &mut usize, now: u64) -> Option<Victim> {
        let mut own = self.own();
        let victim = own.settle(cache, owed, now);
        if victim.is_some() || *owed == 0 {
            return victim;
        }
        let (number, known) = (own.number, own.caches[cache].others);
        drop(own);
        let (free, others, oldest) = self.look(number, cache, known, now);
        let mut own = self.own();
        let part = &mut own.caches[cache];
        part.free += free;
        part.others = others;
        // The stamps of all entries of this stripe may be above the limit: a thread that shares the
        // stripe takes its stamps from a later block, and a spared entry keeps the stamp of another
        // thread. If the other stripes have nothing to evict either, the oldest entry of this
        // stripe is the victim. Without it the caller would try again forever.
        own.settle(cache, owed, now).or(oldest).or_else(|| own.oldest(cache)).filter(|_| *owed > 0)
    }

    /// Looks at the stripes except `own`. Takes half of the room of the first one that has some,
    /// and returns it. Otherwise returns what there is to know of these stripes, and their least
    /// recently used entry.
    fn look(
        &self,
        own: usize,
        cache: usize,
        known: Option<Others>,
        now: u64,
    ) -> (usize, Option<Others>, Option<Victim>) {
        if let Some(Others { stripe, rest, .. }) = known {
            // While one stripe has the oldest entries, a look at that one is enough.
            let oldest = self.stripes[stripe].lock().oldest(cache).filter(|victim| victim.stamp <= rest);
            if let Some(victim) = oldest {
                return (0, Some(Others { stripe, oldest: victim.stamp, rest }), oldest);
            }
        }
        // An entry that is added to another stripe later is used no earlier than now.
        let mut others = Others { stripe: own, oldest: now, rest: now };
        let mut oldest: Option<Victim> = None;
        for (_, stripe) in self.stripes.iter().enumerate().filter(|(number, _)| *number != own) {
            let mut stripe = stripe.lock();
            let free = &mut stripe.caches[cache].free;
            if *free > 0 {
                let taken = free.div_ceil(2);
                *free -= taken;
                return (taken, None, None);
            }
            let Some(victim) = stripe.oldest(cache) else { continue };
            if oldest.is_none_or(|oldest| victim.stamp < oldest.stamp) {
                others.rest = others.rest.min(others.oldest);
                others = Others { stripe: victim.stripe, oldest: victim.stamp.min(now), ..others };
                oldest = Some(victim);
            } else {
                others.rest = others.rest.min(victim.stamp);
            }
        }
        (0, Some(others), oldest)
    }

    /// Locks a stripe.
    pub(super) fn stripe(&self, number: usize) -> impl DerefMut<Target = Stripe> + '_ {
        self.stripes[number].lock()
    }
}

impl Stripe {
    /// Takes room for entries that were added to a cache, as many as are `owed`. If there is too
    /// little, returns the entry to forget for the next one. Returns `None` if another stripe may
    /// have room, or a much older entry.
    pub(super) fn settle(&mut self, cache: usize, owed: &mut usize, now: u64) -> Option<Victim> {
        let part = &mut self.caches[cache];
        let taken = part.free.min(*owed);
        part.free -= taken;
        *owed -= taken;
        let Others { oldest, .. } = part.others.filter(|_| *owed > 0)?;
        let limit = oldest + now.saturating_sub(oldest) / SLACK;
        self.oldest(cache).filter(|victim| victim.stamp <= limit)
    }

    /// Takes a victim out of the order. `mark` is its entry's, whose lock the caller holds.
    pub(super) fn take(&mut self, victim: &Victim, mark: &Mark) -> Taken {
        let recency = &mut self.caches[victim.cache].recency;
        if recency.node(victim.place).stamp != victim.stamp {
            return Taken::No;
        }
        recency.remove(victim.place);
        if mark.stamp == victim.stamp { Taken::Unused } else { Taken::Used }
    }

    /// Adds an entry to the order.
    fn add(&mut self, cache: usize, base: u64, hash: u64, stamp: u64) -> Mark {
        let place = self.caches[cache].recency.push(base, hash, stamp);
        Mark { stamp, place, stripe: self.number as u32 }
    }

    /// Adds an entry that was taken out of its order, although it was used.
    pub(super) fn adopt(&mut self, victim: &Victim, mark: &mut Mark) {
        *mark = self.add(victim.cache, victim.base, victim.hash, mark.stamp);
    }

    fn oldest(&self, cache: usize) -> Option<Victim> {
        let (place, Node { base, hash, stamp, .. }) = self.caches[cache].recency.oldest()?;
        Some(Victim { cache, base, hash, stamp, place, stripe: self.number })
    }
}

/// Whether an entry was taken out of the order.
pub(super) enum Taken {
    /// It was not, because a thread of its stripe has used it since its turn came.
    No,
    /// It was.
    Unused,
    /// It was, although a thread of another stripe has used it.
    Used,
}

impl Uses<'_> {
    /// Notes that an entry is used.
    pub(super) fn used(&mut self, cache: usize, mark: &mut Mark) {
        mark.stamp = self.stamp;
        if mark.stripe as usize == self.stripe.number {
            self.stripe.caches[cache].recency.touch(mark.place, self.stamp);
        }
    }

    /// Notes that an entry is added.
    pub(super) fn added(&mut self, cache: usize, hash: u64) -> Mark {
        self.added[cache] += 1;
        self.stripe.add(cache, self.base, hash, self.stamp)
    }
}

impl Victim {
    /// Returns whether another victim is of the same base and stripe.
    pub(super) fn is_beside(&self, other: &Self) -> bool {
        self.base == other.base && self.stripe == other.stripe
    }
}

impl Mark {
    /// Returns whether the entry of this mark is the victim.
    pub(super) fn is(&self, victim: &Victim) -> bool {
        self.place == victim.place && self.stripe as usize == victim.stripe
    }
}
