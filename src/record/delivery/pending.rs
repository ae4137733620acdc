//! A recording's pending writes, which contain the states that the store does not have yet.
//!
//! A write contains the complete state of a stored event, including its count. Only the newest
//! state of each event therefore matters, and each key has at most one pending write. A later
//! decision for the key replaces the write's contents, wherever the write is:
//!
//! - The write is ready and waiting in a lane.
//! - The write is waiting for its next attempt.
//! - The write is waiting for another write of the same key, which the sink is processing.
//! - The write is held ([`hold`]).
//!
//! Each group of events has a lane, which holds the group's keys in the order in which they became
//! pending. The sink is given a key's next write only after it has responded to the previous write,
//! so the sink receives a key's writes sequentially, with increasing counts.
//!
//! With [`WriteOrder::Bus`], only held writes are replaced. One lane holds all writes in the order
//! of the events, and a write that is waiting for its next attempt blocks the lane.

mod groups;
mod hold;
mod holds;
mod lane;
mod sending;
mod slow;
mod under_way;

use std::collections::BTreeSet;
use std::mem::take;
use std::time::Duration;

use hashbrown::HashTable;

use super::write::{KeyIndex, Ticket, Write, WriteKey};
use crate::record::event::{Event, Text};
use crate::record::sink::{EventSink, WriteOrder};
use crate::sync::Arc;

use groups::Groups;
use holds::Holds;
use lane::{Entry, KeyState, NOWHERE};
use under_way::UnderWayList;

pub(super) use groups::{Places, Share, Trouble};
pub(super) use holds::Pace;
pub(super) use lane::GroupIndex;

/// The number of keys for which memory stays allocated while nothing is pending.
const KEPT: usize = 1024;

#[derive(Default)]
pub(super) struct PendingWrites {
    order: WriteOrder,
    keys: Vec<KeyState>,
    /// The indices of the entries in `keys` that have no key.
    free: Vec<KeyIndex>,
    /// The index of each key's newest write.
    by_key: HashTable<KeyIndex>,
    pub(super) groups: Groups,
    under_way: UnderWayList,
    /// The writes that are waiting for their next attempt.
    waiting: BTreeSet<Entry>,
    /// The writes in `waiting`, ordered by the time at which they are due.
    due: BTreeSet<(Duration, KeyIndex)>,
    /// The last probe. If no write is ready, the next waiting write after the last probe becomes
    /// the next probe.
    probed: Entry,
    share: Share,
    /// The number of writes in the lanes.
    ready: usize,
    /// The number of keys without a write.
    idle: usize,
    holds: Holds,
}

impl PendingWrites {
    /// Creates a recording's pending writes. `sink` names the groups, if there are any groups.
    pub(super) fn new(order: WriteOrder, sink: Option<Arc<dyn EventSink>>, share: Share, pace: Pace) -> Self {
        let holds = Holds { pace, ..Holds::default() };
        Self { order, share, groups: Groups::new(sink), holds, ..Self::default() }
    }

    /// Returns whether no write is pending or in progress.
    pub(super) fn is_empty(&self) -> bool {
        self.free.len() + self.idle == self.keys.len()
    }

    /// Returns the number of writes that the store does not have yet. This number includes the
    /// writes that the sink is processing, but not the held writes.
    pub(super) fn len(&self) -> usize {
        self.keys.len() - self.free.len() - self.idle - self.holds.held.len()
    }

    /// Frees the memory of many keys once no key is left, for example after an outage.
    pub(super) fn tidy(&mut self) {
        if self.free.len() == self.keys.len() && self.keys.capacity() > KEPT {
            (self.keys, self.free, self.by_key) = (Vec::new(), Vec::new(), HashTable::new());
            self.under_way = UnderWayList::default();
            // Stale entries would contain indices that no longer exist.
            self.groups.clear_lanes(None);
        }
    }

    /// Returns whether there are writes that may be given to the sink now.
    pub(super) fn has_ready(&self) -> bool {
        // With `WriteOrder::Bus`, a write that is waiting for its next attempt blocks all other
        // writes.
        self.ready > 0 && (self.order == WriteOrder::PerKey || self.waiting.is_empty())
    }

    /// Returns the number of writes that may be given to the sink now.
    pub(super) fn ready(&self) -> usize {
        self.ready
    }

    /// Returns whether there are writes that may be given to the sink, now or after a pause.
    pub(super) fn has_any(&self) -> bool {
        self.ready > 0 || !self.waiting.is_empty()
    }

    /// Returns the key, and the name by which the correlator knows the stored event.
    pub(super) fn key(&self, at: KeyIndex) -> Option<(&WriteKey, &Text)> {
        let KeyState { key, name, .. } = &self.keys[at as usize];
        Some((key.as_ref()?, name))
    }

    /// Returns the first offset whose event has no outcome yet, or `None` if all events have an
    /// outcome.
    pub(super) fn offset(&mut self) -> Option<u64> {
        let waiting = self.waiting.first().map(|(offset, _)| *offset);
        let under_way = self.under_way.first_offset();
        let first = waiting.into_iter().chain(self.holds.first_event()).chain(under_way).min();
        let ready = self.groups.first_write(&self.keys).map(|(offset, _)| offset);
        ready.into_iter().chain(first).min()
    }

    // ── new writes ──

    /// Adds a new write. Returns the number of events that no longer take up queue capacity,
    /// because an earlier write covers these events, or because the new write is held.
    ///
    /// # Errors
    ///
    /// Returns the key's index and the write if the group has reached its share.
    pub(super) fn admit(
        &mut self,
        key: WriteKey,
        event: &mut Event,
        ticket: Ticket,
        now: Duration,
    ) -> Result<u64, (KeyIndex, Box<Write>)> {
        let at = self.index_of(key, event, &ticket, now);
        let state = &self.keys[at as usize];
        // If this write were refused, the success of an earlier write could not make up for the
        // refusal, because the earlier write does not include this write's count.
        let has_earlier = state.pending.is_some() || state.is_sent;
        if !has_earlier && !self.groups.has_room(state.group, self.share, self.len() as u64) {
            return Err((at, Box::new(Write { event: take(event), ticket })));
        }
        Ok(self.pass(at, event, ticket, now))
    }

    /// Removes a key that was added for a refused write.
    pub(super) fn dismiss(&mut self, at: KeyIndex) {
        if self.keys[at as usize].is_idle() && !self.is_quiet(at) {
            self.remove_idle(at);
        }
    }

    /// Returns the index of the key to which the write belongs.
    fn index_of(&mut self, key: WriteKey, event: &Event, ticket: &Ticket, now: Duration) -> KeyIndex {
        let keys = &self.keys;
        let found = self.by_key.find(key.hash(), |&at| keys[at as usize].key.as_ref() == Some(&key)).copied();
        let Some(at) = found else { return self.add(key, event, None) };
        let state = &self.keys[at as usize];
        let is_same = event.metadata.name == state.name && ticket.is_update;
        if is_same && (self.order == WriteOrder::PerKey || state.is_held() || state.is_idle()) {
            return at;
        }
        // The new write stays separate, either because of the write order, or because the
        // correlator has evicted the stored event and started another event. A held count is
        // written first.
        self.release(at, now);
        if self.keys[at as usize].is_idle() {
            self.remove_idle(at);
            return self.add(key, event, None);
        }
        self.unlist(at);
        self.add(key, event, Some(at))
    }

    /// Adds a key. `earlier` is the index of the same key's previous writes, if any.
    fn add(&mut self, key: WriteKey, event: &Event, earlier: Option<KeyIndex>) -> KeyIndex {
        let hash = key.hash();
        let name = event.metadata.name.clone();
        let (key, group, pending, due) = (Some(key), self.groups.of(event), None, None);
        self.groups.add_key(group);
        let state = KeyState { key, name, group, pending, due, is_sent: false, next: NOWHERE, hold: None };
        let at = self.free.pop().unwrap_or(self.keys.len() as KeyIndex);
        match self.keys.get_mut(at as usize) {
            Some(free) => *free = state,
            // The index fits, because a watcher's queue holds at most 2^24 events, and at most 2^24
            // series, 2^24 held writes and 2^24 keys are kept in memory.
            None => self.keys.push(state),
        }
        self.idle += 1;
        if let Some(earlier) = earlier.filter(|_| self.order == WriteOrder::Bus) {
            self.keys[earlier as usize].next = at;
            self.move_quiet(earlier, at);
        }
        let keys = &self.keys;
        let hash_of = |&at: &KeyIndex| keys[at as usize].key.as_ref().map_or(0, WriteKey::hash);
        self.by_key.insert_unique(hash, at, hash_of);
        at
    }

    /// Replaces a key's pending write or, if there is none, adds the given write to the end of its
    /// lane. If the pending write was held, it is released.
    fn replace(&mut self, at: KeyIndex, event: &mut Event, ticket: Ticket) -> u64 {
        let was_held = self.unhold(at);
        let state = &mut self.keys[at as usize];
        self.idle -= usize::from(state.is_idle());
        let Some(pending) = &mut state.pending else {
            state.pending = Some(Write { event: take(event), ticket });
            self.make_ready(at);
            return 0;
        };
        let free = pending.absorb(event, &ticket);
        if was_held {
            pending.ticket.offset = ticket.offset;
            self.make_ready(at);
        }
        free
    }

    /// Counts a key's pending write for the key's group. Unless the sink is processing another
    /// write of the key, also adds the pending write to the end of the group's lane.
    fn make_ready(&mut self, at: KeyIndex) {
        let group = self.group(at);
        self.groups.at_mut(group).load += 1;
        self.enqueue(at);
    }

    /// Adds a key's pending write to the end of the group's lane, unless the pending write is held
    /// or the sink is processing another write of the key.
    fn enqueue(&mut self, at: KeyIndex) {
        let state = &self.keys[at as usize];
        let Some(write) = state.pending.as_ref().filter(|_| !state.is_sent && !state.is_held()) else {
            return;
        };
        self.groups.at_mut(state.group).lane.push((write.ticket.offset, at));
        self.groups.add_ready(state.group);
        self.ready += 1;
    }

    /// Returns a key's group.
    pub(super) fn group(&self, at: KeyIndex) -> GroupIndex {
        self.keys[at as usize].group
    }

    /// Takes a key's pending write, wherever the write is.
    fn take(&mut self, at: KeyIndex) -> Option<Write> {
        self.leave(at);
        self.keys[at as usize].pending.take()
    }

    /// Removes a key's pending write from the list in which it waits, if any. The caller must then
    /// take the write.
    fn leave(&mut self, at: KeyIndex) {
        let state = &mut self.keys[at as usize];
        let Some(write) = &state.pending else { return };
        let (entry, group, is_sent) = ((write.ticket.offset, at), state.group, state.is_sent);
        if let Some(due) = state.due.take() {
            self.waiting.remove(&entry);
            self.due.remove(&(due, at));
        } else if self.unhold(at) {
            return;
        } else if !is_sent {
            self.ready -= 1;
            self.groups.at_mut(group).lane.remove(entry);
            self.groups.remove_ready(group);
        }
        self.groups.at_mut(group).load -= 1;
    }

    // ── back from the sink ──

    /// Ends the write that was given to the sink. `stored` holds the current name and version of
    /// the stored event, which the key's pending write then uses. `stored` is `None` if the write
    /// was dropped.
    pub(super) fn finish(&mut self, at: KeyIndex, stored: Option<(Text, Text)>) {
        self.note_settled(at);
        let state = &mut self.keys[at as usize];
        state.is_sent = false;
        if let Some((name, version)) = stored {
            state.name.clone_from(&name);
            if let Some(pending) = &mut state.pending {
                pending.follow(name, version);
            }
        }
        if state.is_idle() {
            self.idle += 1;
            if !self.is_quiet(at) {
                self.remove_idle(at);
            }
        } else {
            self.enqueue(at);
        }
    }

    /// Puts back a write that was given to the sink. The write waits until the given time or, with
    /// `None`, is ready for an immediate retry. Returns the number of events that no longer take up
    /// queue capacity, because the write now also covers the pending write of its key.
    pub(super) fn put_back(&mut self, at: KeyIndex, mut write: Write, until: Option<Duration>) -> u64 {
        let room = self.take(at).map_or(0, |mut later| write.absorb(&mut later.event, &later.ticket));
        self.note_back(at);
        let entry = (write.ticket.offset, at);
        let state = &mut self.keys[at as usize];
        let group = state.group;
        // The event may have been renamed while the sink was processing the write.
        write.event.metadata.name.clone_from(&state.name);
        (state.pending, state.due, state.is_sent) = (Some(write), until, false);
        if let Some(until) = until {
            self.waiting.insert(entry);
            self.due.insert((until, at));
        } else {
            self.groups.at_mut(group).lane.again.insert(entry);
            self.groups.add_ready(group);
            self.ready += 1;
        }
        self.groups.at_mut(group).load += 1;
        room
    }

    /// Gives a new name to a stored event, and to the event's later writes if they are separate.
    /// This method takes time proportional to the number of the later writes.
    pub(super) fn rename(&mut self, at: KeyIndex, name: &Text) {
        let old = self.keys[at as usize].name.clone();
        let mut next = at;
        while let Some(state) = self.keys.get_mut(next as usize) {
            if state.name != old {
                break;
            }
            state.name.clone_from(name);
            if let Some(write) = &mut state.pending {
                write.event.metadata.name.clone_from(name);
            }
            next = state.next;
        }
    }

    /// Returns the time at which the next write is due for another attempt, or `None` if no write
    /// is waiting.
    pub(super) fn next_due(&self) -> Option<Duration> {
        self.due.first().map(|(at, _)| *at)
    }

    /// Makes writes ready if `is_due` returns true for the time at which they are due.
    pub(super) fn retry_due(&mut self, is_due: impl Fn(Duration) -> bool) {
        while let Some(&(_, at)) = self.due.first().filter(|(due, _)| is_due(*due)) {
            self.retry(at);
        }
    }

    /// Makes a waiting write ready for its next attempt.
    fn retry(&mut self, at: KeyIndex) {
        if let Some(write) = self.take(at) {
            self.put_back(at, write, None);
        }
    }

    /// Removes all writes of one group, or of all groups, except those that the sink is processing.
    /// Returns the removed writes in the order of the events.
    pub(super) fn drain(&mut self, group: Option<GroupIndex>) -> Vec<(GroupIndex, Write)> {
        let mut left = Vec::new();
        for at in 0..self.keys.len() as KeyIndex {
            if group.is_some_and(|group| group != self.group(at)) {
                continue;
            }
            if let Some(write) = self.take(at) {
                left.push((self.group(at), write));
                self.note_gone(at);
                if self.keys[at as usize].is_idle() {
                    self.idle += 1;
                    self.remove_idle(at);
                }
            }
        }
        // Stale entries contain indices that may no longer exist, or may later belong to another
        // key.
        self.groups.clear_lanes(group);
        left.sort_by_key(|(_, write)| write.ticket.offset);
        left
    }

    // ── keys ──

    /// Removes a key that has no write.
    fn remove_idle(&mut self, at: KeyIndex) {
        self.end_hold(at);
        self.unlist(at);
        self.idle -= 1;
        self.groups.remove_key(self.group(at));
        self.keys[at as usize].key = None;
        self.free.push(at);
    }

    /// Makes later decisions for the key start a new entry.
    fn unlist(&mut self, at: KeyIndex) {
        let hash = self.key(at).map_or(0, |(key, _)| key.hash());
        if let Ok(entry) = self.by_key.find_entry(hash, |&other| other == at) {
            entry.remove();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::write::Ops;
    use super::*;
    use crate::record::event::Timestamp;
    use crate::record::series::{SeriesKey, SeriesWrite};
    use crate::record::sink::{OpId, SinkOp};

    const SHARE: Share = Share { of_one: 1, lent: 0 };
    const PACE: Pace = Pace { update_every: None, refresh_every: None, capacity: 1 };

    fn admit(pending: &mut PendingWrites, name: &'static str, offset: u64) {
        let mut event = Event::default();
        event.metadata.name = name.into();
        let key = SeriesKey::new(7, &event);
        let write = SeriesWrite { key, event, is_update: true, offset, events: 1, in_hand: 1 };
        let (key, mut event, ticket) = Ticket::of_series(write);
        assert!(pending.admit(key, &mut event, ticket, Duration::ZERO).is_ok());
    }

    fn taken(pending: &mut PendingWrites) -> Vec<(OpId, SinkOp)> {
        let places = Places { total: 10, free: 10, is_ending: false };
        let since = (Duration::ZERO, Timestamp::UNIX_EPOCH);
        let mut ops = Ops::default();
        while pending.take_next(places, since, &mut ops, |_, _| ()) {}
        ops.ids.into_iter().zip(ops.ops).collect()
    }

    fn answered(pending: &mut PendingWrites, (id, op): (OpId, SinkOp)) -> (KeyIndex, Write) {
        let sent = pending.answered(id).unwrap();
        (sent.at, Write::back(sent.ticket, op))
    }

    /// The last write of a series may have the same offset as the previous write of the series,
    /// which the sink is still processing. If the previous write is put back, the two writes are
    /// merged into one write, which must be taken only once.
    #[test]
    fn a_write_that_comes_back_beside_one_of_its_offset_is_taken_once() {
        let mut pending = PendingWrites::new(WriteOrder::PerKey, None, SHARE, PACE);
        for (name, offset) in [("x", 4), ("y", 5)] {
            admit(&mut pending, name, offset);
        }
        let mut sent = taken(&mut pending);
        for name in ["x", "y"] {
            admit(&mut pending, name, 5);
        }
        let (at, write) = answered(&mut pending, sent.pop().unwrap());
        pending.put_back(at, write, None);
        let (at, _) = answered(&mut pending, sent.pop().unwrap());
        pending.finish(at, Some(("x".into(), Text::EMPTY)));
        let again: Vec<_> = taken(&mut pending).into_iter().map(|op| answered(&mut pending, op)).collect();
        assert_eq!(
            again.iter().map(|(at, write)| (*at, write.ticket.events)).collect::<Vec<_>>(),
            [(0, 1), (1, 2)]
        );
        assert!(!pending.has_ready());
        for (at, write) in again {
            pending.finish(at, Some((write.event.metadata.name, Text::EMPTY)));
        }
        assert!(pending.is_empty() && taken(&mut pending).is_empty());
        assert_eq!(pending.offset(), None);
    }

    /// Events that a series has held are older than the events that have arrived since, so the held
    /// events are taken first.
    #[test]
    fn a_write_of_older_events_comes_first() {
        let mut pending = PendingWrites::new(WriteOrder::PerKey, None, SHARE, PACE);
        for (name, offset) in [("new", 9), ("held", 3), ("newer", 10)] {
            admit(&mut pending, name, offset);
        }
        assert_eq!(pending.offset(), Some(3));
        let taken: Vec<_> = taken(&mut pending).into_iter().map(|op| answered(&mut pending, op)).collect();
        let offsets: Vec<_> = taken.iter().map(|(_, write)| write.ticket.offset).collect();
        assert_eq!(offsets, [3, 9, 10]);
    }
}
