//! The writes of one key, and those of one group in the order in which they go out.

use std::collections::{BTreeSet, VecDeque};
use std::ops::Bound;
use std::time::Duration;

use super::super::write::{KeyIndex, Write, WriteKey};
use super::holds::Hold;
use crate::record::event::{Event, Text};

/// The place of a write in the order, and the place of its key.
pub(super) type Entry = (u64, KeyIndex);

/// No place: there is no next write of the same key.
pub(super) const NOWHERE: KeyIndex = KeyIndex::MAX;

/// A pending write takes at most this many bytes beside its event.
const _: () = assert!(size_of::<KeyState>() <= size_of::<Event>() + 160);

/// A key with its writes.
pub(super) struct KeyState {
    /// `None` only in a place without a key.
    pub(super) key: Option<WriteKey>,
    /// The name by which the correlator knows the stored event.
    pub(super) name: Text,
    /// The group of the stored event.
    pub(super) group: GroupIndex,
    /// The newest state that the sink has not been given.
    pub(super) pending: Option<Write>,
    /// The time of the pending write's next attempt, if it waits for that. `None` if it is ready.
    pub(super) due: Option<Duration>,
    /// Whether the sink has a write of this key.
    pub(super) is_sent: bool,
    /// The next write of the same key. Only in the order of the bus, in which the writes of a key
    /// end one after the other, so that the place is still that of the next write.
    pub(super) next: KeyIndex,
    /// `None` if nothing was held, and nothing has to be.
    pub(super) hold: Option<Box<Hold>>,
}

impl KeyState {
    /// Returns whether the key has no write.
    pub(super) fn is_idle(&self) -> bool {
        self.key.is_some() && self.pending.is_none() && !self.is_sent
    }

    pub(super) fn is_held(&self) -> bool {
        self.hold.as_ref().is_some_and(|hold| hold.until.is_some())
    }
}

/// The place of a group in the table.
pub(in super::super) type GroupIndex = u32;

/// The writes of one group that are ready. They go out in the order of their offsets.
#[derive(Default)]
pub(super) struct Lane {
    /// The writes that became pending one after the other. An entry that is out of date has another
    /// offset than its write, or its write is not ready.
    pub(super) new: VecDeque<Entry>,
    /// The writes that have been put back, and those of older events.
    pub(super) again: BTreeSet<Entry>,
    /// The last probe.
    probed: Entry,
}

impl Lane {
    /// Adds a write that is ready.
    pub(super) fn push(&mut self, entry: Entry) {
        // A write that was held, by a series or here, is older than what has come since.
        if self.new.back().is_some_and(|last| *last > entry) {
            self.again.insert(entry);
        } else {
            self.new.push_back(entry);
        }
    }

    /// Removes a write that is taken.
    pub(super) fn remove(&mut self, entry: Entry) {
        // Anywhere else than at the front, its entry is out of date from now on. A write that has
        // been put back may have the same entry as one before it, so both places are looked at.
        if self.new.front() == Some(&entry) {
            self.new.pop_front();
        }
        self.again.remove(&entry);
    }

    /// Returns the write that goes out next. Returns `None` if none is ready.
    pub(super) fn next(&mut self, keys: &[KeyState]) -> Option<Entry> {
        self.next_new(keys).into_iter().chain(self.again.first().copied()).min()
    }

    /// Returns a write that is to show whether the store serves the group again: a new one, or else
    /// one that has been put back, each time another one.
    pub(super) fn next_probe(&mut self, keys: &[KeyState]) -> Option<Entry> {
        let behind = (Bound::Excluded(self.probed), Bound::Unbounded);
        let again = self.again.range(behind).next().or(self.again.first()).copied();
        self.probed = self.next_new(keys).or(again)?;
        Some(self.probed)
    }

    fn next_new(&mut self, keys: &[KeyState]) -> Option<Entry> {
        while let Some(&(offset, at)) = self.new.front() {
            if is_ready(keys, offset, at) {
                return Some((offset, at));
            }
            self.new.pop_front();
        }
        None
    }
}

fn is_ready(keys: &[KeyState], offset: u64, at: KeyIndex) -> bool {
    let state = &keys[at as usize];
    let waits = state.due.is_some() || state.is_held() || state.is_sent;
    let write = state.pending.as_ref().filter(|_| !waits);
    write.is_some_and(|write| write.ticket.offset == offset)
}
