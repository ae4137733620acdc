//! The writes of one key, and the order in which the writes of one group are sent.

use std::collections::{BTreeSet, VecDeque};
use std::ops::Bound;
use std::time::Duration;

use super::super::write::{KeyIndex, Write, WriteKey};
use super::holds::Hold;
use crate::record::event::{Event, Text};

/// A write's offset, which determines the write's position in the order, and the index of the
/// write's key.
pub(super) type Entry = (u64, KeyIndex);

/// Indicates that there is no next write of the same key.
pub(super) const NOWHERE: KeyIndex = KeyIndex::MAX;

/// Limits the number of bytes that a pending write needs in addition to its event.
const _: () = assert!(size_of::<KeyState>() <= size_of::<Event>() + 160);

/// A key with its writes.
pub(super) struct KeyState {
    /// `None` only if this entry is free.
    pub(super) key: Option<WriteKey>,
    /// The name by which the correlator knows the stored event.
    pub(super) name: Text,
    /// The group of the stored event.
    pub(super) group: GroupIndex,
    /// The newest state that has not been given to the sink.
    pub(super) pending: Option<Write>,
    /// The time of the pending write's next attempt. `None` if the write is not waiting for a
    /// retry.
    pub(super) due: Option<Duration>,
    /// Whether the sink is processing a write of this key.
    pub(super) is_sent: bool,
    /// The index of the next write of the same key. This field is used only with `WriteOrder::Bus`,
    /// where a key's writes end sequentially, so the index still belongs to the next write.
    pub(super) next: KeyIndex,
    /// `None` if no write was held, and no write has to be held.
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

/// The index of a group in the list of groups.
pub(in super::super) type GroupIndex = u32;

/// The ready writes of one group, which are sent in the order of their offsets.
#[derive(Default)]
pub(super) struct Lane {
    /// The writes in the order in which they became pending. An entry is stale if its write has a
    /// different offset or is not ready.
    pub(super) new: VecDeque<Entry>,
    /// The writes that have been put back, and the writes of older events.
    pub(super) again: BTreeSet<Entry>,
    /// The last probe.
    probed: Entry,
}

impl Lane {
    /// Adds a ready write.
    pub(super) fn push(&mut self, entry: Entry) {
        // A write that was held, either by a series or as a pending write, is older than the writes
        // that have arrived since.
        if self.new.back().is_some_and(|last| *last > entry) {
            self.again.insert(entry);
        } else {
            self.new.push_back(entry);
        }
    }

    /// Removes a write that is being taken.
    pub(super) fn remove(&mut self, entry: Entry) {
        // Unless the entry is at the front of `new`, it stays in that list and is now stale. A
        // write that has been put back may have the same entry as an earlier write, so both lists
        // are checked.
        if self.new.front() == Some(&entry) {
            self.new.pop_front();
        }
        self.again.remove(&entry);
    }

    /// Returns the write that is sent next, or `None` if no write is ready.
    pub(super) fn next(&mut self, keys: &[KeyState]) -> Option<Entry> {
        self.next_new(keys).into_iter().chain(self.again.first().copied()).min()
    }

    /// Returns the write that is sent to find out whether the store is serving the group again. The
    /// probe is a new write or, if there is no new write, a write that has been put back. If
    /// possible, each call returns a different write.
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
