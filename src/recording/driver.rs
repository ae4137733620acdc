//! What happens to the events of a recording: correlate, write, try again, remember.
//!
//! One thread decides everything, in rounds: take in the answers of the sink; send off what is due to be tried again;
//! take as many events as can be written at once; have the sink write; report how far it is. Only the sink's own work may
//! be done by others, so there is no order to be kept between them but that of [`Lanes`].

mod outcome;

use std::collections::VecDeque;
use std::time::Duration;

use crate::bus::{Fed, Feed, Stage};
use crate::clock::Clock;
use crate::correlator::{Correlation, EventCorrelator};
use crate::event::Event;
use crate::guard::{caught, guarded};
use crate::loss::{LossHook, LossReason};
use crate::sink::{EventSink, SinkError};
use crate::stats::RecordingStats;
use crate::sync::{Arc, Mutex};

use super::alerts::Alerts;
use super::crew::{Answer, Answers, Crew};
use super::lanes::{Admitted, Lanes};
use super::outage::{Outage, Permit};
use super::retry::{RetryIf, RetryPolicy};
use super::write::Write;

/// So many operations a sink is given at once.
const BATCH: usize = 256;

/// A recording at work. It lives on the recording's thread.
pub(super) struct Driver<S> {
    // In this order: whoever waits for the end also waits until the sink and the correlator's functions have gone.
    crew: Crew<S>,
    /// Here and nowhere else, so that its caches and the user's functions in it go when the recording ends.
    correlator: EventCorrelator,
    lanes: Lanes,
    /// What may be written now, for each worker.
    ready: Vec<VecDeque<Write>>,
    outage: Outage,
    alerts: Alerts,
    /// Whether the end had begun when this round began.
    is_ending: bool,
    /// Empty but while they are taken in.
    answers: Answers,
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
    feed: Feed<Event>,
}

/// What a recording is made of.
pub(super) struct Parts<S> {
    pub(super) crew: Crew<S>,
    pub(super) correlator: EventCorrelator,
    pub(super) name: String,
    pub(super) clock: Clock,
    pub(super) retry: RetryPolicy,
    pub(super) retry_if: Option<RetryIf>,
    pub(super) stats: Arc<Mutex<RecordingStats>>,
    pub(super) losses: Arc<LossHook>,
    pub(super) feed: Feed<Event>,
}

impl<S: EventSink> Driver<S> {
    pub(super) fn new(parts: Parts<S>) -> Self {
        let Parts { crew, correlator, name, clock, retry, retry_if, stats, losses, feed } = parts;
        Self {
            ready: std::iter::repeat_with(VecDeque::new).take(crew.len()).collect(),
            crew,
            correlator,
            lanes: Lanes::default(),
            outage: Outage::default(),
            alerts: Alerts::default(),
            is_ending: false,
            answers: Answers::new(),
            name,
            clock,
            retry,
            retry_if,
            tally: RecordingStats::default(),
            stats,
            losses,
            decided: 0,
            feed,
        }
    }

    /// Until the bus has ended or the recording was stopped, and everything has its outcome.
    pub(super) fn run(mut self) {
        let mut is_over = false;
        loop {
            let answered = self.take_answers();
            // Looked at first, so that everything that is given to the sink after the end has begun gets its one attempt.
            let stage = self.feed.stage();
            self.is_ending = stage != Stage::Running;
            if stage == Stage::Abandoned {
                self.abandon();
                is_over = true;
            }
            self.wake();
            is_over = is_over || self.fill();
            let wrote = self.dispatch();
            let is_done = is_over && self.lanes.is_empty() && self.crew.is_idle();
            if is_done {
                // Nobody waits for the store any more.
                self.tally.unreachable_since = None;
            }
            self.settle(None);
            if is_done {
                break;
            }
            if !answered && !wrote {
                self.sleep(is_over, stage);
            }
        }
        // The user's functions go one by one: each may panic.
        let Self { crew, correlator, retry_if, feed, .. } = self;
        drop(crew);
        guarded(|| drop(correlator));
        guarded(|| drop(retry_if));
        drop(feed);
    }

    // ── one round ──

    fn take_answers(&mut self) -> bool {
        let mut answers = std::mem::take(&mut self.answers);
        self.tally.panics += self.crew.take(&mut answers);
        let any = !answers.is_empty();
        for Answer { write, result } in answers.drain(..) {
            match result {
                Ok(stored) => self.stored(write, &stored),
                Err(error) => self.refused(write, error),
            }
        }
        // For the room it has.
        self.answers = answers;
        self.judge_store();
        any
    }

    /// Decides, from all the answers of a round, whether the store is there, and tells when that
    /// changes.
    fn judge_store(&mut self) {
        if let Some((rounds, wait)) = self.outage.end_round() {
            let until = self.moment_after(self.retry.pause(rounds, wait));
            self.outage.wait(until);
            if let Some(failure) = &self.tally.last_failure {
                self.alerts.unreachable(&self.clock, &self.name, failure);
            }
        }
        let before = std::mem::replace(&mut self.tally.unreachable_since, self.outage.since());
        if let (Some(since), None) = (before, self.outage.since()) {
            self.alerts.answers(&self.name, since);
        }
    }

    /// Sends off what has waited long enough; when the end has begun, all that waits.
    fn wake(&mut self) {
        if self.permit() == Permit::All {
            while self.lanes.next_due().is_some_and(|at| self.is_ending || self.has_passed(at)) {
                let Some(write) = self.lanes.take_next() else { continue };
                self.make_ready(write);
            }
        }
    }

    /// Takes events while there is room for what they lead to. True: there will be no more.
    fn fill(&mut self) -> bool {
        while self.wants_more() {
            match self.feed.take() {
                Fed::Events(portion) => {
                    for (position, event) in (portion.position()..).zip(portion.events()) {
                        let comes_next = self.take_in(event, position);
                        // Who is alone writes in the order of the events: what came before goes first.
                        if comes_next && self.crew.len() == 1 && self.feed.stage() != Stage::Abandoned {
                            self.dispatch();
                            self.take_answers();
                            self.settle(Some(position + 1));
                        }
                    }
                }
                Fed::Empty => return false,
                Fed::End => return true,
            }
        }
        false
    }

    /// Whether more events should be taken. While nothing can be written all that have room are, to be counted.
    fn wants_more(&self) -> bool {
        let ready = self.ready.iter().map(VecDeque::len).sum::<usize>();
        !self.feed.is_full() && (ready < BATCH * self.ready.len() || self.permit() != Permit::All)
    }

    /// Gives work to those who are free.
    fn dispatch(&mut self) -> bool {
        match self.permit() {
            Permit::All => {}
            Permit::Probe => return self.probe(),
            Permit::Nothing(_) => return false,
        }
        let mut any = false;
        for worker in 0..self.ready.len() {
            if self.ready[worker].is_empty() || !self.crew.is_free(worker) {
                continue;
            }
            let (ready, retried) = (&mut self.ready[worker], &mut self.tally.retried);
            let is_last = self.is_ending;
            self.crew.give(worker, |batch| {
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
        let Some(mut write) = fresh.or_else(|| self.lanes.take_longest_waiting()) else {
            return false;
        };
        write.ticket.is_probe = true;
        self.tally.retried += u64::from(std::mem::take(&mut write.ticket.is_retry));
        let worker = write.ticket.key.share(self.ready.len());
        self.outage.probe();
        self.crew.give(worker, |batch| {
            batch.push(write);
        });
        true
    }

    /// Publishes what has been decided. The outcomes first: what was delivered has one, unless it waits with another.
    /// `next` is the position of what was taken and has not been looked at.
    fn settle(&mut self, next: Option<u64>) {
        let correlator = self.correlator.stats();
        (self.tally.aggregated, self.tally.evicted) = (correlator.aggregated, correlator.evicted);
        self.stats.lock().clone_from(&self.tally);
        self.feed.give_back(std::mem::take(&mut self.decided));
        self.feed.set_handled(self.lanes.position().or(next));
    }

    fn sleep(&mut self, is_over: bool, stage: Stage) {
        let due = match self.permit() {
            Permit::All => self.lanes.next_due(),
            // It has become due since the last look.
            Permit::Probe if !self.lanes.is_empty() => return,
            // There is nothing to try.
            Permit::Probe => None,
            Permit::Nothing(until) => until,
        };
        let has_answers = self.crew.watch();
        let takes = !is_over && self.wants_more();
        self.feed.wait(due, takes, stage, has_answers);
    }

    fn permit(&self) -> Permit {
        // Everything that is left gets its one attempt, whether the store is there or not.
        if self.is_ending {
            return Permit::All;
        }
        match self.outage.permit(|at| self.has_passed(at)) {
            // What is still being done may bring the answer.
            Permit::Probe if !self.crew.is_idle() => Permit::Nothing(None),
            permit => permit,
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
    fn take_in(&mut self, event: &Event, position: u64) -> bool {
        match caught(|| self.correlator.correlate(event)) {
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
        let is_away = self.permit() != Permit::All;
        match self.lanes.admit(write, is_away) {
            Admitted::Now(write) => self.make_ready(write),
            Admitted::Next => return true,
            Admitted::Behind => {}
            Admitted::Absorbed(room) => self.decided += room,
        }
        false
    }

    fn make_ready(&mut self, write: Write) {
        let worker = write.ticket.key.share(self.ready.len());
        self.ready[worker].push_back(write);
    }
}
