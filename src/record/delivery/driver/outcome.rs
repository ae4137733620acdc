//! The way from the sink's answer to an event's outcome.

use std::slice;

use crate::catch::{catch_panic, catch_panic_message};
use crate::record::event::{Event, Timestamp, name};
use crate::record::loss::{Loss, LossReason};
use crate::record::sink::{EventSink, SinkError, SinkErrorKind, Stored};
use crate::record::stats::SinkFailure;

use super::super::write::{Ticket, Write};
use super::Driver;

impl<S: EventSink> Driver<S> {
    pub(super) fn stored(&mut self, write: Write, stored: &Stored) {
        self.breaker.answered();
        let created = write.creates();
        let ticket = write.ticket;
        let name = self.correlator.confirm_as(&ticket.key, stored, ticket.is_renamed);
        self.decided += ticket.in_hand;
        let counter = if created { &mut self.tally.created } else { &mut self.tally.updated };
        // If several events were folded into one write, the first may have created the stored
        // event.
        *counter += ticket.events.min(1);
        self.tally.updated += ticket.events.saturating_sub(1);
        self.tally.recreated += u64::from(created && ticket.is_update && ticket.events > 0);
        if let Some(mut next) = self.in_flight.finish(&ticket.key) {
            next.follow(stored, name);
            self.make_ready(next);
        }
    }

    pub(super) fn refused(&mut self, mut write: Write, error: SinkError) {
        if !error.is_unreachable() {
            self.breaker.answered();
        }
        let reason = match error.kind() {
            SinkErrorKind::Retry => return self.failed(write, error),
            SinkErrorKind::NotFound if !write.creates() => {
                self.discard(error);
                write.turn_to_create();
                return self.make_ready(write);
            }
            SinkErrorKind::AlreadyExists if write.creates() => return self.taken(write, error),
            SinkErrorKind::AlreadyExists => LossReason::AlreadyExists,
            SinkErrorKind::Rejected | SinkErrorKind::NotFound => LossReason::Rejected,
        };
        self.give_up(write, reason, error);
    }

    fn is_worth_it(&mut self, error: &SinkError) -> bool {
        let Some(retry_if) = &mut self.retry_if else { return true };
        catch_panic_message(|| retry_if(error)).unwrap_or_else(|_| {
            self.tally.panics += 1;
            true
        })
    }

    /// Handles an error after which the write may work later.
    fn failed(&mut self, mut write: Write, error: SinkError) {
        let (creates, is_away) = (write.creates(), error.is_unreachable());
        let is_worth_it = self.is_worth_it(&error);
        let ticket = &mut write.ticket;
        // A probe without an answer says nothing about its event.
        ticket.failed = ticket.failed.saturating_add(u32::from(!(is_away && ticket.is_probe)));
        ticket.is_retry = true;
        ticket.is_unsure |= creates;
        let failed = ticket.failed;
        let lost = if !is_worth_it || failed >= self.retry.attempts {
            Some(LossReason::Exhausted)
        } else {
            ticket.is_last.then_some(LossReason::Abandoned)
        };
        let now = Timestamp::from(self.clock.now());
        if is_away {
            // An event that is not tried again has nothing to wait for, so it makes no other one
            // wait.
            self.breaker.missed(now, error.wait(), lost.is_none());
        }
        self.note_failure(&mut write.ticket, &error, now);
        if let Some(reason) = lost {
            return self.give_up(write, reason, error);
        }
        let pause = self.retry.pause(failed.max(1), error.wait());
        self.discard(error);
        write.turn_to_patch();
        let until = self.moment_after(pause);
        self.in_flight.wait(write, until);
    }

    /// Reports why an attempt failed, at once and not only when the event is given up.
    fn note_failure(&mut self, ticket: &mut Ticket, error: &SinkError, now: Timestamp) {
        let first = *ticket.failing_since.get_or_insert(now);
        // The sink's own code may format the error, and may panic.
        let text = catch_panic_message(|| error.to_string()).unwrap_or_default();
        let unreachable_since = self.breaker.since().filter(|_| error.is_unreachable());
        let (since, attempts) = match unreachable_since {
            Some(since) => (since, self.breaker.attempts()),
            None => (first, u64::from(ticket.failed)),
        };
        let failure = SinkFailure { text, since, attempts };
        if unreachable_since.is_none() {
            self.alerts.failed(&self.clock, &self.name, &failure);
        }
        self.tally.last_failure = Some(failure);
    }

    /// Handles the answer that the store has an event of this name.
    fn taken(&mut self, mut write: Write, error: SinkError) {
        let is_same = match error.stored() {
            Some(stored) => write.is(stored),
            // An attempt to create the event, whose answer was lost, has been done after all.
            None => write.ticket.is_unsure,
        };
        if is_same && !write.ticket.is_update {
            let stored = Stored::from(error.stored().unwrap_or(&write.event));
            self.discard(error);
            return self.stored(write, &stored);
        }
        let is_update = write.ticket.is_update;
        if write.ticket.is_renamed || write.ticket.failed >= self.retry.attempts {
            return self.give_up(write, LossReason::AlreadyExists, error);
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
            write.rename(name);
        }
        self.make_ready(write);
    }

    fn give_up(&mut self, write: Write, reason: LossReason, error: SinkError) {
        let Write { event, ticket } = write;
        self.decided += ticket.in_hand;
        self.lose(reason, &event, ticket.events, error);
        if let Some(next) = self.in_flight.finish(&ticket.key) {
            self.make_ready(next);
        }
    }

    /// Counts and reports the loss of an event. `events` is 0 for a summary, which is not a
    /// delivered event but is reported like any other.
    pub(super) fn lose(&mut self, reason: LossReason, event: &Event, events: u64, error: SinkError) {
        *match reason {
            LossReason::AlreadyExists => &mut self.tally.already_existed,
            LossReason::Exhausted => &mut self.tally.exhausted,
            LossReason::Abandoned => &mut self.tally.abandoned,
            _ => &mut self.tally.rejected,
        } += events;
        if reason != LossReason::Abandoned {
            // The sink's own code may format the error, and may panic.
            self.tally.last_refusal = catch_panic_message(|| error.to_string()).ok();
        }
        let loss = Loss::new(reason, &self.name, slice::from_ref(event)).times(events.max(1)).because(&error);
        self.losses.tell(&loss);
        self.discard(error);
    }

    /// Gives up everything except what the sink is working on, because a shutdown by deadline has
    /// given up.
    pub(super) fn abandon(&mut self) {
        let mut left: Vec<Write> = self.ready.iter_mut().flat_map(|ready| ready.drain(..)).collect();
        left.extend(std::iter::from_fn(|| self.in_flight.take_next()));
        let behind: Vec<Write> = self.in_flight.take_behind().collect();
        for write in &left {
            // No other write waits behind this one any more.
            self.in_flight.finish(&write.ticket.key);
        }
        left.extend(behind);
        left.sort_by_key(|write| write.ticket.position);
        for Write { event, ticket } in left {
            self.decided += ticket.in_hand;
            let error = SinkError::retry("the shutdown's deadline passed before it could be written");
            self.lose(LossReason::Abandoned, &event, ticket.events, error);
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
