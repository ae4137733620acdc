//! The state shared by all parts of a bus, independent of the event type. The state includes the
//! gate, the wait queues, the shutdown flags, and the registry.

use std::ops::{Bound, RangeBounds};

use crate::bus::counters::BusStats;
use crate::bus::report::ShutdownReport;
use crate::clock::{Clock, Deadline};
use crate::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use crate::sync::{Arc, Mutex, Parker, Tally, unique_id};

use crate::bus::wait::{
    BusThread, LazyWaitQueue, Timer, WaitQueue, Waiting, WakeCell, full_fence, is_bus_thread,
};

use super::gate::{Gate, Refusal};
use super::owner::Owner;
use super::registry::Registry;
use super::threads::Threads;
use super::watcher::WatcherState;

/// The part of a bus that runs the fan-out, from the perspective of threads that stop or drop a
/// watcher or close the bus.
pub(crate) trait Drive: Send + Sync {
    /// Ensures that due work is done, either by the dispatcher or, on an inline bus, by the current
    /// thread or the owner. Does not wait for a lock.
    fn drive(&self, bus: &BusState);

    /// Withdraws a watcher's registration if it has not been processed yet. Does nothing on an
    /// inline bus, because an inline bus processes each registration before the outermost call
    /// returns.
    fn withdraw(&self, _watcher: u64, _bus: &BusState) {}
}

pub(crate) struct BusState {
    pub(crate) id: u64,
    pub(crate) gate: Gate,
    /// The wake cell on which the dispatcher waits while it is idle or blocked.
    pub(crate) dispatcher: WakeCell,
    driver: Box<dyn Drive>,
    is_inline: bool,
    /// The owner of an inline bus.
    pub(crate) owner: Owner,
    /// The queue of publishers waiting for capacity in the incoming queue or, on an inline bus, in
    /// a watcher's queue.
    pub(crate) room: WaitQueue,
    /// The queue of threads and tasks waiting for the end of the bus, for a flush, or for a
    /// handler.
    pub(crate) done: Arc<WaitQueue>,
    /// The queue of threads and tasks waiting for watchers to register or to be dropped.
    pub(crate) presence: LazyWaitQueue,
    pub(crate) clock: Clock,
    /// The clock for the deadlines of flushes, shutdowns and joins. If `clock` is fake, these
    /// deadlines still use real time, unless the test makes the fake clock drive them.
    pub(crate) end_clock: Clock,
    /// The timer that wakes tasks at the deadlines measured by `end_clock`.
    pub(crate) timer: Arc<Timer>,
    /// The timer that wakes tasks publishing on an inline bus when a watcher's time limit is
    /// reached. This timer exists only if `clock` is fake, because `timer` may then use another
    /// clock. If `clock` is not fake, `timer` wakes the publishing tasks, too.
    limits: Option<Arc<Timer>>,
    closing: AtomicBool,
    abandoned: AtomicBool,
    /// Whether the dispatcher or a publisher has lent the fan-out to the reader. Written while
    /// holding the fan-out's lock.
    lent: AtomicBool,
    accepted: AtomicU64,
    missed: AtomicU64,
    /// The number of accepted events that were offered to no watcher.
    unheard: AtomicU64,
    /// Whether the bus has a monitor, which measures the ages of the oldest events.
    pub(crate) is_monitored: AtomicBool,
    /// The number of events in all pushed entries, minus the number of these entries.
    pub(crate) surplus: Tally,
    pub(crate) registry: Registry,
    pub(crate) threads: Arc<Threads>,
    /// The bus's final report. `None` until a shutdown has seen the bus end.
    pub(super) report: Mutex<Option<Box<ShutdownReport>>>,
}

impl BusState {
    pub(crate) fn new(clock: Clock, dispatcher: &Parker, driver: Box<dyn Drive>) -> Self {
        let id = unique_id();
        let (end_clock, done) = (clock.for_the_end(), Arc::new(WaitQueue::new()));
        let timer = Arc::new(Timer::new(id, end_clock.clone()));
        // A fake clock may leave the deadlines for the end of the bus to the system clock.
        let limits = clock.is_fake().then(|| Arc::new(Timer::new(id, clock.clone())));
        Self {
            id,
            gate: Gate::new(),
            dispatcher: WakeCell::new(dispatcher),
            driver,
            is_inline: false,
            owner: Owner::new(),
            room: WaitQueue::new(),
            done: done.clone(),
            presence: LazyWaitQueue::new(),
            timer,
            limits,
            clock,
            end_clock,
            closing: AtomicBool::new(false),
            abandoned: AtomicBool::new(false),
            lent: AtomicBool::new(false),
            accepted: AtomicU64::new(0),
            missed: AtomicU64::new(0),
            unheard: AtomicU64::new(0),
            is_monitored: AtomicBool::new(false),
            surplus: Tally::default(),
            registry: Registry::new(),
            threads: Arc::new(Threads::new(done)),
            report: Mutex::new(None),
        }
    }

    /// Creates the state of an inline bus.
    pub(crate) fn inline(clock: Clock, front: Box<dyn Drive>) -> Self {
        let (gate, room) = (Gate::inline(), WaitQueue::inline());
        Self { gate, room, is_inline: true, ..Self::new(clock, &Parker::new(), front) }
    }

    /// Returns whether the bus has no dispatcher.
    #[inline]
    pub(crate) fn is_inline(&self) -> bool {
        self.is_inline
    }

    /// Returns whether the current thread works for this bus, and therefore must not wait for it.
    pub(crate) fn is_current(&self) -> bool {
        self.is_inline() && self.owner.is_this_thread() || is_bus_thread(self.id)
    }

    /// Returns whether the current thread is inside a call of this inline bus. Inside such a call,
    /// the thread must not wake any thread or task yet, because a waker may take locks. The thread
    /// will wake the waiters after it has released the bus's lock.
    fn wakes_later(&self) -> bool {
        self.is_inline() && self.owner.is_this_thread() && self.owner.ask()
    }

    /// Notes that a reader has freed capacity that the dispatcher, or a publisher of an inline bus,
    /// is waiting for. The caller must already have issued a full fence.
    pub(crate) fn room_came(&self) {
        if !self.is_inline() {
            self.dispatcher.wake();
        } else if !self.wakes_later() {
            // The waker of a publishing task may be called here. If the waker itself publishes, it
            // must not wait for capacity that only this reader can free.
            let _mark = BusThread::enter(self.id);
            self.room.pass_on();
        }
    }

    /// Returns a future that waits in `queue`, one of this bus's wait queues. The deadline is
    /// measured by `end_clock`.
    pub(crate) fn waiting<'s, F>(
        &'s self,
        queue: &'s WaitQueue,
        deadline: Deadline,
        condition: F,
    ) -> Waiting<'s, F> {
        Waiting::new(&self.end_clock, &self.timer, queue, deadline, condition)
    }

    /// Returns a future that waits in `queue`, like [`waiting`](Self::waiting), but with a deadline
    /// measured by the bus's `clock`.
    pub(crate) fn waiting_by_the_clock<'s, F>(
        &'s self,
        queue: &'s WaitQueue,
        deadline: Deadline,
        condition: F,
    ) -> Waiting<'s, F> {
        let timer = self.limits.as_ref().unwrap_or(&self.timer);
        Waiting::new(&self.clock, timer, queue, deadline, condition)
    }

    // ── the end ──

    pub(crate) fn close(&self) {
        self.gate.close();
        // Relaxed: the fence publishes this store. The fence pairs with the fences of the waiting
        // sides. Whether the gate is quiet depends only on the gate's own words.
        self.closing.store(true, Ordering::Relaxed);
        full_fence();
        self.driver.drive(self);
        if self.wakes_later() {
            return;
        }
        self.room.wake_all();
        #[cfg(any(feature = "recorder", eventcast_loom))]
        self.wake_handlers();
    }

    /// Wakes the handlers. A bulk reader may park while there is something to read. Without a
    /// wake-up, a parked bulk reader would not notice that the end has reached a later stage. If a
    /// bulk reader is registered after this read of the registry, it notices the new stage without
    /// a wake-up, through the registry's lock.
    #[cfg(any(feature = "recorder", eventcast_loom))]
    fn wake_handlers(&self) {
        for state in self.registry.unfinished() {
            state.wake_cell.wake();
        }
    }

    /// Returns whether the bus refuses entries. Once this method has returned `true`, the bus
    /// refuses everything that the calling thread pushes, because on each kind of bus the method
    /// reads the words that publishers check.
    pub(crate) fn is_closed(&self) -> bool {
        if self.is_inline() { self.is_closing() } else { self.gate.is_closed() }
    }

    /// Returns whether the bus has been closed.
    #[inline]
    pub(crate) fn is_closing(&self) -> bool {
        // Relaxed: no data depends on this load. Wherever a stale read would lose a wake-up, the
        // waiting side's fence orders the load.
        self.closing.load(Ordering::Relaxed)
    }

    /// Returns whether the last event is already in the queue, because no publisher can push
    /// another event.
    pub(crate) fn is_quiet(&self) -> bool {
        self.is_closing() && self.gate.is_quiet()
    }

    /// Abandons the remaining events. The dispatcher no longer waits for watchers, and handlers
    /// abandon their queues.
    pub(crate) fn abandon(&self) {
        // Relaxed: the fence orders this store. The fence pairs with the fences of the waiting
        // sides.
        self.abandoned.store(true, Ordering::Relaxed);
        full_fence();
        self.driver.drive(self);
        self.done.wake_all();
        #[cfg(any(feature = "recorder", eventcast_loom))]
        self.wake_handlers();
    }

    #[inline]
    pub(crate) fn is_abandoned(&self) -> bool {
        // Relaxed: no data depends on this load.
        self.abandoned.load(Ordering::Relaxed)
    }

    /// Returns whether the reader is responsible for the entries waiting in the incoming queue.
    #[inline]
    pub(crate) fn is_lent(&self) -> bool {
        // Relaxed: a reader that is about to sleep has fenced after arming its cell. The reader's
        // fence pairs with the fence that the dispatcher issues after it, or a publisher before it,
        // has set the flag. All other threads check again while holding the fan-out's lock.
        self.lent.load(Ordering::Relaxed)
    }

    pub(crate) fn set_lent(&self, lent: bool) {
        // Relaxed: the dispatcher's fence orders this store before its read of the reader's cell. A
        // publisher that sets the flag wakes the dispatcher, which sets the flag again or clears
        // it. The fan-out's lock publishes the store to all other threads.
        self.lent.store(lent, Ordering::Relaxed);
    }

    /// Records that the dispatcher has offered everything and closed every mailbox.
    pub(crate) fn set_ended(&self) {
        self.registry.set_ended();
        // No fence is needed, because the waiters check the registry while holding its lock. See
        // `WaitQueue::wake`.
        self.done.wake_all();
        self.presence.wake_all();
    }

    // ── watchers ──

    /// Stops a watcher. May be called on any thread.
    pub(crate) fn stop(&self, state: &WatcherState) {
        self.stop_offering(state);
        if !self.wakes_later() {
            state.wake_cell.wake();
        }
    }

    /// Stops a watcher without waking its reader. Called by [`stop`](Self::stop), which then wakes
    /// the reader, and on the offering thread if the watcher's filter has panicked. The offering
    /// thread wakes the reader after every offer.
    pub(crate) fn stop_offering(&self, state: &WatcherState) {
        if state.set_stopped() {
            self.reap(state.id);
        }
    }

    /// Evicts a watcher because an event does not fit into its queue. Called on the offering
    /// thread, which wakes the reader after every offer.
    pub(crate) fn evict(&self, state: &WatcherState) {
        if state.set_evicted() {
            self.reap(state.id);
        }
    }

    /// Requests that a stopped watcher be reaped. Issues a full fence.
    pub(crate) fn reap(&self, id: u64) {
        self.registry.add_reapable(id);
        full_fence();
        self.driver.drive(self);
    }

    /// Withdraws the registration of a watcher that is being dropped, if the registration has not
    /// been processed yet. Once the bus has been abandoned, registrations are no longer withdrawn,
    /// because events accepted after a registration count as abandoned.
    pub(crate) fn withdraw(&self, state: &WatcherState) {
        if state.start().is_none() && !self.is_abandoned() {
            self.driver.withdraw(state.id, self);
        }
    }

    /// Notes that a watcher's registration has been accepted. Called before the registering call
    /// returns.
    pub(crate) fn watcher_came(&self) {
        self.registry.count_present();
        // No fence is needed, because the waiters check the registry while holding its lock. See
        // `WaitQueue::wake`.
        if !self.wakes_later() {
            self.presence.wake_all();
        }
    }

    /// Returns whether the number of watchers is within the range, or `None` if the caller has to
    /// wait. Once the bus has ended, waiting for more watchers is pointless.
    pub(crate) fn has_watchers_in(&self, range: &impl RangeBounds<usize>) -> Option<bool> {
        // The lock that `has_ended` takes orders the two loads after each change made earlier.
        let (has_ended, present) = (self.registry.has_ended(), self.registry.present());
        let is_within = range.contains(&present);
        let is_below = || !(range.start_bound(), Bound::Unbounded).contains(&present);
        (is_within || has_ended && is_below()).then_some(is_within)
    }

    /// Notes that a watcher's receiver is being dropped. If the watcher's mailbox is also closed,
    /// retires the watcher.
    pub(crate) fn receiver_dropped(&self, state: &Arc<WatcherState>) {
        self.registry.finish(state, || self.is_closing());
        full_fence();
        if !self.wakes_later() {
            self.done.wake_all();
            self.presence.wake_all();
        }
    }

    /// Notes that a watcher's mailbox has been closed. If the watcher's reader has also finished,
    /// retires the watcher. Issues a full fence. The caller must wake the reader.
    pub(crate) fn sender_closed(&self, state: &Arc<WatcherState>) {
        if state.set_closed() {
            self.registry.retire(state, || self.is_closing());
        }
        full_fence();
    }

    // ── statistics ──

    #[inline]
    pub(crate) fn set_accepted(&self, events: u64) {
        // Relaxed: only a count. Locks that are taken later publish the count to threads that have
        // waited for a flush or for the bus to end.
        self.accepted.store(events, Ordering::Relaxed);
    }

    /// Returns the number of events in published gaps.
    #[inline]
    pub(crate) fn missed(&self) -> u64 {
        // Relaxed: only a count, which only the thread that runs the fan-out writes.
        self.missed.load(Ordering::Relaxed)
    }

    pub(crate) fn set_missed(&self, events: u64) {
        // Relaxed: only a count, as in `set_accepted`.
        self.missed.store(events, Ordering::Relaxed);
    }

    /// Counts events that were offered to no watcher.
    pub(crate) fn count_unheard(&self, events: usize) {
        // Relaxed, both: only a count, which only the thread that runs the fan-out writes.
        let before = self.unheard.load(Ordering::Relaxed);
        self.unheard.store(before + events as u64, Ordering::Relaxed);
    }

    pub(crate) fn count_refused(&self, refusal: Refusal, events: usize) {
        self.gate.count_refused(refusal, events as u64);
    }

    /// Returns the statistics, without the number of pending events.
    pub(crate) fn stats(&self) -> BusStats {
        let (rejected_full, rejected_closed) = self.gate.refused();
        let of_watchers = self.registry.stats(self.is_closing());
        BusStats {
            // Relaxed, both: only counts.
            accepted: self.accepted.load(Ordering::Relaxed),
            missed: self.missed(),
            unheard: self.unheard.load(Ordering::Relaxed),
            rejected_full,
            rejected_closed,
            ..of_watchers
        }
    }
}
