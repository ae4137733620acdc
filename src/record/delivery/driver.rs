//! The driver of a recording. It correlates the events, has them written, tries again, and
//! remembers the outcomes.
//!
//! One thread decides everything, in rounds. In each round it does this:
//!
//! 1. It takes in the answers of the sink.
//! 2. It makes those writes ready that are due to be tried again.
//! 3. It takes in events, and makes a pending write of each, or replaces the one of its key.
//! 4. It gives each writer that is free the writes that are ready.
//! 5. It reports its progress.
//!
//! The driver never calls the sink, so it takes in events while the sink is at work or hangs.

mod intake;
mod outage;
mod outcome;

use std::time::Duration;

use crate::bus::{BulkReader, EndStage};
use crate::catch::catch_panic;
use crate::clock::Clock;
use crate::record::correlator::EventCorrelator;
use crate::record::event::{Event, Timestamp};
use crate::record::loss::LossHook;
use crate::record::series::SeriesMemory;
use crate::record::stats::RecordingStats;
use crate::sync::{Arc, Mutex};

use super::alerts::Alerts;
use super::breaker::{BreakerState, CircuitBreaker};
use super::flushes::Flushes;
use super::pending::PendingWrites;
use super::refused::RefusedCounts;
use super::retry::{RetryIf, RetryPolicy};
use super::writers::{BATCH, Writers};

/// The longest time that a batch should take. If a batch takes longer, the writer's next one has
/// half as many operations, otherwise it may have twice as many. The driver therefore hears from a
/// sink that works several times a second.
const LONG_CALL: Duration = Duration::from_millis(250);

/// The time after which a sink that has not answered counts as unavailable.
const SILENCE: Duration = Duration::from_secs(1);

/// The state of a running recording. It lives on the recording's thread.
pub(super) struct Driver {
    // The fields are dropped in this order, the reader last. A thread that waits for the end
    // therefore also waits until the sink and the correlator's functions are dropped.
    pub(super) writers: Writers,
    /// The only owner of its caches and of the user's functions in its options, so that both are
    /// dropped when the recording ends.
    pub(super) correlator: EventCorrelator,
    /// The series in which events are counted that have an event time.
    pub(super) series: SeriesMemory,
    /// The flushes that run. While there are any, nothing is held back.
    pub(super) flushes: Arc<Flushes>,
    pub(super) pending: PendingWrites,
    /// The events that were given up and that a later write may yet carry.
    pub(super) refused: RefusedCounts,
    pub(super) breaker: CircuitBreaker,
    pub(super) alerts: Alerts,
    /// Whether the end had begun when this round began.
    pub(super) is_ending: bool,
    pub(super) name: String,
    pub(super) clock: Clock,
    pub(super) retry: RetryPolicy,
    pub(super) retry_if: Option<RetryIf>,
    /// The counters so far. The texts about failures are those that have not been published yet.
    pub(super) tally: RecordingStats,
    /// The published counters: all except those that the watcher keeps itself.
    pub(super) stats: Arc<Mutex<RecordingStats>>,
    pub(super) losses: Arc<LossHook>,
    /// The number of events that have been decided since the driver last gave back room.
    pub(super) decided: u64,
    pub(super) reader: BulkReader<Event>,
}

impl Driver {
    /// Runs until the bus has ended or the recording was stopped, and every event has its outcome.
    pub(super) fn run(mut self) {
        let mut is_over = false;
        loop {
            let has_answers = self.take_answers();
            // The stage is read before the sink gets work, so that everything that is given to the
            // sink after the end has begun gets its one attempt.
            let stage = self.reader.stage();
            self.is_ending = stage != EndStage::Running;
            if stage == EndStage::Abandoned {
                self.abandon();
                is_over = true;
            }
            self.retry_due();
            let has_events = !is_over && self.read_events(&mut is_over);
            self.write_held();
            let has_given = self.give_work();
            let is_done = is_over && self.pending.is_empty() && self.series.offset().is_none();
            self.judge_store(is_done);
            self.publish_progress();
            if is_done {
                break;
            }
            if !has_answers && !has_events && !has_given {
                self.sleep(is_over, stage);
            }
        }
        // The user's functions are dropped one by one, because each may panic.
        let Self { writers, correlator, alerts, retry_if, reader, .. } = self;
        drop(writers);
        catch_panic(|| drop(correlator));
        catch_panic(|| drop(alerts));
        catch_panic(|| drop(retry_if));
        drop(reader);
    }

    /// Makes those writes ready that have waited long enough. After the end has begun, these are
    /// all that wait.
    fn retry_due(&mut self) {
        if self.breaker_state() == BreakerState::Closed {
            let (clock, is_ending) = (&self.clock, self.is_ending);
            self.pending.retry_due(|at| is_ending || clock.has_passed(Some(at)));
        }
    }

    /// Gives work to the free writers. Returns whether it gave any.
    fn give_work(&mut self) -> bool {
        // All writers get what is ready, or one writer gets one event, to see whether the store is
        // there again. The breaker is half open only while all writers are free.
        let (writers, most, is_probe) = match self.breaker_state() {
            BreakerState::Closed => (0..self.writers.len(), BATCH, false),
            BreakerState::HalfOpen => {
                let Some(writer) = self.pending.choose_probe() else { return false };
                (writer..writer + 1, 1, true)
            }
            BreakerState::Open(_) => return false,
        };
        if !self.pending.has_ready() {
            return false;
        }
        let mut any = false;
        for writer in writers {
            let Some((batch, limit)) = self.writers.batch(writer) else { continue };
            let (is_last, retried) = (self.is_ending, &mut self.tally.retried);
            self.pending.take_batch(writer, limit.min(most), batch, |ticket| {
                (ticket.is_last, ticket.is_probe) = (is_last, is_probe);
                *retried += u64::from(std::mem::take(&mut ticket.is_retry));
            });
            if !batch.ops.is_empty() {
                let since = (self.moment_after(Duration::ZERO), Timestamp::from(self.clock.now()));
                self.writers.give(writer, since);
                any = true;
            }
        }
        any
    }

    /// Publishes what has been decided. The outcomes come first, so that each delivered event has
    /// one, unless the event waits with another.
    fn publish_progress(&mut self) {
        let correlator = self.correlator.stats();
        self.tally.aggregated = correlator.aggregated;
        self.tally.evicted = correlator.evicted + self.series.evicted();
        let mut stats = self.stats.lock();
        // The texts are moved, because copies in every round would be two allocations.
        let last_refusal = self.tally.last_refusal.take().or_else(|| stats.last_refusal.take());
        let last_failure = self.tally.last_failure.take().or_else(|| stats.last_failure.take());
        *stats = RecordingStats { last_refusal, last_failure, ..self.tally.clone() };
        drop(stats);
        self.reader.give_back(std::mem::take(&mut self.decided));
        let waiting = [self.pending.offset(), self.series.offset()];
        self.reader.set_handled(waiting.into_iter().flatten().min());
        self.pending.tidy();
    }

    fn sleep(&mut self, is_over: bool, stage: EndStage) {
        let due = match self.breaker_state() {
            BreakerState::Closed => self.pending.next_due(),
            // The probe has become due since the last look.
            BreakerState::HalfOpen if self.pending.has_any() => return,
            // There is nothing to try.
            BreakerState::HalfOpen => None,
            BreakerState::Open(until) => until,
        };
        let silent = self.silence_begins();
        let held = self.series.next_due().into_iter().chain(self.pending.next_release());
        let due = due.into_iter().chain(silent).chain(held).min();
        let takes = !is_over && !self.is_full();
        let holds = self.series.offset().is_some() || self.pending.has_held();
        let is_awaited = || holds && self.flushes.is_running();
        self.reader.wait(due, takes, stage, || self.writers.has_answers() || is_awaited());
    }

    fn breaker_state(&self) -> BreakerState {
        // Everything that is left gets its one attempt, whether the store is there or not.
        if self.is_ending {
            return BreakerState::Closed;
        }
        self.breaker.state(self.writers.is_idle(), |at| self.has_passed(at))
    }

    fn moment_after(&self, pause: Duration) -> Duration {
        self.clock.deadline(pause).unwrap_or(Duration::MAX)
    }

    fn has_passed(&self, at: Duration) -> bool {
        self.clock.has_passed(Some(at))
    }
}
