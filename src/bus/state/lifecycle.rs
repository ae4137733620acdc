//! The state that all parts of one bus share, whatever its events are: the gate, the places to wait, the
//! flags of its end, and the registry.

use std::time::Duration;

use crate::clock::{Clock, Deadline};
use crate::report::ShutdownReport;
use crate::stats::BusStats;
use crate::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use crate::sync::{Arc, Mutex, Parker, unique_id};

use crate::bus::wait::{TimedOut, Timer, WaitQueue, Waiting, WakeCell, full_fence, is_bus_thread};

use super::gate::{Gate, Refusal};
use super::registry::{Registry, Totals};
use super::watcher::WatcherState;

#[derive(Debug)]
pub(crate) struct Lifecycle {
    pub(crate) id: u64,
    pub(crate) gate: Gate,
    /// The dispatcher, when it is idle or waits for a watcher to make room.
    pub(crate) dispatcher: WakeCell,
    /// Publishers and registrations that wait for room in the incoming queue.
    pub(crate) room: WaitQueue,
    /// Who waits for the end, for a flush, or for a handler.
    pub(crate) done: WaitQueue,
    pub(crate) clock: Clock,
    /// Wakes tasks whose time is up.
    pub(crate) timer: Arc<Timer>,
    /// How much longer than a moment who waits goes on looking before it sleeps.
    pub(crate) spin: Duration,
    closing: AtomicBool,
    abandoned: AtomicBool,
    accepted: AtomicU64,
    pub(crate) registry: Registry,
    report: Mutex<Option<ShutdownReport>>,
}

/// How a bus ended.
#[derive(Debug)]
pub(crate) enum Outcome {
    /// Everything has been offered and handled.
    Complete,
    /// A shutdown by deadline gave up.
    Abandoned,
    /// Another shutdown has said so.
    Reported(Box<ShutdownReport>),
}

impl Lifecycle {
    pub(crate) fn new(clock: Clock, spin: Duration, dispatcher: &Parker) -> Self {
        let id = unique_id();
        Self {
            id,
            gate: Gate::new(),
            dispatcher: WakeCell::new(dispatcher),
            room: WaitQueue::new(),
            done: WaitQueue::new(),
            timer: Arc::new(Timer::new(id, clock.clone())),
            clock,
            spin,
            closing: AtomicBool::new(false),
            abandoned: AtomicBool::new(false),
            accepted: AtomicU64::new(0),
            registry: Registry::new(),
            report: Mutex::new(None),
        }
    }

    /// Whether the running thread is one of this bus's own, which must not wait for it.
    pub(crate) fn is_current(&self) -> bool {
        is_bus_thread(self.id)
    }

    /// Waits in one of the queues as a task.
    pub(crate) fn waiting<'s, F>(
        &'s self,
        queue: &'s WaitQueue,
        deadline: Deadline,
        condition: F,
    ) -> Waiting<'s, F> {
        Waiting::new(&self.clock, &self.timer, queue, deadline, condition)
    }

    // ── the end ──

    pub(crate) fn close(&self) {
        self.gate.close();
        // Relaxed: the fence publishes it; its partners are the fences of the sleepers. Whether the gate is quiet, the
        // gate's own words say.
        self.closing.store(true, Ordering::Relaxed);
        full_fence();
        self.dispatcher.wake();
        self.room.wake_all();
        #[cfg(any(feature = "recorder", eventcast_loom))]
        self.wake_feeds();
    }

    /// Tells those who read a feed, and so may sleep while there is something to read, that the end has come nearer. One
    /// that is listed later than this looks finds it so by itself, by the list's lock.
    #[cfg(any(feature = "recorder", eventcast_loom))]
    fn wake_feeds(&self) {
        for state in self.registry.unfinished() {
            state.wake_cell.wake();
        }
    }

    /// Whether somebody has closed the bus.
    pub(crate) fn is_closing(&self) -> bool {
        // Relaxed: no data hangs on it, and the sleepers' fences order it where a late look would be one too few.
        self.closing.load(Ordering::Relaxed)
    }

    /// Whether the last event is in the queue: nobody can push another.
    pub(crate) fn is_quiet(&self) -> bool {
        self.is_closing() && self.gate.is_quiet()
    }

    /// Says that nothing is waited for any more: the dispatcher gives up on watchers, handlers on their queues.
    pub(crate) fn abandon(&self) {
        // Relaxed: the fence orders it; its partners are the fences of the sleepers.
        self.abandoned.store(true, Ordering::Relaxed);
        full_fence();
        self.dispatcher.wake();
        self.done.wake_all();
        #[cfg(any(feature = "recorder", eventcast_loom))]
        self.wake_feeds();
    }

    pub(crate) fn is_abandoned(&self) -> bool {
        // Relaxed: no data hangs on it.
        self.abandoned.load(Ordering::Relaxed)
    }

    /// The dispatcher has offered everything and closed every mailbox.
    pub(crate) fn set_ended(&self) {
        self.registry.set_ended();
        // No fence: who waits for it looks under the registry's lock, see `WaitQueue::wake`.
        self.done.wake_all();
    }

    /// Closes, and waits until everything is offered and handled, until the deadline, or until another call gave up.
    pub(crate) fn shutdown(&self, deadline: Deadline, give_up: Deadline) -> ShutdownReport {
        if let Some(report) = self.begin_shutdown() {
            return report;
        }
        let mut outcome = self.done.wait(&self.clock, give_up, || self.outcome());
        if outcome.is_err() {
            self.abandon();
            outcome = self.done.wait(&self.clock, deadline, || self.outcome());
        }
        self.conclude(outcome)
    }

    /// As [`shutdown`](Lifecycle::shutdown), for a task.
    pub(crate) async fn shutdown_async(&self, deadline: Deadline, give_up: Deadline) -> ShutdownReport {
        if let Some(report) = self.begin_shutdown() {
            return report;
        }
        let mut outcome = self.waiting(&self.done, give_up, || self.outcome()).await;
        if outcome.is_err() {
            self.abandon();
            outcome = self.waiting(&self.done, deadline, || self.outcome()).await;
        }
        self.conclude(outcome)
    }

    /// Closes. A report: this is a thread of the bus, and must not wait.
    pub(crate) fn begin_shutdown(&self) -> Option<ShutdownReport> {
        self.close();
        self.is_current().then(|| ShutdownReport::new(false, self.stats()))
    }

    /// What a shutdown waits for.
    pub(crate) fn outcome(&self) -> Option<Outcome> {
        if let Some(report) = &*self.report.lock() {
            return Some(Outcome::Reported(Box::new(report.clone())));
        }
        let outcome = || if self.is_abandoned() { Outcome::Abandoned } else { Outcome::Complete };
        self.registry.is_settled().then(outcome)
    }

    /// The report of the first who comes here is everybody's.
    pub(crate) fn conclude(&self, outcome: Result<Outcome, TimedOut>) -> ShutdownReport {
        let complete = match outcome {
            Ok(Outcome::Reported(report)) => return *report,
            Ok(Outcome::Complete) => true,
            Ok(Outcome::Abandoned) | Err(TimedOut) => false,
        };
        let report = {
            let mut report = self.report.lock();
            report.get_or_insert_with(|| ShutdownReport::new(complete, self.stats())).clone()
        };
        // No fence: who waits for it looks under the report's lock, see `WaitQueue::wake`.
        self.done.wake_all();
        report
    }

    /// Waits for the end without asking for it. `Some(complete)`, or `None` at the deadline.
    #[cfg(feature = "recorder")]
    pub(crate) fn wait_ended(&self, deadline: Deadline) -> Option<bool> {
        self.done.wait(&self.clock, deadline, || self.ending()).ok()
    }

    /// Whether the bus has ended with everything handled; `None`: it has not ended.
    pub(crate) fn ending(&self) -> Option<bool> {
        Some(match self.outcome()? {
            Outcome::Complete => true,
            Outcome::Abandoned => false,
            Outcome::Reported(report) => report.complete,
        })
    }

    // ── watchers ──

    /// Asks a watcher to end, on any thread.
    pub(crate) fn stop(&self, state: &WatcherState) {
        if state.set_stopped() {
            self.reap(state.id);
        }
        state.wake_cell.wake();
    }

    /// Tells the dispatcher that a watcher has stopped. Fences.
    pub(crate) fn reap(&self, id: u64) {
        self.registry.add_reapable(id);
        full_fence();
        self.dispatcher.wake();
    }

    /// The reader's end of a watcher is no more.
    pub(crate) fn receiver_dropped(&self, state: &Arc<WatcherState>) {
        if state.set_finished() {
            self.registry.retire(state, || self.is_closing());
        }
        full_fence();
        self.done.wake_all();
    }

    /// The dispatcher has said its last word to a watcher.
    pub(crate) fn sender_closed(&self, state: &Arc<WatcherState>) {
        if state.set_closed() {
            self.registry.retire(state, || self.is_closing());
        }
        full_fence();
        state.wake_cell.wake();
    }

    // ── statistics ──

    pub(crate) fn set_accepted(&self, events: u64) {
        // Relaxed: a count; the locks behind it publish it to who has waited for a flush or for the end.
        self.accepted.store(events, Ordering::Relaxed);
    }

    pub(crate) fn count_refused(&self, refusal: Refusal, events: usize) {
        self.gate.count_refused(refusal, events as u64);
    }

    pub(crate) fn stats(&self) -> BusStats {
        let (rejected_full, rejected_stopped) = self.gate.refused();
        let Totals { watchers, departed, departed_by_name } = self.registry.totals();
        // Relaxed: a count.
        let accepted = self.accepted.load(Ordering::Relaxed);
        BusStats { accepted, rejected_full, rejected_stopped, watchers, departed, departed_by_name }
    }
}
