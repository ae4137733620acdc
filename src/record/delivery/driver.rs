//! A recording's driver, which correlates the events, passes them to the writers, retries failed
//! writes, and records the outcomes.
//!
//! One thread makes all decisions, in rounds. In each round, this thread performs the following
//! steps:
//!
//! 1. Process the sink's responses.
//! 2. Make writes ready if their retry is due.
//! 3. Read events. Each event becomes a pending write, or replaces the pending write for its key.
//! 4. Give the ready writes to the free writers.
//! 5. Report the recording's progress.
//!
//! The driver does not call the sink, except to determine an event's group, so it continues to read
//! events even while a write hangs or the sink is busy.

mod failure;
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
use crate::record::sink::WriteOrder;
use crate::record::stats::RecordingStats;
use crate::sync::{Arc, Mutex};

use super::alerts::Alerts;
use super::breaker::{BreakerState, CircuitBreaker};
use super::flushes::Flushes;
use super::pending::{GroupIndex, PendingWrites, Places};
use super::refused::RefusedCounts;
use super::retry::{RetryIf, RetryPolicy};
use super::write::{Ops, Ticket};
use super::writers::Writers;

/// The time without any response after which a sink counts as unavailable.
const SILENCE: Duration = Duration::from_secs(1);

/// The state of a running recording, which is owned by the recording's thread.
pub(super) struct Driver {
    // The fields are dropped in the order of their declaration, the reader last. A thread that
    // waits for the recording to end therefore also waits until the sink and the correlator's
    // functions have been dropped.
    pub(super) writers: Writers,
    /// The correlator is the only owner of its caches and of the user-supplied functions in its
    /// options, so that both are dropped when the recording ends.
    pub(super) correlator: EventCorrelator,
    /// The series in which events with an event time are counted.
    pub(super) series: SeriesMemory,
    /// The running flushes. While any flush is running, no writes are held.
    pub(super) flushes: Arc<Flushes>,
    pub(super) pending: PendingWrites,
    /// The dropped events whose counts a later write may still include.
    pub(super) refused: RefusedCounts,
    pub(super) breaker: CircuitBreaker,
    /// The groups whose breakers have recorded a response, or a missing response, in the current
    /// round.
    pub(super) judged: Vec<GroupIndex>,
    /// The number of responses so far.
    pub(super) answers: u64,
    /// The time at which the sink last responded, as monotonic time and as time of day.
    pub(super) answered: Option<(Duration, Timestamp)>,
    /// The value of `answers` when the store was last found to be unavailable.
    pub(super) away_at: u64,
    /// The time at which the driver last tried to give work to the writers.
    pub(super) looked_at: Duration,
    /// The time at which a group becomes slow if the sink has not responded to an operation in
    /// progress by then.
    pub(super) slow_at: Option<Duration>,
    /// Whether the information about degraded groups has changed since it was last published.
    pub(super) has_new_groups: bool,
    pub(super) alerts: Alerts,
    /// Whether the recording was already ending when the current round began.
    pub(super) is_ending: bool,
    pub(super) name: String,
    pub(super) order: WriteOrder,
    pub(super) clock: Clock,
    pub(super) retry: RetryPolicy,
    pub(super) retry_if: Option<RetryIf>,
    /// The counters so far. Descriptions of failures are present only if they have not been
    /// published yet.
    pub(super) tally: RecordingStats,
    /// The published counters, except the counters that the watcher itself keeps.
    pub(super) stats: Arc<Mutex<RecordingStats>>,
    pub(super) losses: Arc<LossHook>,
    /// The number of events decided since the driver last returned capacity to the queue.
    pub(super) decided: u64,
    /// An empty list that is kept to reuse its allocation.
    pub(super) ops: Ops,
    pub(super) reader: BulkReader<Event>,
}

impl Driver {
    /// Runs until the bus has ended or the recording has been stopped, and every event has an
    /// outcome.
    pub(super) fn run(mut self) {
        let mut is_over = false;
        loop {
            let has_answers = self.take_answers();
            // The stage is read before work is given to the sink, so that every write given to the
            // sink while the recording is ending is attempted once.
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
        // The user-supplied functions are dropped individually, because dropping each of these
        // functions may panic.
        let Self { writers, pending, correlator, alerts, retry_if, reader, .. } = self;
        // The last writer drops the sink. The groups also hold a reference to the sink, so the
        // groups are dropped first.
        drop(pending);
        drop(writers);
        catch_panic(|| drop(correlator));
        catch_panic(|| drop(alerts));
        catch_panic(|| drop(retry_if));
        drop(reader);
    }

    /// Makes writes ready if they have waited long enough for their next attempt. Once the
    /// recording is ending, makes all waiting writes ready.
    fn retry_due(&mut self) {
        if self.breaker_state() == BreakerState::Closed {
            let (clock, is_ending) = (&self.clock, self.is_ending);
            self.pending.retry_due(|at| is_ending || clock.has_passed(Some(at)));
        }
    }

    /// Gives work to the free writers. Returns whether any work was given.
    fn give_work(&mut self) -> bool {
        let now = self.moment_after(Duration::ZERO);
        self.looked_at = now;
        let state = self.breaker_state();
        if matches!(state, BreakerState::Open(_)) || !self.pending.has_any() {
            return false;
        }
        let (has_groups, free) = (self.pending.groups.are_several(), self.free_places());
        if free == 0 {
            return false;
        }
        let since = (now, Timestamp::from(self.clock.now()));
        let (is_ending, retried) = (self.is_ending, &mut self.tally.retried);
        let mut note = |ticket: &mut Ticket, is_probe| {
            (ticket.is_last, ticket.is_probe) = (is_ending, is_probe);
            *retried += u64::from(std::mem::take(&mut ticket.is_retry));
        };
        if state == BreakerState::HalfOpen {
            // One writer gets one event, to find out whether the store is available again.
            self.pending.take_probe(since, &mut self.ops, |ticket| note(ticket, true));
        } else {
            let total = self.writers.places(has_groups);
            self.ops.reserve(free.min(self.pending.ready()));
            for free in (1..=free).rev() {
                let places = Places { total, free, is_ending };
                if !self.pending.take_next(places, since, &mut self.ops, &mut note) {
                    break;
                }
            }
        }
        let any = !self.ops.ids.is_empty();
        if any {
            self.writers.give(&mut self.ops, now);
        }
        any
    }

    /// Returns the number of operations that may be given to the sink now.
    fn free_places(&self) -> usize {
        let in_flight = self.pending.in_flight();
        // With `WriteOrder::Bus`, the next write waits for the response to the previous write.
        if self.order == WriteOrder::Bus && in_flight > 0 {
            return 0;
        }
        self.writers.free(in_flight, self.pending.groups.are_several())
    }

    /// Publishes the driver's progress. The outcomes are published first, so that each event that
    /// counts as delivered has an outcome, unless the event is waiting together with another event.
    fn publish_progress(&mut self) {
        let correlator = self.correlator.stats();
        self.tally.aggregated = correlator.aggregated;
        self.tally.evicted = correlator.evicted + self.series.evicted();
        let mut stats = self.stats.lock();
        // The strings are moved, because copying them would cost two allocations in every round.
        let last_refusal = self.tally.last_refusal.take().or_else(|| stats.last_refusal.take());
        let last_failure = self.tally.last_failure.take().or_else(|| stats.last_failure.take());
        let degraded_groups = if std::mem::take(&mut self.has_new_groups) {
            self.degraded_groups()
        } else {
            std::mem::take(&mut stats.degraded_groups)
        };
        *stats = RecordingStats { last_refusal, last_failure, degraded_groups, ..self.tally.clone() };
        drop(stats);
        self.reader.give_back(std::mem::take(&mut self.decided));
        let waiting = [self.pending.offset(), self.series.offset()];
        self.reader.set_handled(waiting.into_iter().flatten().min());
        self.pending.tidy();
    }

    fn sleep(&mut self, is_over: bool, stage: EndStage) {
        let due = match self.breaker_state() {
            BreakerState::Closed => self.pending.next_due(),
            // The probe has become due since the last check.
            BreakerState::HalfOpen if self.pending.has_any() && self.free_places() > 0 => return,
            // There is no write to probe with, or no free writer to perform the probe.
            BreakerState::HalfOpen => None,
            BreakerState::Open(until) => until,
        };
        let groups = [self.silence_begins(), self.slow_at, self.next_probe()];
        let held = self.series.next_due().into_iter().chain(self.pending.next_release());
        let due = due.into_iter().chain(groups.into_iter().flatten()).chain(held).min();
        let takes = !is_over && !self.is_full();
        let holds = self.series.offset().is_some() || self.pending.has_held();
        let is_awaited = || holds && self.flushes.is_running();
        self.reader.wait(due, takes, stage, || self.writers.has_news() || is_awaited());
    }

    fn breaker_state(&self) -> BreakerState {
        // Every remaining write is attempted once, whether or not the store is available.
        if self.is_ending {
            return BreakerState::Closed;
        }
        // An operation that has run for a long time does not indicate the current state of the
        // store.
        let is_idle = || self.pending.under_way().all(|op| self.has_lasted(op.since.0, SILENCE));
        self.breaker.state(is_idle, |at| self.has_passed(at))
    }

    fn moment_after(&self, pause: Duration) -> Duration {
        self.clock.deadline(pause).unwrap_or(Duration::MAX)
    }

    fn has_passed(&self, at: Duration) -> bool {
        self.clock.has_passed(Some(at))
    }
}
