//! The driver of a recording. It correlates the events, has them written, tries again, and
//! remembers the outcomes.
//!
//! One thread decides everything, in rounds. In each round it does this:
//!
//! 1. It takes in the answers of the sink.
//! 2. It sends off the writes that are due to be tried again.
//! 3. It takes as many events as can be written at once.
//! 4. It has the sink write.
//! 5. It reports its progress.
//!
//! Other threads do nothing except the sink's own work, so the only order between them is that of
//! [`KeyQueues`].

mod intake;
mod outcome;

use std::collections::VecDeque;
use std::time::Duration;

use crate::bus::{BulkNext, BulkReader, EndStage};
use crate::catch::catch_panic;
use crate::clock::Clock;
use crate::record::correlator::EventCorrelator;
use crate::record::event::Event;
use crate::record::loss::LossHook;
use crate::record::sink::EventSink;
use crate::record::stats::RecordingStats;
use crate::sync::{Arc, Mutex};

use super::alerts::Alerts;
use super::breaker::{BreakerState, CircuitBreaker};
use super::in_flight::KeyQueues;
use super::retry::{RetryIf, RetryPolicy};
use super::workers::{Attempt, Attempts, Workers};
use super::write::Write;

/// The largest number of operations that the sink gets at once.
const BATCH: usize = 256;

/// The state of a running recording. It lives on the recording's thread.
pub(super) struct Driver<S> {
    // The fields are dropped in this order, the reader last. A thread that waits for the end
    // therefore also waits until the sink and the correlator's functions are dropped.
    workers: Workers<S>,
    /// The only owner of its caches and of the user's functions in its options, so that both are
    /// dropped when the recording ends.
    correlator: EventCorrelator,
    in_flight: KeyQueues,
    /// The writes that may be given to the sink now, for each worker.
    ready: Vec<VecDeque<Write>>,
    breaker: CircuitBreaker,
    alerts: Alerts,
    /// Whether the end had begun when this round began.
    is_ending: bool,
    /// An empty list into which the driver takes the answers, kept for its allocated room.
    attempts: Attempts,
    name: String,
    clock: Clock,
    retry: RetryPolicy,
    retry_if: Option<RetryIf>,
    tally: RecordingStats,
    /// The published counters: all except those that the watcher keeps itself.
    stats: Arc<Mutex<RecordingStats>>,
    losses: Arc<LossHook>,
    /// The number of events that have been decided since the driver last gave back room.
    decided: u64,
    reader: BulkReader<Event>,
}

/// The parts of which a driver is made.
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

    /// Runs until the bus has ended or the recording was stopped, and every event has its outcome.
    pub(super) fn run(mut self) {
        let mut is_over = false;
        loop {
            let answered = self.take_attempts();
            // The stage is read before the sink gets work, so that everything that is given to the
            // sink after the end has begun gets its one attempt.
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
                // No event waits for the store any more.
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
        // The user's functions are dropped one by one, because each may panic.
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
        // The list is kept for its allocated room.
        self.attempts = attempts;
        self.judge_store();
        any
    }

    /// Decides, from all the answers of a round, whether the store is there, and reports when that
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

    /// Makes those writes ready that have waited long enough. After the end has begun, these are
    /// all that wait.
    fn retry_due(&mut self) {
        if self.breaker_state() == BreakerState::Closed {
            while self.in_flight.next_due().is_some_and(|at| self.is_ending || self.has_passed(at)) {
                let Some(write) = self.in_flight.take_next() else { continue };
                self.make_ready(write);
            }
        }
    }

    /// Takes events while there is room for their writes. Returns whether there will be no more
    /// events.
    fn read_events(&mut self) -> bool {
        while self.wants_more() {
            match self.reader.take() {
                BulkNext::Events(run) => {
                    for (position, event) in (run.position()..).zip(run.events()) {
                        let comes_next = self.correlate(event, position);
                        // With one worker the writes keep the order of the events, so the write
                        // before this one with the same key must be finished first.
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

    /// Returns whether more events should be taken. While nothing can be written, the driver takes
    /// all events for which there is room, so that they are counted.
    fn wants_more(&self) -> bool {
        let ready = self.ready.iter().map(VecDeque::len).sum::<usize>();
        !self.reader.is_full()
            && (ready < BATCH * self.ready.len() || self.breaker_state() != BreakerState::Closed)
    }

    /// Gives work to the free workers. Returns whether it gave any.
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

    /// Has the sink write one event, to see whether the store is there again. This is an event that
    /// is ready to be written, or else the one that has waited longest. An event at which the store
    /// hangs can therefore not keep the breaker open. Returns `false` if there is no event to try.
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

    /// Publishes what has been decided. The outcomes come first, so that each delivered event has
    /// one, unless the event waits with another. `next` is the position of the first event that was
    /// taken and has not been looked at.
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
            // The probe has become due since the last look.
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
            // The attempts that still run may bring the answer.
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
}
