//! The memory of a correlator: three bounded caches in one sharded map.
//!
//! The map leads from each base to the entries of all three caches there. A decision therefore
//! takes the lock of one shard once, and two threads meet only if their objects share one of the
//! [`SHARDS`]. Which entries are forgotten, [`room`](super::room) says.
//!
//! Threads whose objects share a shard wait for each other there, and in the stripes if they share
//! one or evict entries. Lock order: `Caches::map` before `Room::stripes`. No thread holds the
//! locks of two shards, or of two stripes. No threads therefore wait in a circle.

use super::base::{Base, BaseRef};
use super::few::Few;
use super::key::{Key, KeyRef, are, copied};
use super::room::{BUDGETS, CACHES, EVENTS, GROUPS, Mark, Room, Taken, Uses, Victim};
use super::{aggregator::Group, observer::Seen, spam_filter::Bucket};
use crate::record::event::Text;
use crate::sync::{Arc, DashMap, SharedValue, stamp};

/// The number of shards. They are enough for two threads seldom to meet.
const SHARDS: usize = 128;

/// The number of entries that one decision spares because threads of other stripes have used them.
const SPARES: usize = 16;

pub(super) struct Caches {
    /// The entries of each base, by the base's hash. The cache reaches the map only through its
    /// shards, and compares the bases itself. Two bases with one hash are two entries of the map.
    map: DashMap<u64, Box<Entries>, ahash::RandomState>,
    room: Room,
}

/// The entries of one base in all three caches.
struct Entries {
    base: Base,
    budgets: Few<Bucket, BUDGETS>,
    groups: Few<GroupEntry, GROUPS>,
    events: Few<EventEntry, EVENTS>,
}

struct GroupEntry {
    fields: [Text; 3],
    group: Group,
}

pub(super) struct EventEntry {
    pub(super) key: Arc<Key>,
    pub(super) seen: Seen,
}

/// The entries of one base, for a caller that holds the lock of their shard.
pub(super) struct Turn<'a> {
    entries: &'a mut Entries,
    uses: Uses<'a>,
}

/// An entry of the map.
type Slot = (u64, SharedValue<Box<Entries>>);

/// The entries that a thread has added to the caches and has not made room for.
struct Debt {
    owed: [usize; CACHES],
    victims: [Option<Victim>; CACHES],
    /// The stamp of the uses that added the entries.
    now: u64,
}

impl Caches {
    pub(super) fn new(capacity: usize) -> Self {
        // The system seeds the hasher, because the names of objects come from outside.
        let hasher = ahash::RandomState::new();
        Self { map: DashMap::with_hasher_and_shard_amount(hasher, SHARDS), room: Room::new(capacity) }
    }

    /// Returns the hasher of all keys.
    pub(super) fn hasher(&self) -> &ahash::RandomState {
        self.map.hasher()
    }

    /// Runs `work` on the entries of a base, under the lock of its shard. `work` must be short, and
    /// call no code of the user's. If `work` adds entries to a full cache, old entries are removed
    /// before this returns. Returns how many they were, too.
    pub(super) fn with<R>(
        &self,
        hash: u64,
        base: BaseRef<'_>,
        work: impl FnOnce(&mut Turn<'_>) -> R,
    ) -> (R, u64) {
        let (result, debt) = {
            let mut table = self.map.shards()[self.map.determine_shard(hash as usize)].write();
            let mut stripe = self.room.own();
            // Taken under the lock. With a stamp from before the wait for the lock, a later use
            // could have a much lower number than an earlier one.
            let uses = Uses { stripe: &mut stripe, base: hash, stamp: stamp(), added: [0; CACHES] };
            let same = |(key, entries): &Slot| *key == hash && base.is(&entries.get().base);
            if let Some((_, entries)) = table.get_mut(hash, same) {
                Turn { entries: entries.get_mut(), uses }.run(work)
            } else {
                let mut entries = Box::new(Entries::of(base.to_base()));
                let answer = Turn { entries: &mut entries, uses }.run(work);
                if !entries.is_empty() {
                    table.insert_entry(hash, (hash, SharedValue::new(entries)), |(key, _)| *key);
                }
                answer
            }
        };
        let forgotten = if debt.owed == [0; CACHES] { 0 } else { self.make_room(debt) };
        (result, forgotten)
    }

    /// Removes the oldest entries until there is room for those that were added. Returns how many
    /// they were.
    fn make_room(&self, mut debt: Debt) -> u64 {
        let (mut forgotten, mut spares) = (0, SPARES);
        while let Some(cache) = (0..CACHES).find(|&cache| debt.owed[cache] > 0) {
            if debt.victims[cache].is_none() {
                debt.victims[cache] = self.room.settle(cache, &mut debt.owed[cache], debt.now);
            }
            if let Some(victim) = debt.victims[cache].take() {
                forgotten += self.forget(&victim, &mut debt, &mut spares);
            }
        }
        forgotten
    }

    /// Removes a victim, and those of other caches that are at its base, if they have not been used
    /// since their turn came. Returns how many were removed.
    fn forget(&self, victim: &Victim, debt: &mut Debt, spares: &mut usize) -> u64 {
        let hash = victim.base;
        let mut table = self.map.shards()[self.map.determine_shard(hash as usize)].write();
        let is_there = |(key, entries): &Slot| *key == hash && entries.get().mark(victim).is_some();
        let Some((_, entries)) = table.get_mut(hash, is_there) else { return 0 };
        let entries = entries.get_mut();
        let mut victims = [None; CACHES];
        for (mine, other) in victims.iter_mut().zip(&mut debt.victims) {
            *mine = other.take_if(|other| other.is_beside(victim));
        }
        victims[victim.cache] = Some(*victim);
        let taken = {
            let mut stripe = self.room.stripe(victim.stripe);
            victims.map(|victim| {
                let victim = victim?;
                Some((victim, stripe.take(&victim, entries.mark(&victim)?)))
            })
        };
        let mut forgotten = 0;
        for (victim, taken) in taken.iter().flatten() {
            match (taken, entries.mark_mut(victim)) {
                (Taken::No, _) => {}
                (Taken::Used, Some(mark)) if *spares > 0 => {
                    *spares -= 1;
                    self.room.own().adopt(victim, mark);
                }
                _ => {
                    entries.remove(victim);
                    debt.owed[victim.cache] -= 1;
                    forgotten += 1;
                }
            }
        }
        if entries.is_empty() {
            table.remove_entry(hash, |(key, entries)| *key == hash && entries.get().is_empty());
        }
        forgotten
    }
}

impl Entries {
    fn of(base: Base) -> Self {
        Self { base, budgets: Few::default(), groups: Few::default(), events: Few::default() }
    }

    fn is_empty(&self) -> bool {
        self.budgets.is_empty() && self.groups.is_empty() && self.events.is_empty()
    }

    fn mark(&self, victim: &Victim) -> Option<&Mark> {
        match victim.cache {
            BUDGETS => self.budgets.mark(victim),
            GROUPS => self.groups.mark(victim),
            _ => self.events.mark(victim),
        }
    }

    fn mark_mut(&mut self, victim: &Victim) -> Option<&mut Mark> {
        match victim.cache {
            BUDGETS => self.budgets.mark_mut(victim),
            GROUPS => self.groups.mark_mut(victim),
            _ => self.events.mark_mut(victim),
        }
    }

    fn remove(&mut self, victim: &Victim) {
        match victim.cache {
            BUDGETS => self.budgets.remove(victim),
            GROUPS => self.groups.remove(victim),
            _ => self.events.remove(victim),
        }
    }
}

impl Turn<'_> {
    /// Runs `work`, and takes the room that the thread's stripe has for what `work` adds.
    fn run<R>(mut self, work: impl FnOnce(&mut Self) -> R) -> (R, Debt) {
        let result = work(&mut self);
        let Uses { stripe, stamp: now, added: mut owed, .. } = self.uses;
        let mut victims = [None; CACHES];
        for (cache, (victim, owed)) in victims.iter_mut().zip(&mut owed).enumerate() {
            if *owed > 0 {
                *victim = stripe.settle(cache, owed, now);
            }
        }
        (result, Debt { owed, victims, now })
    }

    pub(super) fn bucket(&mut self, make: impl FnOnce() -> Bucket) -> &mut Bucket {
        self.entries.budgets.entry(self.uses.base, &mut self.uses, |_| true, make)
    }

    pub(super) fn group(&mut self, key: KeyRef<'_>, make: impl FnOnce() -> Group) -> &mut Group {
        let is = |entry: &GroupEntry| are(&entry.fields, key.fields);
        let make = || GroupEntry { fields: copied(key.fields), group: make() };
        &mut self.entries.groups.entry(key.hash, &mut self.uses, is, make).group
    }

    /// Returns the entry of an event. If it is missing, it is made, with a key of its own.
    pub(super) fn event(&mut self, key: KeyRef<'_>) -> &mut EventEntry {
        let Entries { base, events, .. } = &mut *self.entries;
        let hash = self.uses.base;
        let make = || EventEntry { key: key.to_key(hash, base), seen: Seen::nothing() };
        events.entry(key.hash, &mut self.uses, |entry| key.is(&entry.key), make)
    }

    /// Returns the entry of a key that exists already. If it is missing, it is made with this key.
    pub(super) fn event_of(&mut self, key: &Arc<Key>) -> &mut Seen {
        let make = || EventEntry { key: key.clone(), seen: Seen::nothing() };
        let is = |entry: &EventEntry| is_same(key, &entry.key);
        &mut self.entries.events.entry(key.hash, &mut self.uses, is, make).seen
    }

    /// Returns the entry of a key if there is one.
    pub(super) fn find_event(&mut self, key: &Arc<Key>) -> Option<&mut Seen> {
        let is = |entry: &EventEntry| is_same(key, &entry.key);
        Some(&mut self.entries.events.get(key.hash, &mut self.uses, is)?.seen)
    }
}

fn is_same(key: &Arc<Key>, other: &Arc<Key>) -> bool {
    Arc::ptr_eq(key, other) || key == other
}
