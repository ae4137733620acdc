//! Turns the sink's responses into outcomes of events.

use std::slice;
use std::time::Duration;

use crate::catch::{catch_panic, catch_panic_message};
use crate::record::event::{Event, Timestamp, name};
use crate::record::loss::{Loss, LossReason};
use crate::record::sink::{OpId, Reply, SinkError, Stored};
use crate::record::stats::RecordingStats;

use super::super::pending::GroupIndex;
use super::super::write::{KeyIndex, Ticket, Write, WriteKey, times};
use super::Driver;
use super::failure::Attempt;

impl Driver {
    /// Processes the sink's responses. Returns whether any responses had arrived.
    pub(super) fn take_answers(&mut self) -> bool {
        let mut answers = self.writers.take_answers();
        let any = !answers.is_empty();
        let now = self.moment_after(Duration::ZERO);
        for (id, reply) in answers.drain(..) {
            self.settle(id, reply, now);
        }
        if any {
            self.tally.panics += self.writers.take_panics();
        }
        self.writers.settle(answers, (!self.clock.is_fake()).then_some(now));
        self.end_round();
        any
    }

    /// Processes the response to an operation by setting the write's outcome or putting the write
    /// back.
    fn settle(&mut self, id: OpId, reply: Reply, now: Duration) {
        if let Reply::Unsure(times) = reply {
            return self.pending.doubt(id, times);
        }
        let Some(op) = self.pending.answered(id) else { return };
        let took = now.saturating_sub(op.since.0);
        match reply {
            Reply::Stored(stored) => {
                self.note_answer(op.group, took, now);
                self.stored(op.at, &op.ticket, stored);
            }
            Reply::Failed(failed) => {
                let (sent, error) = failed.into_parts();
                self.tally.panics += u64::from(error.is_panic());
                let attempt = Attempt { group: op.group, answers: op.answers, took, now };
                self.refused(op.at, Write::back(op.ticket, sent), error, &attempt);
            }
            Reply::Lost(error) => {
                self.note_answer(op.group, took, now);
                self.tally.panics += u64::from(error.is_panic());
                let lost = Write { event: Event::default(), ticket: op.ticket };
                self.give_up(op.at, &lost, LossReason::Rejected, error);
            }
            // The sink was not given this operation, because an earlier operation failed.
            Reply::Unsent(sent) => {
                self.decided += self.pending.put_back(op.at, Write::back(op.ticket, *sent), None);
            }
            Reply::Unsure(_) => {}
        }
    }

    /// Notes that the store has responded to an operation.
    pub(super) fn note_answer(&mut self, group: GroupIndex, took: Duration, now: Duration) {
        self.breaker.answered();
        self.answers += 1;
        if self.answered.is_none_or(|(at, _)| at < now) {
            self.answered = Some((now, Timestamp::from(self.clock.now())));
        }
        self.pending.groups.took(group, took, now, true);
        let entry = self.pending.groups.at_mut(group);
        entry.answers += 1;
        (entry.missed, entry.refused_at) = (0, None);
        if entry.is_closed() {
            entry.breaker.answered();
            entry.closed_at = None;
            self.judged.push(group);
        }
    }

    fn stored(&mut self, at: KeyIndex, ticket: &Ticket, stored: Stored) {
        self.decided += ticket.in_hand;
        let creates = ticket.creates;
        // If a write covers several events, the first of these events may have created the stored
        // event.
        let counter =
            if ticket.is_new || creates { &mut self.tally.created } else { &mut self.tally.updated };
        *counter += ticket.events.min(1);
        self.tally.updated += ticket.events.saturating_sub(1);
        self.tally.coalesced += ticket.events.saturating_sub(1);
        self.tally.recreated += u64::from(creates && !ticket.is_new && ticket.events > 0);
        self.recount(at);
        let version = stored.resource_version.clone();
        let name = match self.pending.key(at) {
            Some((WriteKey::Series(key), name)) => self.series.confirm(key, name, stored),
            Some((WriteKey::Correlated(key), name)) => self.correlator.confirm_late(key, name, stored),
            None => stored.name,
        };
        self.pending.finish(at, Some((name, version)));
    }

    /// Recounts dropped events as updated, because a write has now included the dropped events in
    /// its count.
    fn recount(&mut self, at: KeyIndex) {
        let Some((key, name)) = self.pending.key(at) else { return };
        for (reason, events) in self.refused.take(key, name).into_iter().flatten() {
            *outcome(&mut self.tally, reason) -= events;
            self.tally.updated += events;
            self.tally.coalesced += events;
        }
    }

    /// Returns whether the write is about an event that is counted in a series.
    fn is_series(&self, at: KeyIndex) -> bool {
        matches!(self.pending.key(at), Some((WriteKey::Series(_), _)))
    }

    /// Handles the response that the store already has an event with this name.
    pub(super) fn taken(&mut self, at: KeyIndex, mut write: Write, error: SinkError) {
        let is_update = write.ticket.is_update;
        let is_same = match error.stored() {
            Some(stored) => write.is(stored),
            // Either an earlier attempt to create the event succeeded although its response was
            // lost, or another client has recreated a series' event. No other event has the name of
            // a series' event.
            None => write.ticket.unsure.is_some() || is_update && self.is_series(at),
        };
        if is_same && !is_update {
            let known = error.stored().map(|stored| (Stored::from(stored), times(stored)));
            self.discard(error);
            return self.stored_already(at, write, known);
        }
        if write.ticket.is_renamed || write.ticket.failed >= self.retry.attempts {
            return self.give_up(at, &write, LossReason::AlreadyExists, error);
        }
        self.discard(error);
        write.ticket.is_retry = true;
        if is_update && is_same {
            // The event is in the store again, with its own count.
            write.ticket.failed += 1;
            write.turn_to_patch();
        } else {
            let object = &write.event.involved_object.name;
            let name = name::fresh(&self.clock, object, self.clock.now().into());
            if let Some((key, decided)) = self.pending.key(at) {
                self.refused.rename(key, decided, &name);
                match key {
                    WriteKey::Series(key) => self.series.rename(key, &name),
                    WriteKey::Correlated(key) => self.correlator.rename(key, decided, &name),
                }
            }
            self.pending.rename(at, &name);
            write.rename(name);
        }
        self.decided += self.pending.put_back(at, write, None);
    }

    /// Handles the response that an earlier attempt has already created the event. If the write now
    /// contains a later state, that state still has to be written.
    fn stored_already(&mut self, at: KeyIndex, mut write: Write, known: Option<(Stored, i32)>) {
        let least = known.as_ref().map(|(_, times)| *times).or(write.ticket.unsure);
        let stored = known.map_or_else(|| Stored::from(&write.event), |(stored, _)| stored);
        if least >= Some(times(&write.event)) {
            return self.stored(at, &write.ticket, stored);
        }
        write.turn_to_update();
        write.follow(stored.name, stored.resource_version);
        self.decided += self.pending.put_back(at, write, None);
    }

    pub(super) fn give_up(&mut self, at: KeyIndex, write: &Write, reason: LossReason, error: SinkError) {
        self.refuse(at, write, reason, error);
        self.pending.finish(at, None);
    }

    /// Loses a write, and keeps the number of its events, in case a later write of the key includes
    /// them.
    pub(super) fn refuse(&mut self, at: KeyIndex, write: &Write, reason: LossReason, error: SinkError) {
        self.lose(reason, &write.event, &write.ticket, error, Some(self.pending.group(at)));
        if let Some((key, name)) = self.pending.key(at) {
            self.refused.add(key, name, reason, write.ticket.events);
        }
    }

    /// Counts and reports the loss of a write, and frees the capacity that its events take up. If a
    /// write covers no event, its loss is not reported.
    pub(super) fn lose(
        &mut self,
        reason: LossReason,
        event: &Event,
        ticket: &Ticket,
        error: SinkError,
        group: Option<GroupIndex>,
    ) {
        self.decided += ticket.in_hand;
        let count = ticket.events;
        *outcome(&mut self.tally, reason) += count;
        if reason != LossReason::Abandoned {
            // Formatting the error may call the sink's own code, which may panic.
            self.tally.last_refusal = catch_panic_message(|| error.to_string()).ok();
        }
        if count > 0 {
            let (place, events) = (&self.name, slice::from_ref(event));
            let group = group.map_or("", |group| &self.pending.groups.at(group).name);
            self.losses.tell(&Loss { reason, place, events, count, group, cause: Some(&error) });
        }
        self.discard(error);
    }

    /// Drops all writes except those that the sink is processing, because a shutdown's deadline has
    /// passed.
    pub(super) fn abandon(&mut self) {
        self.write_held();
        let why = "the shutdown's deadline passed before it could be written";
        self.lose_group(None, LossReason::Abandoned, || SinkError::retry(why));
    }

    /// Drops and reports the waiting writes of one group, or of all groups.
    pub(super) fn lose_group(
        &mut self,
        group: Option<GroupIndex>,
        reason: LossReason,
        why: impl Fn() -> SinkError,
    ) {
        for (group, Write { event, ticket }) in self.pending.drain(group) {
            self.lose(reason, &event, &ticket, why(), Some(group));
        }
    }

    /// Drops an error. The error's cause belongs to the sink and may panic when dropped, but the
    /// event must not be lost because of such a panic.
    pub(super) fn discard(&mut self, error: SinkError) {
        if catch_panic(|| drop(error)).is_none() {
            self.tally.panics += 1;
        }
    }
}

/// Returns the counter for events that were dropped for this reason.
fn outcome(tally: &mut RecordingStats, reason: LossReason) -> &mut u64 {
    match reason {
        LossReason::AlreadyExists => &mut tally.already_existed,
        LossReason::Exhausted => &mut tally.exhausted,
        LossReason::Abandoned => &mut tally.abandoned,
        LossReason::GroupFull => &mut tally.group_full,
        _ => &mut tally.rejected,
    }
}
