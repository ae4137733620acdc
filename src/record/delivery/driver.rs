//! What happens to the events of a recording: correlate, write, try again, remember.
//!
//! One thread decides everything, in rounds: take in the answers of the sink; send off what is due to be tried again;
//! take as many events as can be written at once; have the sink write; report how far it is. Only the sink's own work may
//! be done by others, so there is no order to be kept between them but that of [`KeyQueues`].

mod outcome;

use std::collections::VecDeque;
use std::time::Duration;

use crate::bus::{BulkNext, BulkReader, EndStage};
use crate::catch::{catch_panic, catch_panic_message};
use crate::clock::Clock;
use crate::record::correlator::{Correlation, EventCorrelator};
use crate::record::event::Event;
use crate::record::loss::{LossHook, LossReason};
use crate::record::sink::{EventSink, SinkError};
use crate::record::stats::RecordingStats;
use crate::sync::{Arc, Mutex};

use super::alerts::Alerts;
use super::breaker::{BreakerState, CircuitBreaker};
use super::in_flight::{Admission, KeyQueues};
use super::retry::{RetryIf, RetryPolicy};
use super::workers::{Attempt, Attempts, Workers};
use super::write::Write;

/// So many operations a sink is given at once.
const BATCH: usize = 256;

/// A recording at work. It lives on the recording's thread.
pub(super) struct Driver<S> {
    // In this order: whoever waits for the end also waits until the sink and the correlator's functions have gone.
    workers: Workers<S>,
    /// Here and nowhere else, so that its caches and the user's functions in it go when the recording ends.
    correlator: EventCorrelator,
    in_flight: KeyQueues,
    /// What may be written now, for each worker.
    ready: Vec<VecDeque<Write>>,
    breaker: CircuitBreaker,
    alerts: Alerts,
    /// Whether the end had begun when this round began.
    is_ending: bool,
    /// Empty but while they are taken in.
    attempts: Attempts,
    name: String,
    clock: Clock,
    retry: RetryPolicy,
    retry_if: Option<RetryIf>,
    tally: RecordingStats,
    /// All but what the watcher counts itself.
    stats: Arc<Mutex<RecordingStats>>,
    losses: Arc<LossHook>,
    /// Events that have been decided since room was last given back.
    decided: u64,
    reader: BulkReader<Event>,
}

/// What a recording is made of.
pub(super) struct Parts<S> {
    pub(super) workers: Workers<S>,
    pub(super) correlator: EventCorrelator,
    pub(super) name: String,
    pub(super) clock: Clock,
    pub(super) retry: RetryPolicy,
    pub(super) retry_if: Option<RetryIf>,
    pub(super) stats: Arc<Mutex<RecordingStats>>,
    pub(super) losses: Arc<LossHook>,
    pub(super) reader: BulkReader<Event>,
}

impl<S: EventSink> Driver<S> {
    pub(super) fn new(parts: Parts<S>) -> Self {
        let Parts { workers, correlator, name, clock, retry, retry_if, stats, losses, reader } = parts;
        Self {
            ready: std::iter::repeat_with(VecDeque::new).take(workers.len()).collect(),
            workers,
            correlator,
            in_flight: KeyQueues::default(),
            breaker: CircuitBreaker::default(),
            alerts: Alerts::default(),
            is_ending: false,
            attempts: Attempts::new(),
            name,
            clock,
            retry,
            retry_if,
            tally: RecordingStats::default(),
            stats,
            losses,
            decided: 0,
            reader,
        }
    }

    /// Until the bus has ended or the recording was stopped, and everything has its outcome.
    pub(super) fn run(mut self) {
        let mut is_over = false;
        loop {
            let answered = self.take_attempts();
            // Looked at first, so that everything that is given to the sink after the end has begun gets its one attempt.
            let stage = self.reader.stage();
            self.is_ending = stage != EndStage::Running;
            if stage == EndStage::Abandoned {
                self.abandon();
                is_over = true;
            }
            self.retry_due();
            is_over = is_over || self.read_events();
            let wrote = self.dispatch();
            let is_done = is_over && self.in_flight.is_empty() && self.workers.is_idle();
            if is_done {
                // Nobody waits for the store any more.
                self.tally.unreachable_since = None;
            }
            self.publish_progress(None);
            if is_done {
                break;
            }
            if !answered && !wrote {
                self.sleep(is_over, stage);
            }
        }
        // The user's functions go one by one: each may panic.
        let Self { workers, correlator, retry_if, reader, .. } = self;
        drop(workers);
        catch_panic(|| drop(correlator));
        catch_panic(|| drop(retry_if));
        drop(reader);
    }

    // ── one round ──

    fn take_attempts(&mut self) -> bool {
        let mut attempts = std::mem::take(&mut self.attempts);
        self.tally.panics += self.workers.take(&mut attempts);
        let any = !attempts.is_empty();
        for Attempt { write, result } in attempts.drain(..) {
            match result {
                Ok(stored) => self.stored(write, &stored),
                Err(error) => self.refused(write, error),
            }
        }
        // For the room it has.
        self.attempts = attempts;
        self.judge_store();
        any
    }

    /// Decides, from all the answers of a round, whether the store is there, and tells when that
    /// changes.
    fn judge_store(&mut self) {
        if let Some((rounds, wait)) = self.breaker.end_round() {
            let until = self.moment_after(self.retry.pause(rounds, wait));
            self.breaker.wait(until);
            if let Some(failure) = &self.tally.last_failure {
                self.alerts.unreachable(&self.clock, &self.name, failure);
            }
        }
        let before = std::mem::replace(&mut self.tally.unreachable_since, self.breaker.since());
        if let (Some(since), None) = (before, self.breaker.since()) {
            self.alerts.answers(&self.name, since);
        }
    }

    /// Sends off what has waited long enough; when the end has begun, all that waits.
    fn retry_due(&mut self) {
        if self.breaker_state() == BreakerState::Closed {
            while self.in_flight.next_due().is_some_and(|at| self.is_ending || self.has_passed(at)) {
                let Some(write) = self.in_flight.take_next() else { continue };
                self.make_ready(write);
            }
        }
    }

    /// Takes events while there is room for what they lead to. True: there will be no more.
    fn read_events(&mut self) -> bool {
        while self.wants_more() {
            match self.reader.take() {
                BulkNext::Events(run) => {
                    for (position, event) in (run.position()..).zip(run.events()) {
                        let comes_next = self.correlate(event, position);
                        // Who is alone writes in the order of the events: what came before goes first.
                        if comes_next && self.workers.len() == 1 && self.reader.stage() != EndStage::Abandoned
                        {
                            self.dispatch();
                            self.take_attempts();
                            self.publish_progress(Some(position + 1));
                        }
                    }
                }
                BulkNext::Empty => return false,
                BulkNext::End => return true,
            }
        }
        false
    }

    /// Whether more events should be taken. While nothing can be written all that have room are, to be counted.
    fn wants_more(&self) -> bool {
        let ready = self.ready.iter().map(VecDeque::len).sum::<usize>();
        !self.reader.is_full()
            && (ready < BATCH * self.ready.len() || self.breaker_state() != BreakerState::Closed)
    }

    /// Gives work to those who are free.
    fn dispatch(&mut self) -> bool {
        match self.breaker_state() {
            BreakerState::Closed => {}
            BreakerState::HalfOpen => return self.probe(),
            BreakerState::Open(_) => return false,
        }
        let mut any = false;
        for worker in 0..self.ready.len() {
            if self.ready[worker].is_empty() || !self.workers.is_free(worker) {
                continue;
            }
            let (ready, retried) = (&mut self.ready[worker], &mut self.tally.retried);
            let is_last = self.is_ending;
            self.workers.give(worker, |batch| {
                while let Some(mut write) = ready.pop_front() {
                    (write.ticket.is_last, write.ticket.is_probe) = (is_last, false);
                    *retried += u64::from(std::mem::take(&mut write.ticket.is_retry));
                    if batch.push(write) == BATCH {
                        break;
                    }
                }
            });
            any = true;
        }
        any
    }

    /// Has one event written, to see whether the store is there again: one that was not tried yet,
    /// or else the one that has waited longest. One event at which the store hangs cannot keep the
    /// breaker open.
    fn probe(&mut self) -> bool {
        let fresh = self.ready.iter_mut().find_map(VecDeque::pop_front);
        let Some(mut write) = fresh.or_else(|| self.in_flight.take_longest_waiting()) else {
            return false;
        };
        write.ticket.is_probe = true;
        self.tally.retried += u64::from(std::mem::take(&mut write.ticket.is_retry));
        let worker = write.ticket.key.share(self.ready.len());
        self.breaker.probe();
        self.workers.give(worker, |batch| {
            batch.push(write);
        });
        true
    }

    /// Publishes what has been decided. The outcomes first: what was delivered has one, unless it waits with another.
    /// `next` is the position of what was taken and has not been looked at.
    fn publish_progress(&mut self, next: Option<u64>) {
        let correlator = self.correlator.stats();
        (self.tally.aggregated, self.tally.evicted) = (correlator.aggregated, correlator.evicted);
        self.stats.lock().clone_from(&self.tally);
        self.reader.give_back(std::mem::take(&mut self.decided));
        self.reader.set_handled(self.in_flight.position().or(next));
    }

    fn sleep(&mut self, is_over: bool, stage: EndStage) {
        let due = match self.breaker_state() {
            BreakerState::Closed => self.in_flight.next_due(),
            // It has become due since the last look.
            BreakerState::HalfOpen if !self.in_flight.is_empty() => return,
            // There is nothing to try.
            BreakerState::HalfOpen => None,
            BreakerState::Open(until) => until,
        };
        let has_answers = self.workers.watch();
        let takes = !is_over && self.wants_more();
        self.reader.wait(due, takes, stage, has_answers);
    }

    fn breaker_state(&self) -> BreakerState {
        // Everything that is left gets its one attempt, whether the store is there or not.
        if self.is_ending {
            return BreakerState::Closed;
        }
        match self.breaker.state(|at| self.has_passed(at)) {
            // What is still being done may bring the answer.
            BreakerState::HalfOpen if !self.workers.is_idle() => BreakerState::Open(None),
            breaker_state => breaker_state,
        }
    }

    fn moment_after(&self, pause: Duration) -> Duration {
        self.clock.deadline(pause).unwrap_or(Duration::MAX)
    }

    fn has_passed(&self, at: Duration) -> bool {
        self.clock.has_passed(Some(at))
    }

    // ── from an event to a write ──

    /// True: it comes next after one of the same key that is about to be written.
    fn correlate(&mut self, event: &Event, position: u64) -> bool {
        match catch_panic_message(|| self.correlator.correlate(event)) {
            Ok(Correlation::Summarized { summary, event }) => {
                let comes_next = self.admit(*summary, position, 0);
                self.admit(*event, position, 1) || comes_next
            }
            Ok(decision) => self.admit(decision, position, 1),
            Err(text) => {
                self.tally.panics += 1;
                let text = format!("a function of the correlator's options panicked: {text}");
                self.decided += 1;
                self.lose(LossReason::Rejected, event, 1, SinkError::rejected(text));
                false
            }
        }
    }

    fn admit(&mut self, decision: Correlation, position: u64, events: u64) -> bool {
        let Some(write) = Write::of(decision, position, events) else {
            self.tally.skipped += events;
            self.decided += events;
            return false;
        };
        let is_away = self.breaker_state() != BreakerState::Closed;
        match self.in_flight.admit(write, is_away) {
            Admission::Now(write) => self.make_ready(write),
            Admission::Next => return true,
            Admission::Behind => {}
            Admission::Absorbed(room) => self.decided += room,
        }
        false
    }

    fn make_ready(&mut self, write: Write) {
        let worker = write.ticket.key.share(self.ready.len());
        self.ready[worker].push_back(write);
    }
}
