//! The entries of one cache at one base. Usually there is one.

use hashbrown::HashTable;
use hashbrown::hash_table::Entry;

use super::room::{Mark, Uses, Victim};

/// The entries of the cache with the number `CACHE` at one base. The first one lies in place.
pub(super) struct Few<V, const CACHE: usize> {
    first: Option<Slot<V>>,
    more: Option<Box<HashTable<Slot<V>>>>,
}

struct Slot<V> {
    hash: u64,
    mark: Mark,
    value: V,
}

impl<V, const CACHE: usize> Default for Few<V, CACHE> {
    fn default() -> Self {
        Self { first: None, more: None }
    }
}

impl<V, const CACHE: usize> Few<V, CACHE> {
    pub(super) fn is_empty(&self) -> bool {
        self.first.is_none() && self.more.is_none()
    }

    /// Returns an entry, and makes it the most recently used one. `make` makes the entry if there
    /// is none.
    pub(super) fn entry(
        &mut self,
        hash: u64,
        uses: &mut Uses<'_>,
        is: impl Fn(&V) -> bool,
        make: impl FnOnce() -> V,
    ) -> &mut V {
        let same = |slot: &Slot<V>| slot.hash == hash && is(&slot.value);
        if self.is_empty() || self.first.as_ref().is_some_and(same) {
            let slot = match &mut self.first {
                Some(slot) => {
                    uses.used(CACHE, &mut slot.mark);
                    slot
                }
                none => none.insert(Slot { hash, mark: uses.added(CACHE, hash), value: make() }),
            };
            return &mut slot.value;
        }
        let slot = match self.more.get_or_insert_default().entry(hash, same, |slot| slot.hash) {
            Entry::Occupied(slot) => {
                let slot = slot.into_mut();
                uses.used(CACHE, &mut slot.mark);
                slot
            }
            Entry::Vacant(vacant) => {
                vacant.insert(Slot { hash, mark: uses.added(CACHE, hash), value: make() }).into_mut()
            }
        };
        &mut slot.value
    }

    /// Returns an entry, and makes it the most recently used one. Returns `None` if there is no
    /// such entry.
    pub(super) fn get(&mut self, hash: u64, uses: &mut Uses<'_>, is: impl Fn(&V) -> bool) -> Option<&mut V> {
        let same = |slot: &Slot<V>| slot.hash == hash && is(&slot.value);
        let slot = match &mut self.first {
            Some(first) if same(first) => first,
            _ => self.more.as_mut()?.find_mut(hash, same)?,
        };
        uses.used(CACHE, &mut slot.mark);
        Some(&mut slot.value)
    }

    /// Returns the mark of a victim if it is here.
    pub(super) fn mark(&self, victim: &Victim) -> Option<&Mark> {
        let same = |slot: &&Slot<V>| slot.mark.is(victim);
        let in_more = || self.more.as_ref()?.find(victim.hash, |slot| slot.mark.is(victim));
        self.first.as_ref().filter(same).or_else(in_more).map(|slot| &slot.mark)
    }

    pub(super) fn mark_mut(&mut self, victim: &Victim) -> Option<&mut Mark> {
        let slot = match &mut self.first {
            Some(first) if first.mark.is(victim) => first,
            _ => self.more.as_mut()?.find_mut(victim.hash, |slot| slot.mark.is(victim))?,
        };
        Some(&mut slot.mark)
    }

    /// Removes a victim that is here.
    pub(super) fn remove(&mut self, victim: &Victim) {
        if self.first.as_ref().is_some_and(|first| first.mark.is(victim)) {
            self.first = None;
        } else if let Some(more) = &mut self.more {
            if let Ok(slot) = more.find_entry(victim.hash, |slot| slot.mark.is(victim)) {
                slot.remove();
            }
            if more.is_empty() {
                self.more = None;
            }
        }
    }
}
