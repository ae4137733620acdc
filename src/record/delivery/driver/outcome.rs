//! The way from the sink's answer to an event's outcome.

use std::slice;

use crate::catch::{catch_panic, catch_panic_message};
use crate::record::event::{Event, Timestamp, name};
use crate::record::loss::{Loss, LossReason};
use crate::record::sink::{SinkError, SinkErrorKind, Stored};
use crate::record::stats::{RecordingStats, SinkFailure};

use super::super::write::{Batch, KeyIndex, Ticket, Write, times};
use super::{Driver, LONG_CALL};

impl Driver {
    /// Takes in the answers of the sink. Returns whether there are any.
    pub(super) fn take_answers(&mut self) -> bool {
        let mut any = false;
        while let Some((writer, batch)) = self.writers.take_answered() {
            self.settle(writer, batch);
            any = true;
        }
        self.end_round();
        any
    }

    /// Gives each write of an answered batch its outcome, or puts it back.
    fn settle(&mut self, writer: usize, mut batch: Batch) {
        self.tally.panics += batch.panics;
        self.pending.answered(writer);
        let len = batch.ops.len();
        let mut answers = batch.answers.drain(..);
        for ((at, ticket), op) in batch.tickets.drain(..).zip(batch.ops.drain(..)) {
            match answers.next() {
                Some(Ok(stored)) => self.stored(at, &ticket, stored),
                Some(Err(error)) => {
                    let mut write = Write::back(ticket, op);
                    if batch.is_unsure {
                        write.doubt();
                    }
                    self.refused(at, write, error);
                }
                // The sink was not given this one, because one before it failed.
                None => self.decided += self.pending.put_back(at, Write::back(ticket, op), None),
            }
        }
        drop(answers);
        let is_slow = self.has_lasted(self.writers.since(writer), LONG_CALL);
        self.writers.give_back(writer, batch, len, is_slow);
    }

    fn stored(&mut self, at: KeyIndex, ticket: &Ticket, stored: Stored) {
        self.breaker.answered();
        self.decided += ticket.in_hand;
        let creates = ticket.creates;
        // If a write stands for several events, the first may have created the stored event.
        let counter =
            if ticket.is_new || creates { &mut self.tally.created } else { &mut self.tally.updated };
        *counter += ticket.events.min(1);
        self.tally.updated += ticket.events.saturating_sub(1);
        self.tally.coalesced += ticket.events.saturating_sub(1);
        self.tally.recreated += u64::from(creates && !ticket.is_new && ticket.events > 0);
        self.recount(at);
        let version = stored.resource_version.clone();
        let name = match self.pending.key(at) {
            Some((key, name)) if key.is_single() => self.series.confirm(key, name, stored),
            Some((key, name)) => self.correlator.confirm_late(key, name, stored),
            None => stored.name,
        };
        self.pending.finish(at, Some((name, version)));
    }

    /// Counts the events again that were given up, and that a write has now carried.
    fn recount(&mut self, at: KeyIndex) {
        let Some((key, name)) = self.pending.key(at) else { return };
        for (reason, events) in self.refused.take(key, name).into_iter().flatten() {
            *outcome(&mut self.tally, reason) -= events;
            self.tally.updated += events;
            self.tally.coalesced += events;
        }
    }

    fn refused(&mut self, at: KeyIndex, mut write: Write, error: SinkError) {
        if error.kind() != SinkErrorKind::Unavailable {
            self.breaker.answered();
        }
        let reason = match error.kind() {
            SinkErrorKind::Retry | SinkErrorKind::Unavailable => return self.failed(at, write, error),
            SinkErrorKind::NotFound if !write.ticket.creates => {
                self.discard(error);
                write.ticket.creates = true;
                self.decided += self.pending.put_back(at, write, None);
                return;
            }
            SinkErrorKind::AlreadyExists if write.ticket.creates => return self.taken(at, write, error),
            SinkErrorKind::AlreadyExists => LossReason::AlreadyExists,
            SinkErrorKind::Rejected | SinkErrorKind::NotFound => LossReason::Rejected,
        };
        self.give_up(at, write, reason, error);
    }

    /// Returns whether the write is about an event that is counted in a series.
    fn is_series(&self, at: KeyIndex) -> bool {
        self.pending.key(at).is_some_and(|(key, _)| key.is_single())
    }

    fn is_worth_it(&mut self, error: &SinkError) -> bool {
        let Some(retry_if) = &mut self.retry_if else { return true };
        catch_panic_message(|| retry_if(error)).unwrap_or_else(|_| {
            self.tally.panics += 1;
            true
        })
    }

    /// Handles an error after which the write may work later.
    fn failed(&mut self, at: KeyIndex, mut write: Write, error: SinkError) {
        let is_unavailable = error.kind() == SinkErrorKind::Unavailable;
        let is_worth_it = self.is_worth_it(&error);
        write.doubt();
        let ticket = &mut write.ticket;
        // A probe without an answer says nothing about its event.
        ticket.failed = ticket.failed.saturating_add(u32::from(!(is_unavailable && ticket.is_probe)));
        ticket.is_retry = true;
        let failed = ticket.failed;
        let lost = if !is_worth_it || failed >= self.retry.attempts {
            Some(LossReason::Exhausted)
        } else {
            ticket.is_last.then_some(LossReason::Abandoned)
        };
        let now = Timestamp::from(self.clock.now());
        if is_unavailable {
            // An event that is not tried again has nothing to wait for, so it makes no other one
            // wait.
            self.breaker.missed(now, error.wait(), lost.is_none());
        }
        self.note_failure(&mut write.ticket, &error, now);
        if let Some(reason) = lost {
            return self.give_up(at, write, reason, error);
        }
        let pause = self.retry.pause(failed.max(1), error.wait());
        self.discard(error);
        write.turn_to_patch();
        let until = self.moment_after(pause);
        self.decided += self.pending.put_back(at, write, Some(until));
    }

    /// Reports why an attempt failed, at once and not only when the event is given up.
    fn note_failure(&mut self, ticket: &mut Ticket, error: &SinkError, now: Timestamp) {
        let first = *ticket.failing_since.get_or_insert(now);
        // The sink's own code may format the error, and may panic.
        let text = catch_panic_message(|| error.to_string()).unwrap_or_default();
        let unavailable_since = self.breaker.since().filter(|_| error.kind() == SinkErrorKind::Unavailable);
        let (since, attempts) = match unavailable_since {
            Some(since) => (since, self.breaker.attempts()),
            None => (first, u64::from(ticket.failed)),
        };
        let failure = SinkFailure { text, since, attempts };
        if unavailable_since.is_none() {
            self.alerts.failed(&self.clock, &self.name, &failure);
        }
        self.tally.last_failure = Some(failure);
    }

    /// Handles the answer that the store has an event of this name.
    fn taken(&mut self, at: KeyIndex, mut write: Write, error: SinkError) {
        let is_update = write.ticket.is_update;
        let is_same = match error.stored() {
            Some(stored) => write.is(stored),
            // An attempt to create the event, whose answer was lost, has been done after all. Or
            // somebody has created the event of a series again, whose names nobody else has.
            None => write.ticket.unsure.is_some() || is_update && self.is_series(at),
        };
        if is_same && !is_update {
            let known = error.stored().map(|stored| (Stored::from(stored), times(stored)));
            self.discard(error);
            return self.stored_already(at, write, known);
        }
        if write.ticket.is_renamed || write.ticket.failed >= self.retry.attempts {
            return self.give_up(at, write, LossReason::AlreadyExists, error);
        }
        self.discard(error);
        write.ticket.is_retry = true;
        if is_update && is_same {
            // The event is there again, with its own count.
            write.ticket.failed += 1;
            write.turn_to_patch();
        } else {
            let object = &write.event.involved_object.name;
            let name = name::fresh(&self.clock, object, self.clock.now().into());
            if let Some((key, decided)) = self.pending.key(at) {
                self.refused.rename(key, decided, &name);
                if key.is_single() {
                    self.series.rename(key, &name);
                } else {
                    self.correlator.rename(key, decided, &name);
                }
            }
            self.pending.rename(at, &name);
            write.rename(name);
        }
        self.decided += self.pending.put_back(at, write, None);
    }

    /// Handles the answer that an earlier attempt has created the event. If the write has a later
    /// state by now, the store has yet to be told.
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

    fn give_up(&mut self, at: KeyIndex, write: Write, reason: LossReason, error: SinkError) {
        let Write { event, ticket } = write;
        self.decided += ticket.in_hand;
        self.lose(reason, &event, &ticket, error);
        if let Some((key, name)) = self.pending.key(at) {
            self.refused.add(key, name, reason, ticket.events);
        }
        self.pending.finish(at, None);
    }

    /// Counts and reports the loss of a write. A write that stands for no event is not reported.
    pub(super) fn lose(&mut self, reason: LossReason, event: &Event, ticket: &Ticket, error: SinkError) {
        let events = ticket.events;
        *outcome(&mut self.tally, reason) += events;
        if reason != LossReason::Abandoned {
            // The sink's own code may format the error, and may panic.
            self.tally.last_refusal = catch_panic_message(|| error.to_string()).ok();
        }
        if events > 0 {
            let loss = Loss::new(reason, &self.name, slice::from_ref(event)).times(events).because(&error);
            self.losses.tell(&loss);
        }
        self.discard(error);
    }

    /// Gives up everything except what the sink is working on, because a shutdown by deadline has
    /// given up.
    pub(super) fn abandon(&mut self) {
        self.write_held();
        for Write { event, ticket } in self.pending.drain() {
            self.decided += ticket.in_hand;
            let error = SinkError::retry("the shutdown's deadline passed before it could be written");
            self.lose(LossReason::Abandoned, &event, &ticket, error);
        }
    }

    /// Drops an error. Its cause is the sink's own and may panic when it is dropped, and the event
    /// must not be lost with it.
    fn discard(&mut self, error: SinkError) {
        if catch_panic(|| drop(error)).is_none() {
            self.tally.panics += 1;
        }
    }
}

/// Returns the counter of the events that were given up for this reason.
fn outcome(tally: &mut RecordingStats, reason: LossReason) -> &mut u64 {
    match reason {
        LossReason::AlreadyExists => &mut tally.already_existed,
        LossReason::Exhausted => &mut tally.exhausted,
        LossReason::Abandoned => &mut tally.abandoned,
        _ => &mut tally.rejected,
    }
}
