//! The state that all parts of one bus share, for events of any type: the gate, the places to wait,
//! the flags of its end, and the registry.

use std::time::Duration;

use crate::clock::{Clock, Deadline};
use crate::counters::BusStats;
use crate::report::ShutdownReport;
use crate::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use crate::sync::{Arc, Mutex, Parker, Tally, unique_id};

use crate::bus::wait::{Timer, WaitQueue, Waiting, WakeCell, full_fence, is_bus_thread};

use super::gate::{Gate, Refusal};
use super::registry::{Registry, Totals};
use super::threads::Threads;
use super::watcher::WatcherState;

#[derive(Debug)]
pub(crate) struct Lifecycle {
    pub(crate) id: u64,
    pub(crate) gate: Gate,
    /// The place where the dispatcher waits, when it is idle or when a watcher has to make room.
    pub(crate) dispatcher: WakeCell,
    /// Publishers, registrations and flushes that wait for room in the incoming queue.
    pub(crate) room: WaitQueue,
    /// Threads and tasks that wait for the end, for a flush, or for a handler.
    pub(crate) done: Arc<WaitQueue>,
    pub(crate) clock: Clock,
    /// The clock for the deadlines of flushes, shutdowns and joins. With a fake `clock` these run
    /// on real time, unless the test asks for the other.
    pub(crate) end_clock: Clock,
    /// The timer that wakes tasks at these deadlines. No other wait of a task has one.
    pub(crate) timer: Arc<Timer>,
    /// The time for which a thread keeps looking, after `spin_until` and before it parks. From zero
    /// to one second.
    pub(crate) spin: Duration,
    closing: AtomicBool,
    abandoned: AtomicBool,
    /// Whether the dispatcher has lent the distributor to the reader. Written under the
    /// distributor's lock.
    lent: AtomicBool,
    accepted: AtomicU64,
    missed: AtomicU64,
    /// The number of entries that have been taken out of the incoming queue.
    pub(crate) taken: Tally,
    /// The number of events in all pushed entries, less the number of these entries.
    pub(crate) surplus: Tally,
    pub(crate) registry: Registry,
    pub(crate) threads: Arc<Threads>,
    /// The report of the bus at its end, once a shutdown has seen it.
    pub(super) report: Mutex<Option<ShutdownReport>>,
}

impl Lifecycle {
    pub(crate) fn new(clock: Clock, spin: Duration, dispatcher: &Parker) -> Self {
        let id = unique_id();
        let (end_clock, done) = (clock.for_the_end(), Arc::new(WaitQueue::new()));
        Self {
            id,
            gate: Gate::new(),
            dispatcher: WakeCell::new(dispatcher),
            room: WaitQueue::new(),
            done: done.clone(),
            timer: Arc::new(Timer::new(id, end_clock.clone())),
            clock,
            end_clock,
            spin,
            closing: AtomicBool::new(false),
            abandoned: AtomicBool::new(false),
            lent: AtomicBool::new(false),
            accepted: AtomicU64::new(0),
            missed: AtomicU64::new(0),
            taken: Tally::default(),
            surplus: Tally::default(),
            registry: Registry::new(),
            threads: Arc::new(Threads::new(done)),
            report: Mutex::new(None),
        }
    }

    /// Returns whether the running thread works for this bus, and therefore must not wait for it.
    pub(crate) fn is_current(&self) -> bool {
        is_bus_thread(self.id)
    }

    /// Returns a future that waits in `queue`, one of the queues of this bus, until a deadline by
    /// the clock for ends.
    pub(crate) fn waiting<'s, F>(
        &'s self,
        queue: &'s WaitQueue,
        deadline: Deadline,
        condition: F,
    ) -> Waiting<'s, F> {
        Waiting::new(&self.end_clock, &self.timer, queue, deadline, condition)
    }

    // ── the end ──

    pub(crate) fn close(&self) {
        self.gate.close();
        // Relaxed: the fence publishes this store. Its partners are the fences of the waiting
        // sides. The gate's own words say whether the gate is quiet.
        self.closing.store(true, Ordering::Relaxed);
        full_fence();
        self.dispatcher.wake();
        self.room.wake_all();
        #[cfg(any(feature = "recorder", eventcast_loom))]
        self.wake_feeds();
    }

    /// Wakes the handlers. A bulk reader among them may park while there is something to read, and
    /// would otherwise not notice that the end has come nearer. A bulk reader that is registered
    /// after this look at the registry notices it without a wake-up, through the registry's lock.
    #[cfg(any(feature = "recorder", eventcast_loom))]
    fn wake_feeds(&self) {
        for state in self.registry.unfinished() {
            state.wake_cell.wake();
        }
    }

    /// Returns whether the bus has been closed.
    pub(crate) fn is_closing(&self) -> bool {
        // Relaxed: no data depends on it. The fence of a waiting side orders it wherever a late
        // look would lose a wake-up.
        self.closing.load(Ordering::Relaxed)
    }

    /// Returns whether the last event is in the queue, because no publisher can push another.
    pub(crate) fn is_quiet(&self) -> bool {
        self.is_closing() && self.gate.is_quiet()
    }

    /// Abandons the rest: the dispatcher gives up on watchers, and handlers give up their queues.
    pub(crate) fn abandon(&self) {
        // Relaxed: the fence orders this store. Its partners are the fences of the waiting sides.
        self.abandoned.store(true, Ordering::Relaxed);
        full_fence();
        self.dispatcher.wake();
        self.done.wake_all();
        #[cfg(any(feature = "recorder", eventcast_loom))]
        self.wake_feeds();
    }

    pub(crate) fn is_abandoned(&self) -> bool {
        // Relaxed: no data depends on it.
        self.abandoned.load(Ordering::Relaxed)
    }

    /// Returns whether the reader answers for what waits in the incoming queue.
    #[inline]
    pub(crate) fn is_lent(&self) -> bool {
        // Relaxed: a reader that is about to sleep has fenced after it armed its cell. The partner
        // is the dispatcher's fence after it has set the flag. Anybody else looks again under the
        // distributor's lock.
        self.lent.load(Ordering::Relaxed)
    }

    pub(crate) fn set_lent(&self, lent: bool) {
        // Relaxed: the dispatcher's fence orders this store before its look at the reader's cell.
        // The lock publishes it to everybody else.
        self.lent.store(lent, Ordering::Relaxed);
    }

    /// Notes that the dispatcher has offered everything and closed every mailbox.
    pub(crate) fn set_ended(&self) {
        self.registry.set_ended();
        // No fence: those that wait for this look under the registry's lock, see `WaitQueue::wake`.
        self.done.wake_all();
    }

    // ── watchers ──

    /// Stops a watcher, on any thread.
    pub(crate) fn stop(&self, state: &WatcherState) {
        if state.set_stopped() {
            self.reap(state.id);
        }
        state.wake_cell.wake();
    }

    /// Stops a watcher for which an event does not fit, on the dispatcher. The dispatcher wakes the
    /// reader as after each offer.
    pub(crate) fn evict(&self, state: &WatcherState) {
        if state.set_evicted() {
            self.reap(state.id);
        }
    }

    /// Asks the dispatcher to reap a watcher that has stopped. Fences.
    pub(crate) fn reap(&self, id: u64) {
        self.registry.add_reapable(id);
        full_fence();
        self.dispatcher.wake();
    }

    /// Notes that a watcher's receiver is being dropped. Retires the watcher if its mailbox is
    /// closed too.
    pub(crate) fn receiver_dropped(&self, state: &Arc<WatcherState>) {
        if state.set_finished() {
            self.registry.retire(state, || self.is_closing());
        }
        full_fence();
        self.done.wake_all();
    }

    /// Notes that the dispatcher has closed the mailbox of a watcher, and wakes the reader. Retires
    /// the watcher if its reader has finished too.
    pub(crate) fn sender_closed(&self, state: &Arc<WatcherState>) {
        if state.set_closed() {
            self.registry.retire(state, || self.is_closing());
        }
        full_fence();
        state.wake_cell.wake();
    }

    // ── statistics ──

    pub(crate) fn set_accepted(&self, events: u64) {
        // Relaxed: a count. The locks that are taken later publish it to a thread that has waited
        // for a flush or for the end.
        self.accepted.store(events, Ordering::Relaxed);
    }

    pub(crate) fn set_missed(&self, events: u64) {
        // Relaxed: a count, as in `set_accepted`.
        self.missed.store(events, Ordering::Relaxed);
    }

    pub(crate) fn count_refused(&self, refusal: Refusal, events: usize) {
        self.gate.count_refused(refusal, events as u64);
    }

    /// Returns the statistics, without the events that are pending.
    pub(crate) fn stats(&self) -> BusStats {
        let (rejected_full, rejected_stopped) = self.gate.refused();
        let Totals { watchers, departed, departed_by_name } = self.registry.totals(self.is_closing());
        // Relaxed: a count.
        let accepted = self.accepted.load(Ordering::Relaxed);
        // Relaxed: a count.
        let missed = self.missed.load(Ordering::Relaxed);
        BusStats {
            accepted,
            pending: 0,
            missed,
            rejected_full,
            rejected_stopped,
            watchers,
            departed,
            departed_by_name,
        }
    }
}
