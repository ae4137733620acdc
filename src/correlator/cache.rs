//! One shard's part of a bounded cache: entries, and who of them was used least recently.
//!
//! Each entry carries a stamp, the number of its last use. Who is oldest is known from a heap beside the table, which
//! holds every entry once, with a stamp that the entry had at some time: a lower bound, because stamps only grow. A
//! hit therefore writes its entry and nothing else. To find the oldest, look at the entry with the lowest bound: if that
//! is still its stamp, no other entry can be older; if it has been used since, put the bound right and look again.
//! Each such correction is paid for by a use, so the cost stays logarithmic for each use.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;

use hashbrown::HashTable;
use hashbrown::hash_table::Entry;

/// Beyond every stamp: the bound of a shard that has no entries.
pub(super) const NEVER: u64 = u64::MAX;

pub(super) struct Cache<K, V> {
    table: HashTable<Slot<K, V>>,
    /// For each entry the stamp that it is queued under, which no other entry has, and its hash, by which to find it.
    queue: BinaryHeap<Reverse<(u64, u64)>>,
}

struct Slot<K, V> {
    hash: u64,
    last_use: u64,
    queued: u64,
    key: K,
    value: V,
}

impl<K, V> Cache<K, V> {
    pub(super) fn new() -> Self {
        Self { table: HashTable::new(), queue: BinaryHeap::new() }
    }

    /// Uses an entry, made by `make` where there is none; and whether it was made. `stamp` must not have been used in
    /// this cache before.
    pub(super) fn entry(
        &mut self,
        hash: u64,
        stamp: u64,
        is: impl Fn(&K) -> bool,
        make: impl FnOnce() -> (K, V),
    ) -> (&K, &mut V, bool) {
        let same = |slot: &Slot<K, V>| slot.hash == hash && is(&slot.key);
        let (slot, is_new) = match self.table.entry(hash, same, |slot| slot.hash) {
            Entry::Occupied(found) => (found.into_mut(), false),
            Entry::Vacant(vacant) => {
                let (key, value) = make();
                self.queue.push(Reverse((stamp, hash)));
                let slot = Slot { hash, last_use: stamp, queued: stamp, key, value };
                (vacant.insert(slot).into_mut(), true)
            }
        };
        // Another thread with a later stamp may have been here first.
        slot.last_use = slot.last_use.max(stamp);
        (&slot.key, &mut slot.value, is_new)
    }

    /// No entry was used before this; the nearest lower bound that is known without looking.
    pub(super) fn bound(&self) -> u64 {
        self.queue.peek().map_or(NEVER, |Reverse((stamp, _))| *stamp)
    }

    /// Corrects bounds until the first is exact: the last use of the oldest entry.
    pub(super) fn oldest(&mut self) -> u64 {
        while let Some(mut top) = self.queue.peek_mut() {
            let Reverse((stamp, hash)) = *top;
            match self.table.find_mut(hash, |slot| slot.queued == stamp) {
                Some(slot) if slot.last_use == stamp => return stamp,
                Some(slot) => {
                    slot.queued = slot.last_use;
                    *top = Reverse((slot.last_use, hash));
                }
                // Never: the queue and the table hold the same entries.
                None => drop(PeekMut::pop(top)),
            }
        }
        NEVER
    }

    /// Forgets the entry whose bound is the first.
    pub(super) fn forget_oldest(&mut self) -> bool {
        let Some(Reverse((stamp, hash))) = self.queue.pop() else { return false };
        self.table.find_entry(hash, |slot| slot.queued == stamp).is_ok_and(|found| {
            drop(found.remove());
            true
        })
    }
}
