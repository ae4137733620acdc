//! A set for a small number of values, usually one.

use hashbrown::HashTable;
use hashbrown::hash_table::Entry;

/// A set of values that are looked up by their hashes. The first value is stored inline, without an
/// allocation.
pub(super) struct Few<T> {
    first: Option<(u64, T)>,
    more: Option<Box<HashTable<(u64, T)>>>,
}

impl<T> Default for Few<T> {
    fn default() -> Self {
        Self { first: None, more: None }
    }
}

impl<T> Few<T> {
    pub(super) fn len(&self) -> usize {
        usize::from(self.first.is_some()) + self.more.as_ref().map_or(0, |more| more.len())
    }

    /// Returns the value with this hash for which `is` returns true. If there is no such value,
    /// creates one with `make`.
    pub(super) fn get_or_insert_with(
        &mut self,
        hash: u64,
        is: impl Fn(&T) -> bool,
        make: impl FnOnce() -> T,
    ) -> &mut T {
        let same = |(other, value): &(u64, T)| *other == hash && is(value);
        if self.first.as_ref().map_or(self.more.is_none(), same) {
            return &mut self.first.get_or_insert_with(|| (hash, make())).1;
        }
        match self.more.get_or_insert_default().entry(hash, same, |(hash, _)| *hash) {
            Entry::Occupied(found) => &mut found.into_mut().1,
            Entry::Vacant(vacant) => &mut vacant.insert((hash, make())).into_mut().1,
        }
    }

    pub(super) fn get(&self, hash: u64, is: impl Fn(&T) -> bool) -> Option<&T> {
        let same = |(other, value): &(u64, T)| *other == hash && is(value);
        let in_more = || self.more.as_ref()?.find(hash, same);
        self.first.as_ref().filter(|first| same(first)).or_else(in_more).map(|(_, value)| value)
    }

    pub(super) fn get_mut(&mut self, hash: u64, is: impl Fn(&T) -> bool) -> Option<&mut T> {
        let same = |(other, value): &(u64, T)| *other == hash && is(value);
        match &mut self.first {
            Some(first) if same(first) => Some(&mut first.1),
            _ => Some(&mut self.more.as_mut()?.find_mut(hash, same)?.1),
        }
    }

    pub(super) fn remove(&mut self, hash: u64, is: impl Fn(&T) -> bool) {
        let same = |(other, value): &(u64, T)| *other == hash && is(value);
        if self.first.as_ref().is_some_and(same) {
            self.first = None;
        } else if let Some(more) = &mut self.more {
            if let Ok(found) = more.find_entry(hash, same) {
                found.remove();
            }
            if more.is_empty() {
                self.more = None;
            } else if more.len() < more.capacity() / 8 {
                // Without shrinking, a single value that stays in use would keep the memory of all
                // earlier values allocated.
                more.shrink_to(2 * more.len(), |(hash, _)| *hash);
            }
        }
    }
}
