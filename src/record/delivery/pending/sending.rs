//! Gives writes to the sink, and ends their operations.

use std::ops::Bound;
use std::time::Duration;

use super::super::write::{KeyIndex, Ops, Ticket};
use super::PendingWrites;
use super::groups::Places;
use super::under_way::UnderWay;
use crate::record::event::Timestamp;
use crate::record::sink::{OpId, WriteOrder};

impl PendingWrites {
    /// Returns the number of operations in progress.
    pub(in super::super) fn in_flight(&self) -> usize {
        self.under_way.len()
    }

    /// Returns the operations that are in progress.
    pub(in super::super) fn under_way(&self) -> impl Iterator<Item = &UnderWay> {
        self.under_way.iter()
    }

    /// Marks groups as slow if one of their operations has run for too long. Returns the time at
    /// which the next group becomes slow.
    pub(in super::super) fn judge_slow(&mut self, now: Duration) -> Option<Duration> {
        let under_way = self.under_way.iter().map(|op| (op.group, op.since.0));
        self.groups.judge_slow(under_way, now)
    }

    /// Takes the next write of the group whose turn it is, and adds the write to the operations for
    /// the sink. `note` receives the write's ticket, and whether the write is a probe of its group.
    /// Returns whether there was a write for the given slots.
    pub(in super::super) fn take_next(
        &mut self,
        places: Places,
        since: (Duration, Timestamp),
        ops: &mut Ops,
        note: impl FnOnce(&mut Ticket, bool),
    ) -> bool {
        if !self.has_ready() {
            return false;
        }
        let Some((group, is_probe)) = self.groups.next(places, |at| at <= since.0) else { return false };
        let entry = self.groups.at_mut(group);
        let next = if is_probe && self.order == WriteOrder::PerKey {
            entry.lane.next_probe(&self.keys)
        } else {
            entry.lane.next(&self.keys)
        };
        next.is_some_and(|(_, at)| self.send(at, since, ops, |ticket| note(ticket, is_probe)))
    }

    /// Adds a write to the operations for the sink, to find out whether the store is available
    /// again. The probe is a ready write or, if no write is ready, a write that is waiting for its
    /// next attempt. If possible, each call chooses a different write. An event on which the store
    /// hangs therefore cannot keep the breaker open.
    pub(in super::super) fn take_probe(
        &mut self,
        since: (Duration, Timestamp),
        ops: &mut Ops,
        note: impl FnOnce(&mut Ticket),
    ) {
        let ready = if self.has_ready() { self.groups.first_write(&self.keys) } else { None };
        let behind = (Bound::Excluded(self.probed), Bound::Unbounded);
        let waiting = || self.waiting.range(behind).next().or(self.waiting.first()).copied();
        if let Some(probe) = ready.or_else(waiting) {
            self.probed = probe;
            self.send(probe.1, since, ops, note);
        }
    }

    fn send(
        &mut self,
        at: KeyIndex,
        since: (Duration, Timestamp),
        ops: &mut Ops,
        note: impl FnOnce(&mut Ticket),
    ) -> bool {
        self.leave(at);
        let state = &mut self.keys[at as usize];
        let Some(write) = &mut state.pending else { return false };
        // The event is moved directly into the operation, because moving it takes time.
        let (mut ticket, op) = write.take_op();
        let group = state.group;
        (state.pending, state.is_sent) = (None, true);
        let was_sick = self.groups.at(group).is_sick();
        self.groups.begin(group);
        self.note_sent(at);
        note(&mut ticket);
        let answers = self.groups.at(group).answers;
        ops.push(self.under_way.add(UnderWay { at, group, ticket, since, was_sick, answers }), op);
        true
    }

    /// Notes that the store may have performed an operation that is still in progress.
    pub(in super::super) fn doubt(&mut self, id: OpId, times: i32) {
        if let Some(op) = self.under_way.get_mut(id) {
            op.ticket.doubt(times);
        }
    }

    /// Removes an operation to which the sink has responded from the operations in progress.
    pub(in super::super) fn answered(&mut self, id: OpId) -> Option<UnderWay> {
        let op = self.under_way.remove(id)?;
        self.groups.end(op.group);
        Some(op)
    }
}
