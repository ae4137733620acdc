//! What all parts of one bus share, whatever its events are: the gate, who sleeps where, the flags of its end, and the
//! list of watchers.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::clock::{Clock, Deadline};
use crate::policy::OverflowPolicy;
use crate::stats::{BusStats, ShutdownReport, WatcherStats};
use crate::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use crate::sync::{Arc, Mutex, Parker, unique_id};

#[cfg(feature = "async")]
use super::alarm::Alarm;
use super::core::Core;
use super::current;
use super::gate::{Gate, Refusal};
use super::sleeper::{Sleeper, TimedOut, WaitList, full_fence};

#[derive(Debug)]
pub(super) struct Hub {
    pub(super) id: u64,
    pub(super) gate: Gate,
    /// The dispatcher, when it is idle or waits for a watcher to make room.
    pub(super) dispatcher: Sleeper,
    /// Publishers and registrations that wait for room in the incoming queue.
    pub(super) room: WaitList,
    /// Who waits for the end, for a flush, or for a handler.
    pub(super) done: WaitList,
    pub(super) clock: Clock,
    /// Wakes tasks whose time is up.
    #[cfg(feature = "async")]
    pub(super) alarm: Arc<Alarm>,
    /// How much longer than a moment who waits goes on looking before it sleeps.
    pub(super) spin: Duration,
    closing: AtomicBool,
    abandoned: AtomicBool,
    accepted: AtomicU64,
    reaping: AtomicBool,
    reapable: Mutex<Vec<u64>>,
    registry: Mutex<Registry>,
    report: Mutex<Option<ShutdownReport>>,
}

#[derive(Debug)]
struct Registry {
    /// How many watchers there ever were; the number of the next.
    total: u64,
    /// The dispatcher has offered everything and closed every mailbox.
    ended: bool,
    watchers: BTreeMap<u64, Arc<Core>>,
    departed: WatcherStats,
    /// Of these, the sums of those that had a name of their own.
    named: BTreeMap<String, WatcherStats>,
}

impl Registry {
    fn unfinished(&self) -> impl Iterator<Item = &Arc<Core>> {
        self.watchers.values().filter(|core| core.is_handler && !core.is_finished())
    }
}

/// So many names of watchers that have gone are remembered, so that one who makes up names does not fill the memory.
const NAMES: usize = 256;

/// How a bus ended.
#[derive(Debug)]
pub(super) enum Outcome {
    /// Everything has been offered and handled.
    Complete,
    /// A shutdown by deadline gave up.
    Abandoned,
    /// Another shutdown has said so.
    Reported(Box<ShutdownReport>),
}

impl Hub {
    pub(super) fn new(clock: Clock, spin: Duration, dispatcher: &Parker) -> Self {
        let departed = WatcherStats { name: "departed".to_owned(), ..WatcherStats::default() };
        let id = unique_id();
        Self {
            id,
            gate: Gate::new(),
            dispatcher: Sleeper::new(dispatcher),
            room: WaitList::new(),
            done: WaitList::new(),
            #[cfg(feature = "async")]
            alarm: Arc::new(Alarm::new(id, clock.clone())),
            clock,
            spin,
            closing: AtomicBool::new(false),
            abandoned: AtomicBool::new(false),
            accepted: AtomicU64::new(0),
            reaping: AtomicBool::new(false),
            reapable: Mutex::new(Vec::new()),
            registry: Mutex::new(Registry {
                total: 0,
                ended: false,
                watchers: BTreeMap::new(),
                departed,
                named: BTreeMap::new(),
            }),
            report: Mutex::new(None),
        }
    }

    /// Whether the running thread is one of this bus's own, which must not wait for it.
    pub(super) fn is_current(&self) -> bool {
        current::is_on(self.id)
    }

    // ── the end ──

    pub(super) fn close(&self) {
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
        for core in self.unfinished() {
            core.sleeper.wake();
        }
    }

    /// Whether somebody has closed the bus.
    pub(super) fn is_closing(&self) -> bool {
        // Relaxed: no data hangs on it, and the sleepers' fences order it where a late look would be one too few.
        self.closing.load(Ordering::Relaxed)
    }

    /// Whether the last event is in the queue: nobody can push another.
    pub(super) fn is_quiet(&self) -> bool {
        self.is_closing() && self.gate.is_quiet()
    }

    /// Says that nothing is waited for any more: the dispatcher gives up on watchers, handlers on their queues.
    pub(super) fn abandon(&self) {
        // Relaxed: the fence orders it; its partners are the fences of the sleepers.
        self.abandoned.store(true, Ordering::Relaxed);
        full_fence();
        self.dispatcher.wake();
        self.done.wake_all();
        #[cfg(any(feature = "recorder", eventcast_loom))]
        self.wake_feeds();
    }

    pub(super) fn is_abandoned(&self) -> bool {
        // Relaxed: no data hangs on it.
        self.abandoned.load(Ordering::Relaxed)
    }

    /// The dispatcher has offered everything and closed every mailbox.
    pub(super) fn set_ended(&self) {
        self.registry.lock().ended = true;
        // No fence: who waits for it looks under the registry's lock, see `WaitList::wake`.
        self.done.wake_all();
    }

    pub(super) fn has_ended(&self) -> bool {
        self.registry.lock().ended
    }

    /// Ended, and every handler has finished.
    fn is_settled(&self) -> bool {
        let registry = self.registry.lock();
        registry.ended && registry.unfinished().next().is_none()
    }

    /// Closes, and waits until everything is offered and handled, until the deadline, or until another call gave up.
    pub(super) fn shutdown(&self, deadline: Deadline, give_up: Deadline) -> ShutdownReport {
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

    /// Closes. A report: this is a thread of the bus, and must not wait.
    pub(super) fn begin_shutdown(&self) -> Option<ShutdownReport> {
        self.close();
        self.is_current().then(|| ShutdownReport::new(false, self.stats()))
    }

    /// What a shutdown waits for.
    pub(super) fn outcome(&self) -> Option<Outcome> {
        if let Some(report) = &*self.report.lock() {
            return Some(Outcome::Reported(Box::new(report.clone())));
        }
        let outcome = || if self.is_abandoned() { Outcome::Abandoned } else { Outcome::Complete };
        self.is_settled().then(outcome)
    }

    /// The report of the first who comes here is everybody's.
    pub(super) fn conclude(&self, outcome: Result<Outcome, TimedOut>) -> ShutdownReport {
        let complete = match outcome {
            Ok(Outcome::Reported(report)) => return *report,
            Ok(Outcome::Complete) => true,
            Ok(Outcome::Abandoned) | Err(TimedOut) => false,
        };
        let report = {
            let mut report = self.report.lock();
            report.get_or_insert_with(|| ShutdownReport::new(complete, self.stats())).clone()
        };
        // No fence: who waits for it looks under the report's lock, see `WaitList::wake`.
        self.done.wake_all();
        report
    }

    /// Waits for the end without asking for it. `Some(complete)`, or `None` at the deadline.
    #[cfg(feature = "recorder")]
    pub(super) fn wait_ended(&self, deadline: Deadline) -> Option<bool> {
        self.done.wait(&self.clock, deadline, || self.ending()).ok()
    }

    /// Whether the bus has ended with everything handled; `None`: it has not ended.
    pub(super) fn ending(&self) -> Option<bool> {
        Some(match self.outcome()? {
            Outcome::Complete => true,
            Outcome::Abandoned => false,
            Outcome::Reported(report) => report.complete,
        })
    }

    /// The handlers that have not come to their end.
    pub(super) fn unfinished(&self) -> Vec<Arc<Core>> {
        self.registry.lock().unfinished().cloned().collect()
    }

    /// The watchers for which the dispatcher waits now.
    pub(super) fn waited_for(&self) -> Vec<Arc<Core>> {
        self.registry.lock().watchers.values().filter(|core| core.is_waited_for()).cloned().collect()
    }

    // ── watchers ──

    /// Lists a new watcher, which is made with its number.
    pub(super) fn remember(&self, make: impl FnOnce(u64) -> Core) -> Arc<Core> {
        let mut registry = self.registry.lock();
        let id = registry.total;
        registry.total += 1;
        let core = Arc::new(make(id));
        registry.watchers.insert(id, core.clone());
        core
    }

    /// Asks a watcher to end, on any thread.
    pub(super) fn stop(&self, core: &Core) {
        if core.set_stopped() {
            self.reap(core.id);
        }
        core.sleeper.wake();
    }

    /// Tells the dispatcher that a watcher has stopped. Fences.
    pub(super) fn reap(&self, id: u64) {
        if !self.has_ended() {
            self.reapable.lock().push(id);
        }
        // Relaxed: the fence orders it; its partners are the fences of the dispatcher's sleeper.
        self.reaping.store(true, Ordering::Relaxed);
        full_fence();
        self.dispatcher.wake();
    }

    pub(super) fn must_reap(&self) -> bool {
        // Relaxed: the sleeper's fence orders it; while the dispatcher is awake a late look is no loss.
        self.reaping.load(Ordering::Relaxed)
    }

    pub(super) fn take_reapable(&self) -> Vec<u64> {
        // Relaxed: cleared before the list is taken, so that what is added later is told again.
        self.reaping.store(false, Ordering::Relaxed);
        std::mem::take(&mut *self.reapable.lock())
    }

    /// The reader's end of a watcher is no more.
    pub(super) fn forget_reader(&self, core: &Arc<Core>) {
        if core.set_finished() {
            self.forget(core);
        }
        full_fence();
        self.done.wake_all();
    }

    /// The dispatcher has said its last word to a watcher.
    pub(super) fn forget_outbox(&self, core: &Arc<Core>) {
        if core.set_closed() {
            self.forget(core);
        }
        full_fence();
        core.sleeper.wake();
    }

    /// A watcher that came too late to be registered.
    pub(super) fn strike(&self, core: &Core) {
        self.registry.lock().watchers.remove(&core.id);
    }

    /// Adds up what remains of a watcher that neither end has any more.
    fn forget(&self, core: &Arc<Core>) {
        let mut registry = self.registry.lock();
        // Handlers that end with the bus stay listed, so that its report says what became of each. There are no more of
        // them than there were when it was closed.
        let ends_with_the_bus = core.is_handler && self.is_closing();
        if !ends_with_the_bus && registry.watchers.remove(&core.id).is_some() {
            let stats = core.stats();
            registry.departed.add(&stats);
            if let Some(sum) = registry.named.get_mut(&stats.name) {
                sum.add(&stats);
            } else if !stats.is_unnamed() && registry.named.len() < NAMES {
                registry
                    .named
                    .insert(stats.name.clone(), WatcherStats { policy: OverflowPolicy::default(), ..stats });
            }
        }
    }

    // ── statistics ──

    pub(super) fn set_accepted(&self, events: u64) {
        // Relaxed: a count; the locks behind it publish it to who has waited for a flush or for the end.
        self.accepted.store(events, Ordering::Relaxed);
    }

    pub(super) fn count_refused(&self, refusal: Refusal, events: usize) {
        self.gate.count_refused(refusal, events as u64);
    }

    pub(super) fn stats(&self) -> BusStats {
        let (rejected_full, rejected_stopped) = self.gate.refused();
        let registry = self.registry.lock();
        BusStats {
            // Relaxed: a count.
            accepted: self.accepted.load(Ordering::Relaxed),
            rejected_full,
            rejected_stopped,
            watchers: registry.watchers.values().map(|core| core.stats()).collect(),
            departed: registry.departed.clone(),
            departed_by_name: registry.named.values().cloned().collect(),
        }
    }
}
