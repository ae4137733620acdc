//! Handles failed operations.

use std::error::Error;
use std::time::Duration;

use crate::catch::catch_panic_message;
use crate::record::event::Timestamp;
use crate::record::loss::LossReason;
use crate::record::sink::{SinkError, SinkErrorKind};
use crate::record::stats::SinkFailure;

use super::super::breaker::CircuitBreaker;
use super::super::pending::{GroupIndex, Trouble};
use super::super::write::{KeyIndex, Ticket, Write};
use super::Driver;

/// The number of a group's consecutive operations that the store must have failed to serve before
/// the recording, while it is ending, makes no more attempts for the group.
const MISSES: u32 = 3;

/// The time for which a refused group is retried before its events are lost. An API server that has
/// just started refuses even authorised users for up to 1.5 s, until the server knows its roles.
const PATIENCE: Duration = Duration::from_secs(30);

/// A failed attempt.
pub(super) struct Attempt {
    pub(super) group: GroupIndex,
    /// The number of responses that the group had received when the attempt began.
    pub(super) answers: u64,
    pub(super) took: Duration,
    pub(super) now: Duration,
}

/// The scope of a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Concern {
    Key,
    Group,
    Store,
}

impl Driver {
    pub(super) fn refused(&mut self, at: KeyIndex, mut write: Write, error: SinkError, attempt: &Attempt) {
        use SinkErrorKind::{Forbidden, GroupUnavailable};
        let concern = self.concern(&error, attempt);
        if concern == Concern::Key && !matches!(error.kind(), GroupUnavailable | Forbidden) {
            self.note_answer(attempt.group, attempt.took, attempt.now);
        } else {
            self.pending.groups.took(attempt.group, attempt.took, attempt.now, false);
        }
        let reason = match error.kind() {
            SinkErrorKind::Retry | SinkErrorKind::Unavailable | SinkErrorKind::GroupUnavailable => {
                return self.failed(at, write, error, attempt.group, concern);
            }
            SinkErrorKind::Forbidden => return self.forbidden(at, write, error, attempt),
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
        self.give_up(at, &write, reason, error);
    }

    /// Returns the scope of a failure. If the group has received a response since the attempt
    /// began, the store is serving the group, so the failure concerns only the event.
    fn concern(&self, error: &SinkError, attempt: &Attempt) -> Concern {
        match error.kind() {
            SinkErrorKind::Unavailable => Concern::Store,
            SinkErrorKind::GroupUnavailable => {
                let answers = self.pending.groups.at(attempt.group).answers;
                if answers > attempt.answers { Concern::Key } else { Concern::Group }
            }
            _ => Concern::Key,
        }
    }

    /// Handles a refusal that is not caused by the event itself. A store that has just started may
    /// refuse operations that it allows shortly afterwards, so the group waits for a while before
    /// its events are lost.
    fn forbidden(&mut self, at: KeyIndex, mut write: Write, error: SinkError, attempt: &Attempt) {
        let (group, now) = (attempt.group, Timestamp::from(self.clock.now()));
        let entry = self.pending.groups.at_mut(group);
        let first = *entry.refused_at.get_or_insert(attempt.now);
        // If the sink is allowed to perform some operations and not others, the group has received
        // responses since the last refusal.
        let before = std::mem::replace(&mut entry.refused_answers, entry.answers);
        let is_served = entry.answers > attempt.answers || before > 0 && entry.answers > before;
        let own = *write.ticket.refused_at.get_or_insert(attempt.now);
        let has_lasted = |since| attempt.now.saturating_sub(since) >= PATIENCE;
        let is_over = has_lasted(first) || has_lasted(own);
        // If an event is not retried, it has nothing to wait for, so it does not make other events
        // wait.
        let waits = !write.ticket.is_last && self.retry.attempts > 1 && self.is_worth_it(&error);
        let lost = is_over || !waits;
        self.miss_group(group, now, error.retry_after(), waits && !is_served);
        // A refusal does not show that the store is serving other groups again.
        self.breaker.missed(now, error.retry_after(), false);
        self.note_failure(&mut write.ticket, &error, now, group, Concern::Group);
        if lost {
            // Formatting the cause may call the sink's own code, which may panic.
            let cause = catch_panic_message(|| error.source().map(ToString::to_string)).ok().flatten();
            self.give_up(at, &write, LossReason::Rejected, error);
            if has_lasted(first) {
                let cause = cause.unwrap_or_default();
                self.lose_group(Some(group), LossReason::Rejected, || {
                    SinkError::new(SinkErrorKind::Forbidden, cause.clone())
                });
            }
            return;
        }
        write.ticket.is_retry = true;
        let pause = self.retry.pause(1, error.retry_after());
        self.discard(error);
        let until = self.moment_after(pause);
        self.decided += self.pending.put_back(at, write, Some(until));
    }

    fn is_worth_it(&mut self, error: &SinkError) -> bool {
        let Some(retry_if) = &mut self.retry_if else { return true };
        catch_panic_message(|| retry_if(error)).unwrap_or_else(|_| {
            self.tally.panics += 1;
            true
        })
    }

    /// Handles an error after which the write may succeed later.
    fn failed(
        &mut self,
        at: KeyIndex,
        mut write: Write,
        error: SinkError,
        group: GroupIndex,
        concern: Concern,
    ) {
        let is_worth_it = self.is_worth_it(&error);
        write.doubt();
        let ticket = &mut write.ticket;
        // A probe without a response does not indicate anything about its event.
        let counts = concern == Concern::Key || !ticket.is_probe;
        ticket.failed = ticket.failed.saturating_add(u32::from(counts));
        (ticket.is_retry, ticket.refused_at) = (true, None);
        let failed = ticket.failed;
        let lost = if !is_worth_it || failed >= self.retry.attempts {
            Some(LossReason::Exhausted)
        } else {
            ticket.is_last.then_some(LossReason::Abandoned)
        };
        let is_last = ticket.is_last;
        // If an event is not retried, it has nothing to wait for, so it does not make other events
        // wait.
        let now = Timestamp::from(self.clock.now());
        match concern {
            Concern::Store => {
                self.breaker.missed(now, error.retry_after(), lost.is_none());
                // A store that has just become available again may refuse all groups for a while.
                self.pending.groups.forget_refusals();
            }
            Concern::Group => {
                self.miss_group(group, now, error.retry_after(), lost.is_none());
                // If the store is unavailable and does not respond for a group, the next probe of
                // the store is made only after a pause.
                self.breaker.missed(now, error.retry_after(), false);
            }
            Concern::Key => {}
        }
        self.note_failure(&mut write.ticket, &error, now, group, concern);
        if let Some(reason) = lost {
            self.give_up(at, &write, reason, error);
        } else {
            let pause = self.retry.pause(failed.max(1), error.retry_after());
            self.discard(error);
            write.turn_to_patch();
            let until = self.moment_after(pause);
            self.decided += self.pending.put_back(at, write, Some(until));
        }
        if is_last && concern == Concern::Group && self.pending.groups.at(group).missed >= MISSES {
            // Each additional attempt would take just as long, and the recording would have to wait
            // for all these attempts before it could end.
            let why = || {
                SinkError::new(SinkErrorKind::GroupUnavailable, "the store does not respond for its group")
            };
            self.lose_group(Some(group), LossReason::Abandoned, why);
        }
    }

    /// Notes that the store did not serve a group. `closes` is true if the failure closes the
    /// group.
    fn miss_group(&mut self, group: GroupIndex, now: Timestamp, wait: Option<Duration>, closes: bool) {
        let answers = self.answers;
        let entry = self.pending.groups.at_mut(group);
        entry.missed = entry.missed.saturating_add(1);
        entry.breaker.missed(now, wait, closes);
        if entry.is_closed() {
            entry.closed_at = Some(answers);
            self.judged.push(group);
        }
    }

    /// Reports why an attempt failed. The failure is reported immediately, not only when the event
    /// is dropped.
    fn note_failure(
        &mut self,
        ticket: &mut Ticket,
        error: &SinkError,
        now: Timestamp,
        group: GroupIndex,
        concern: Concern,
    ) {
        let first = *ticket.failing_since.get_or_insert(now);
        // Formatting the error may call the sink's own code, which may panic.
        let text = catch_panic_message(|| error.to_string()).unwrap_or_default();
        let has_groups = self.pending.groups.are_several();
        let entry = self.pending.groups.at_mut(group);
        let opened = |breaker: &CircuitBreaker| breaker.since().map(|since| (since, breaker.attempts()));
        let opened = match concern {
            Concern::Store => opened(&self.breaker),
            Concern::Group => opened(&entry.breaker),
            Concern::Key => None,
        };
        let (since, attempts) = opened.unwrap_or((first, u64::from(ticket.failed)));
        if concern == Concern::Group && opened.is_some() && has_groups {
            let is_told = entry.trouble.as_ref().is_some_and(|trouble| trouble.is_told);
            entry.trouble = Some(Box::new(Trouble { since, text: text.clone(), is_told, was_store: false }));
            self.has_new_groups = true;
        }
        let failure = SinkFailure { text, since, attempts };
        if opened.is_none() {
            self.alerts.failed(&self.clock, &self.name, &failure);
        }
        self.tally.last_failure = Some(failure);
    }
}
