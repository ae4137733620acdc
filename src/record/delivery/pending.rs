//! The pending writes of a recording: what the store has yet to be told.
//!
//! A write carries the whole state of a stored event, with its count. Only the newest state of each
//! event therefore matters, and each key has at most one pending write. A later decision for the
//! key replaces what the write carries, wherever the write is:
//!
//! - It waits for its turn.
//! - It waits for its next attempt.
//! - It waits behind a write of the same key that the sink has.
//! - It is held ([`hold`]).
//!
//! The keys are divided among the writers. Each writer has a lane, which holds its keys in the
//! order in which they became pending. A writer gets its next batch only after it has answered the
//! last one, so the writes of a key come to the sink one after the other, with counts that grow.
//!
//! With [`WriteOrder::Bus`] nothing is replaced. One lane holds all writes in the order of the
//! events, and a write that waits for its next attempt holds up the lane. Only a write that is held
//! is replaced.

mod hold;
mod holds;
mod lane;

use std::collections::BTreeSet;
use std::ops::Bound;
use std::time::Duration;

use hashbrown::HashTable;

use super::write::{Batch, KeyIndex, Ticket, Write};
use crate::record::correlator::CorrelationKey;
use crate::record::event::Text;
use crate::record::sink::WriteOrder;

use holds::Holds;
use lane::{Entry, KeyState, Lane, NOWHERE};

pub(super) use holds::Pace;

/// The number of keys whose room is kept while nothing is pending.
const KEPT: usize = 1024;

pub(super) struct PendingWrites {
    order: WriteOrder,
    keys: Vec<KeyState>,
    /// The places without a key.
    free: Vec<KeyIndex>,
    /// The place of the newest write of each key.
    by_key: HashTable<KeyIndex>,
    lanes: Box<[Lane]>,
    /// The writes that wait for their next attempt.
    waiting: BTreeSet<Entry>,
    /// The same writes, by the time when they are due.
    due: BTreeSet<(Duration, KeyIndex)>,
    /// The last probe. If none is ready, the next waiting one behind it is the next probe.
    probed: Entry,
    /// The number of writes in the lanes.
    ready: usize,
    /// The number of keys without a write.
    idle: usize,
    holds: Holds,
}

impl PendingWrites {
    pub(super) fn new(order: WriteOrder, lanes: usize, pace: Pace) -> Self {
        Self {
            order,
            keys: Vec::new(),
            free: Vec::new(),
            by_key: HashTable::new(),
            lanes: std::iter::repeat_with(Lane::default).take(lanes).collect(),
            waiting: BTreeSet::new(),
            due: BTreeSet::new(),
            probed: (0, 0),
            ready: 0,
            idle: 0,
            holds: Holds::new(pace),
        }
    }

    /// Returns whether the store has been told everything.
    pub(super) fn is_empty(&self) -> bool {
        self.free.len() + self.idle == self.keys.len()
    }

    /// Returns the number of writes that the store has yet to be told, those that the sink has
    /// included, and those that are held not.
    pub(super) fn len(&self) -> usize {
        self.keys.len() - self.free.len() - self.idle - self.holds.held.len()
    }

    /// Frees the room of many keys if none is left, for example after an outage.
    pub(super) fn tidy(&mut self) {
        if self.free.len() == self.keys.len() && self.keys.capacity() > KEPT {
            *self = Self::new(self.order, self.lanes.len(), self.holds.pace);
        }
    }

    /// Returns whether there are writes that may be given to the sink now.
    pub(super) fn has_ready(&self) -> bool {
        // In the order of the bus, a write that waits for its next attempt holds up all others.
        self.ready > 0 && (self.order == WriteOrder::PerKey || self.waiting.is_empty())
    }

    /// Returns whether there are writes that may be given to the sink, now or after a pause.
    pub(super) fn has_any(&self) -> bool {
        self.ready > 0 || !self.waiting.is_empty()
    }

    /// Returns the key, and the name by which the correlator knows the stored event.
    pub(super) fn key(&self, at: KeyIndex) -> Option<(&CorrelationKey, &Text)> {
        let KeyState { key, name, .. } = &self.keys[at as usize];
        Some((key.as_ref()?, name))
    }

    /// Returns the first offset whose event has no outcome yet. Returns `None` if all have one.
    pub(super) fn offset(&mut self) -> Option<u64> {
        let waiting = self.waiting.first().map(|(offset, _)| *offset);
        let mut first = waiting.into_iter().chain(self.holds.first_event()).min();
        for lane in &mut self.lanes {
            let firsts = [lane.sent, lane.next(&self.keys).map(|(offset, _)| offset)];
            first = firsts.into_iter().chain([first]).flatten().min();
        }
        first
    }

    // ── new writes ──

    /// Adds a new write. Returns the number of events whose room is free, because an earlier write
    /// stands for them, or because the write is held.
    pub(super) fn admit(&mut self, key: CorrelationKey, write: Write, now: Duration) -> u64 {
        let at = self.index_of(key, &write, now);
        self.pass(at, write, now)
    }

    /// Returns the place of a key where the write belongs.
    fn index_of(&mut self, key: CorrelationKey, write: &Write, now: Duration) -> KeyIndex {
        let keys = &self.keys;
        let found = self.by_key.find(key.hash(), |&at| keys[at as usize].key.as_ref() == Some(&key)).copied();
        let Some(at) = found else { return self.add(key, write, None) };
        let state = &self.keys[at as usize];
        let is_same = write.event.metadata.name == state.name && write.ticket.is_update;
        if is_same && (self.order == WriteOrder::PerKey || state.is_held() || state.is_idle()) {
            return at;
        }
        // This write is one of its own, because of the order, or because the correlator has
        // forgotten the stored event and begins another one. A count that is held is written first.
        self.release(at, now);
        if self.keys[at as usize].is_idle() {
            self.remove_idle(at);
            return self.add(key, write, None);
        }
        self.unlist(at);
        self.add(key, write, Some(at))
    }

    /// Adds a key, after an earlier place of it if there is one.
    fn add(&mut self, key: CorrelationKey, write: &Write, earlier: Option<KeyIndex>) -> KeyIndex {
        let hash = key.hash();
        let name = write.event.metadata.name.clone();
        let (key, pending, due) = (Some(key), None, None);
        let state = KeyState { key, name, pending, due, is_sent: false, next: NOWHERE, hold: None };
        let at = self.free.pop().unwrap_or(self.keys.len() as KeyIndex);
        match self.keys.get_mut(at as usize) {
            Some(free) => *free = state,
            // The index fits, because a watcher's queue holds at most 2^24 events, and a memory as
            // many series, held writes and keys.
            None => self.keys.push(state),
        }
        self.idle += 1;
        if let Some(earlier) = earlier.filter(|_| self.order == WriteOrder::Bus) {
            self.keys[earlier as usize].next = at;
            self.move_quiet(earlier, at);
        }
        let keys = &self.keys;
        let hash_of = |&at: &KeyIndex| keys[at as usize].key.as_ref().map_or(0, CorrelationKey::hash);
        self.by_key.insert_unique(hash, at, hash_of);
        at
    }

    /// Replaces the pending write of a key, or adds it to the end of its lane. A write that is held
    /// goes out now, too.
    fn replace(&mut self, at: KeyIndex, write: Write) -> u64 {
        let was_held = self.unhold(at);
        let state = &mut self.keys[at as usize];
        self.idle -= usize::from(state.is_idle());
        let Some(pending) = &mut state.pending else {
            state.pending = Some(write);
            self.make_ready(at);
            return 0;
        };
        let offset = write.ticket.offset;
        let free = pending.absorb(write);
        if was_held {
            pending.ticket.offset = offset;
            self.make_ready(at);
        }
        free
    }

    /// Adds the pending write of a key to the end of its lane.
    fn make_ready(&mut self, at: KeyIndex) {
        let lane = self.lane_of(at);
        if let Some(write) = &self.keys[at as usize].pending {
            self.lanes[lane].push((write.ticket.offset, at));
            self.ready += 1;
        }
    }

    fn lane_of(&self, at: KeyIndex) -> usize {
        self.key(at).map_or(0, |(key, _)| key.share(self.lanes.len()))
    }

    // ── to the sink ──

    /// Moves up to `most` writes of a lane into the batch, in their order. `note` sees each of
    /// them.
    pub(super) fn take_batch(
        &mut self,
        lane: usize,
        most: usize,
        batch: &mut Batch,
        mut note: impl FnMut(&mut Ticket),
    ) {
        while batch.ops.len() < most && self.has_ready() {
            let Some((_, at)) = self.lanes[lane].next(&self.keys) else { break };
            let Some(write) = self.take(at) else { break };
            self.keys[at as usize].is_sent = true;
            self.note_sent(at);
            let (mut ticket, op) = write.into_op();
            note(&mut ticket);
            // The offsets grow, so the first one is the lowest.
            self.lanes[lane].sent.get_or_insert(ticket.offset);
            batch.ops.push(op);
            batch.tickets.push((at, ticket));
        }
    }

    /// Chooses a write that is to show whether the store is there again, and makes it the first of
    /// its lane. Takes one that is ready, or else one that waits, each time another one. An event
    /// at which the store hangs can therefore not keep the breaker open. Returns the write's lane,
    /// or `None` if there is no write.
    pub(super) fn choose_probe(&mut self) -> Option<usize> {
        let keys = &self.keys;
        let ready = self.lanes.iter_mut().find_map(|lane| lane.next(keys)).filter(|_| self.has_ready());
        let behind = (Bound::Excluded(self.probed), Bound::Unbounded);
        let waiting = || self.waiting.range(behind).next().or(self.waiting.first()).copied();
        self.probed = ready.or_else(waiting)?;
        let (_, at) = self.probed;
        if ready.is_none() {
            self.retry(at);
        }
        Some(self.lane_of(at))
    }

    /// Takes the pending write of a key from wherever it is.
    fn take(&mut self, at: KeyIndex) -> Option<Write> {
        let lane = self.lane_of(at);
        let state = &mut self.keys[at as usize];
        let write = state.pending.take()?;
        let entry = (write.ticket.offset, at);
        if let Some(due) = state.due.take() {
            self.waiting.remove(&entry);
            self.due.remove(&(due, at));
        } else if !self.unhold(at) {
            self.ready -= 1;
            self.lanes[lane].remove(entry);
        }
        Some(write)
    }

    // ── back from the sink ──

    /// Notes that the sink has answered all that it had of a lane.
    pub(super) fn answered(&mut self, lane: usize) {
        self.lanes[lane].sent = None;
    }

    /// Ends the write that the sink had. `stored` holds the name and the version that the stored
    /// event has now, for the pending write of the key. `None` if the write was given up.
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
        }
    }

    /// Puts back a write that the sink had: until this time, or `None` if it may be tried again at
    /// once. Returns the number of events whose room is free, because the write now stands for the
    /// pending one of its key, too.
    pub(super) fn put_back(&mut self, at: KeyIndex, mut write: Write, until: Option<Duration>) -> u64 {
        let room = self.take(at).map_or(0, |later| write.absorb(later));
        self.note_back(at);
        let (lane, entry) = (self.lane_of(at), (write.ticket.offset, at));
        let state = &mut self.keys[at as usize];
        // The event may have got another name while the sink had the write.
        write.event.metadata.name.clone_from(&state.name);
        (state.pending, state.due, state.is_sent) = (Some(write), until, false);
        if let Some(until) = until {
            self.waiting.insert(entry);
            self.due.insert((until, at));
        } else {
            self.lanes[lane].again.insert(entry);
            self.ready += 1;
        }
        room
    }

    /// Gives a new name to a stored event, and to its later writes where they are writes of their
    /// own. This takes as long as there are such writes.
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

    /// Returns when the next write is due for another attempt. Returns `None` if none waits.
    pub(super) fn next_due(&self) -> Option<Duration> {
        self.due.first().map(|(at, _)| *at)
    }

    /// Makes those writes ready that are due, as `is_due` says.
    pub(super) fn retry_due(&mut self, is_due: impl Fn(Duration) -> bool) {
        while let Some(&(_, at)) = self.due.first().filter(|(due, _)| is_due(*due)) {
            self.retry(at);
        }
    }

    /// Makes a write ready that waits for its next attempt.
    fn retry(&mut self, at: KeyIndex) {
        if let Some(write) = self.take(at) {
            self.put_back(at, write, None);
        }
    }

    /// Removes all writes except those that the sink has, and returns them in the order of the
    /// events.
    pub(super) fn drain(&mut self) -> Vec<Write> {
        let mut left = Vec::new();
        for at in 0..self.keys.len() as KeyIndex {
            if let Some(write) = self.take(at) {
                left.push(write);
                self.note_gone(at);
                if self.keys[at as usize].is_idle() {
                    self.idle += 1;
                    self.remove_idle(at);
                }
            }
        }
        left.sort_by_key(|write| write.ticket.offset);
        left
    }

    // ── keys ──

    /// Removes a key without a write.
    fn remove_idle(&mut self, at: KeyIndex) {
        self.end_hold(at);
        self.unlist(at);
        self.idle -= 1;
        self.keys[at as usize].key = None;
        self.free.push(at);
    }

    /// Makes later decisions for the key begin anew.
    fn unlist(&mut self, at: KeyIndex) {
        let hash = self.key(at).map_or(0, |(key, _)| key.hash());
        if let Ok(entry) = self.by_key.find_entry(hash, |&other| other == at) {
            entry.remove();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::event::Event;
    use crate::record::series::SeriesWrite;

    const PACE: Pace = Pace { update_every: None, refresh_every: None, capacity: 1 };

    fn admit(pending: &mut PendingWrites, name: &'static str, offset: u64) {
        let mut event = Event::default();
        event.metadata.name = name.into();
        let key = CorrelationKey::single(7, &event);
        let write = SeriesWrite { key, event, is_update: true, offset, events: 1, in_hand: 1 };
        let (key, write) = Write::of_series(write);
        pending.admit(key, write, Duration::ZERO);
    }

    fn taken(pending: &mut PendingWrites) -> Vec<(KeyIndex, Write)> {
        let mut batch = Batch::default();
        pending.take_batch(0, 10, &mut batch, |_| ());
        let writes = batch.tickets.into_iter().zip(batch.ops);
        writes.map(|((at, ticket), op)| (at, Write::back(ticket, op))).collect()
    }

    /// The last write of a series may have the offset of its write before, which the sink still
    /// has. If that one comes back, the two become one, which is taken once.
    #[test]
    fn a_write_that_comes_back_beside_one_of_its_offset_is_taken_once() {
        let mut pending = PendingWrites::new(WriteOrder::PerKey, 1, PACE);
        for (name, offset) in [("x", 4), ("y", 5)] {
            admit(&mut pending, name, offset);
        }
        let mut sent = taken(&mut pending);
        for name in ["x", "y"] {
            admit(&mut pending, name, 5);
        }
        pending.answered(0);
        let (at, write) = sent.pop().unwrap();
        pending.put_back(at, write, None);
        pending.finish(sent[0].0, Some(("x".into(), Text::EMPTY)));
        let again = taken(&mut pending);
        assert_eq!(
            again.iter().map(|(at, write)| (*at, write.ticket.events)).collect::<Vec<_>>(),
            [(0, 1), (1, 2)]
        );
        assert!(!pending.has_ready());
        pending.answered(0);
        for (at, write) in again {
            pending.finish(at, Some((write.event.metadata.name, Text::EMPTY)));
        }
        assert!(pending.is_empty() && taken(&mut pending).is_empty());
        assert_eq!(pending.offset(), None);
    }

    /// Events that a series has held are older than those that have come since, and are taken
    /// first.
    #[test]
    fn a_write_of_older_events_comes_first() {
        let mut pending = PendingWrites::new(WriteOrder::PerKey, 1, PACE);
        for (name, offset) in [("new", 9), ("held", 3), ("newer", 10)] {
            admit(&mut pending, name, offset);
        }
        assert_eq!(pending.offset(), Some(3));
        let offsets: Vec<_> = taken(&mut pending).iter().map(|(_, write)| write.ticket.offset).collect();
        assert_eq!(offsets, [3, 9, 10]);
    }
}
