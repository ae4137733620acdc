//! The state shared by both ends of a watcher's mailbox, independent of the event type. The state
//! consists of flags, the watcher's wake cell, and counters. Each counter except `panics` has a
//! single writer.

use std::sync::OnceLock;
use std::time::Duration;

use crate::bus::counters::{DropCounts, WatcherStats};
use crate::bus::policy::OverflowPolicy;
use crate::bus::wait::WakeCell;
use crate::catch::catch_panic;
use crate::sync::atomic::{AtomicU8, AtomicU64, Ordering, fence};
use crate::sync::{Parker, Tally};

use super::end_reason::EndReason;
use super::name::Name;
use super::sent::Sent;

/// The flag of a stopped watcher. The dispatcher offers no more events to a stopped watcher, unless
/// `GAVE_UP` is set as well.
const STOPPED: u8 = 1;
/// The flag of a reader that is gone. The reader no longer takes events out of the queue, except to
/// discard the remaining events.
const GONE: u8 = 2;
/// The flag of a closed mailbox. The dispatcher no longer puts events into the mailbox's queue.
const CLOSED: u8 = 4;
/// The flag of a reader that has finished, which means that its receiver has been dropped. If the
/// reader is a handler, the handler has handled everything that it will ever handle.
const FINISHED: u8 = 8;

/// The flag of a handler that has abandoned its queue because of a shutdown with a deadline. Events
/// that are still offered to the handler count as abandoned.
const GAVE_UP: u8 = 16;

/// The flag of a watcher that was stopped by its own policy because an event did not fit. `STOPPED`
/// is always set together with this flag.
const EVICTED: u8 = 32;

/// The flag of a reader that has reached the end of a bus that has ended.
const AT_END: u8 = 64;

/// The value of `wake_at` while no dispatcher is waiting for capacity.
const NEVER: u64 = u64::MAX;

/// The fields are in the order of memory. With thousands of watchers, each cache line that the
/// fan-out touches costs more than all instructions for a watcher, so the fields that it reads for
/// every event share the first line.
///
/// Processors may fetch lines in pairs. Wherever the memory begins, the line that the dispatcher
/// writes for every event therefore has neighbours that are rarely read or written.
#[repr(C, align(64))]
pub(crate) struct WatcherState {
    pub(crate) policy: OverflowPolicy,
    flags: AtomicU8,
    /// Whether the library runs the reader, in which case flushes and shutdowns wait for the
    /// reader.
    pub(crate) is_handler: bool,
    capacity: u32,
    pub(crate) wake_cell: WakeCell,
    pub(crate) id: u64,
    pub(crate) name: Name,
    /// The position in the bus's order of events after which the watcher starts. Empty until the
    /// dispatcher has registered the watcher.
    start: OnceLock<u64>,
    panics: AtomicU64,
    /// The counters that are written only by the dispatcher.
    sent: SentSide,
    /// The counters that are written only by the reader, and `wake_at`, which is read with them.
    got: GotSide,
}

/// The first line has the counters that change with every event.
#[derive(Default)]
#[repr(C, align(64))]
struct SentSide {
    /// The lowest offset that has not been decided yet. Every event below it is in the queue,
    /// delivered or lost.
    decided: AtomicU64,
    offered: AtomicU64,
    /// The number of events put into the queue, minus the number of events that the dispatcher took
    /// out again.
    queued: AtomicU64,
    high_water: AtomicU64,
    incoming: AtomicU64,
    oldest: AtomicU64,
    filtered: AtomicU64,
    /// The number of events that were missing for all watchers, plus the number of events that the
    /// history no longer held.
    missed: AtomicU64,
    conflated: AtomicU64,
    timed_out: AtomicU64,
    stopped: AtomicU64,
    abandoned: AtomicU64,
    /// One while the dispatcher is running user code for this watcher, otherwise zero.
    user_code: Tally,
    /// The age of the oldest event in the queue, in nanoseconds, at a monitor's last check. Only
    /// the monitors write this age.
    oldest_age: Tally,
}

#[repr(align(64))]
struct GotSide {
    /// The number of delivered events, which the reader has taken out of the queue, and whose
    /// capacity it has freed.
    consumed: AtomicU64,
    /// The number of events that the reader discarded because the watcher was stopped.
    stopped: AtomicU64,
    /// The number of events that the reader discarded after a shutdown with a deadline had
    /// abandoned the rest.
    abandoned: AtomicU64,
    /// The offset up to which a handler has handled everything, including gaps.
    handled: AtomicU64,
    /// The value of `consumed` at which a dispatcher waiting for capacity wants to be woken, or
    /// `NEVER`. Only the dispatcher writes this value.
    wake_at: AtomicU64,
}

impl GotSide {
    fn new() -> Self {
        let [consumed, stopped, abandoned, handled] = [0; 4].map(AtomicU64::new);
        Self { consumed, stopped, abandoned, handled, wake_at: AtomicU64::new(NEVER) }
    }
}

impl WatcherState {
    pub(crate) fn new(
        id: u64,
        name: Name,
        capacity: usize,
        policy: OverflowPolicy,
        is_handler: bool,
        parker: &Parker,
    ) -> Self {
        Self {
            policy,
            flags: AtomicU8::new(0),
            is_handler,
            // The cast does not truncate, because the builder has checked the capacity.
            capacity: capacity as u32,
            wake_cell: WakeCell::new(parker),
            id,
            name,
            start: OnceLock::new(),
            panics: AtomicU64::new(0),
            sent: SentSide::default(),
            got: GotSide::new(),
        }
    }

    /// Returns the maximum number of events in the queue.
    #[inline]
    pub(crate) fn capacity(&self) -> u64 {
        u64::from(self.capacity)
    }

    // ── the dispatcher's side ──

    /// Publishes the position after which the watcher starts. Called before any event is offered.
    pub(crate) fn set_start(&self, position: u64) {
        let _ = self.start.set(position);
    }

    /// Publishes the number of events that were missing for the watcher.
    pub(crate) fn set_missed(&self, events: u64) {
        // Relaxed: a count.
        self.sent.missed.store(events, Ordering::Relaxed);
    }

    /// Publishes the number of offered events. Called before any of them is queued or lost.
    #[inline]
    pub(crate) fn publish_offered(&self, offered: u64) {
        // Relaxed: the queue and the fence in `publish_sent` both follow this store, and publish
        // it.
        self.sent.offered.store(offered, Ordering::Relaxed);
    }

    /// Publishes the dispatcher's counters.
    #[inline]
    pub(crate) fn publish_sent(&self, sent: &mut Sent) {
        let to = &self.sent;
        // Release: pairs with the fence in `stats`, so that `stats` never sees more events lost
        // than offered. The fence also pairs with the Acquire in `decided`, so that a reader that
        // sees a decided offset either finds the event in the queue or knows that the event is
        // lost.
        fence(Ordering::Release);
        // Most calls change none of these counts, and leave their cache lines alone.
        if std::mem::take(&mut sent.has_unpublished) {
            self.publish_losses(sent);
        }
        // Relaxed, all: the fence above orders them.
        to.high_water.store(sent.high_water, Ordering::Relaxed);
        to.queued.store(sent.queued, Ordering::Relaxed);
        to.decided.store(sent.decided, Ordering::Relaxed);
    }

    /// Publishes the counts of events that were lost or filtered. The caller must have issued the
    /// fence in [`publish_sent`](Self::publish_sent).
    fn publish_losses(&self, sent: &Sent) {
        let to = &self.sent;
        // Relaxed, all: the caller's fence orders them.
        to.incoming.store(sent.drops.incoming, Ordering::Relaxed);
        to.oldest.store(sent.drops.oldest, Ordering::Relaxed);
        to.conflated.store(sent.drops.conflated, Ordering::Relaxed);
        to.timed_out.store(sent.drops.timed_out, Ordering::Relaxed);
        to.stopped.store(sent.drops.stopped, Ordering::Relaxed);
        to.abandoned.store(sent.drops.abandoned, Ordering::Relaxed);
        // Relaxed, as well: this store follows the same fence.
        to.filtered.store(sent.filtered, Ordering::Relaxed);
    }

    #[inline]
    pub(crate) fn consumed(&self) -> u64 {
        // Acquire: pairs with the Release in `set_consumed`, so that the reported capacity is
        // really free.
        self.got.consumed.load(Ordering::Acquire)
    }

    /// Requests a wake-up once `consumed` reaches the value `at`. The caller must then arm its wake
    /// cell and check again.
    pub(crate) fn want_room(&self, at: u64) {
        // Relaxed: the fence in `WakeCell::arm` orders this store before the second read of
        // `consumed`.
        self.got.wake_at.store(at, Ordering::Relaxed);
    }

    /// Requests a wake-up once `consumed` reaches the value `at`, unless an earlier wake-up is
    /// already pending. The caller must then fence and check again.
    pub(crate) fn wish_for_room(&self, at: u64) {
        // Relaxed, both: on an inline bus, `wake_at` is written only while the bus's lock is held.
        // The caller's fence orders the store before its second read of `consumed`.
        let before = self.got.wake_at.load(Ordering::Relaxed);
        if before <= self.consumed() || at < before {
            self.got.wake_at.store(at, Ordering::Relaxed);
        }
    }

    pub(crate) fn has_room(&self) {
        // Relaxed: a reader that sees this store late only checks a wake cell that is not armed.
        self.got.wake_at.store(NEVER, Ordering::Relaxed);
    }

    /// Marks the mailbox as closed, after the dispatcher has put the last event into the queue.
    /// Returns whether the reader has finished as well, so that the watcher can be retired.
    pub(crate) fn set_closed(&self) -> bool {
        // Release: pairs with the Acquire in `end`. A reader that sees the end sees every event
        // and offset before it.
        // Acquire: pairs with the Release in `set_finished`. The later of the two sides sees the
        // other side's counts. The registry's lock, which both sides take to retire the watcher,
        // orders them as well, so no model fails without this Acquire.
        self.flags.fetch_or(CLOSED, Ordering::AcqRel) & FINISHED != 0
    }

    // ── the reader's side ──

    #[inline]
    pub(crate) fn decided(&self) -> u64 {
        // Acquire: pairs with the fence in `publish_sent`.
        self.sent.decided.load(Ordering::Acquire)
    }

    /// Returns the position after which the watcher starts, or `None` if the dispatcher has not
    /// registered the watcher yet.
    pub(crate) fn start(&self) -> Option<u64> {
        self.start.get().copied()
    }

    /// Frees capacity. The reader must then fence and check whether a dispatcher is waiting for
    /// this capacity.
    #[inline]
    pub(crate) fn set_consumed(&self, consumed: u64) {
        // Release: pairs with the Acquire in `consumed` and the fence in `stats`.
        self.got.consumed.store(consumed, Ordering::Release);
    }

    /// Returns whether a dispatcher is waiting for the capacity freed so far.
    #[inline]
    pub(crate) fn is_room_wanted(&self, consumed: u64) -> bool {
        // Relaxed: the caller's fence orders this load after `consumed`.
        consumed >= self.got.wake_at.load(Ordering::Relaxed)
    }

    pub(crate) fn set_handled(&self, offset: u64) {
        // Release: pairs with the Acquire in `handled`, so that a thread waiting for a handler sees
        // what the handler did.
        self.got.handled.store(offset, Ordering::Release);
    }

    pub(crate) fn count_discarded(&self, events: u64, abandoned: bool) {
        let counter = if abandoned { &self.got.abandoned } else { &self.got.stopped };
        // Relaxed: only the reader writes this counter.
        let before = counter.load(Ordering::Relaxed);
        // Release: pairs with the fence in `stats`, so that `stats` never sees more events
        // discarded than offered.
        counter.store(before + events, Ordering::Release);
    }

    /// Marks the reader as gone. The caller must then fence and empty the queue. Returns `true` if
    /// the caller has to request that the dispatcher reap the watcher. The caller has to do so if
    /// no thread has already stopped the watcher and its mailbox is not closed. If the watcher's
    /// registration was refused or withdrawn, its mailbox is already closed.
    pub(crate) fn set_gone(&self, gave_up: bool, at_end: bool) -> bool {
        let flags = STOPPED | GONE | (u8::from(gave_up) * GAVE_UP) | (u8::from(at_end) * AT_END);
        // Relaxed: the caller's fence orders this store before the caller empties the queue. The
        // fence pairs with the dispatcher's fence after each offer.
        self.flags.fetch_or(flags, Ordering::Relaxed) & (STOPPED | CLOSED) == 0
    }

    /// Marks the reader as finished. This is the reader's last step. Returns whether the dispatcher
    /// has closed the mailbox as well, so that the watcher can be retired.
    pub(crate) fn set_finished(&self) -> bool {
        // Release: pairs with the Acquires in `is_finished` and `set_closed`.
        // Acquire: pairs with the Release in `set_closed`.
        self.flags.fetch_or(FINISHED, Ordering::AcqRel) & CLOSED != 0
    }

    // ── any thread ──

    /// Marks the watcher as stopped. The caller must then fence, and wake the dispatcher and the
    /// reader. Returns `true` if the flag was not already set.
    pub(crate) fn set_stopped(&self) -> bool {
        // Release: pairs with the Acquire in `end`, so that a reader that sees the end also sees
        // the counter for the cause of the end. The caller's fence publishes the flag to the
        // dispatcher. The fence pairs with the fences of the waiting sides.
        self.flags.fetch_or(STOPPED, Ordering::Release) & STOPPED == 0
    }

    /// Marks the watcher as stopped by its policy, unless it has already been stopped. Returns
    /// whether it set the flags. Only the dispatcher calls this. The caller has the same
    /// obligations as for [`set_stopped`](Self::set_stopped).
    pub(crate) fn set_evicted(&self) -> bool {
        let evicted = |flags: u8| (flags & STOPPED == 0).then_some(flags | STOPPED | EVICTED);
        // Release: pairs with the Acquire in `end`, so that a reader that sees the end also sees
        // everything that was queued and counted before the end. Relaxed: after a failed exchange,
        // the update only tries again.
        self.flags.fetch_update(Ordering::Release, Ordering::Relaxed, evicted).is_ok()
    }

    #[inline]
    pub(crate) fn is_stopped(&self) -> bool {
        // Relaxed: no data depends on the flag. A dispatcher that sees the flag late only offers a
        // few more events.
        self.flags.load(Ordering::Relaxed) & STOPPED != 0
    }

    pub(crate) fn has_given_up(&self) -> bool {
        // Relaxed: same as in `is_stopped`.
        self.flags.load(Ordering::Relaxed) & GAVE_UP != 0
    }

    #[inline]
    pub(crate) fn is_gone(&self) -> bool {
        // Relaxed: the dispatcher's fence after its offers orders this load. The fence pairs with
        // the reader's fence after `set_gone`.
        self.flags.load(Ordering::Relaxed) & GONE != 0
    }

    /// If an empty queue now means that the watcher has ended, returns the reason for the end.
    /// Otherwise, returns `None`, because more events may follow.
    #[inline]
    pub(crate) fn end(&self) -> Option<EndReason> {
        // Acquire: pairs with the Release in `set_closed`, so that a later check of the queue finds
        // everything that was put into it. The load also pairs with the Releases in `set_stopped`
        // and `set_evicted`.
        let flags = self.flags.load(Ordering::Acquire);
        (flags & (STOPPED | CLOSED) != 0).then(|| reason(flags))
    }

    /// Returns the reason why the watcher ended, or `None` if its reader has not finished yet.
    pub(crate) fn end_reason(&self) -> Option<EndReason> {
        // Relaxed: if `is_finished` has seen the reader's last flag, this load sees all flags that
        // were set before it. Later stops do not change the reason.
        self.is_finished().then(|| reason(self.flags.load(Ordering::Relaxed)))
    }

    pub(crate) fn is_finished(&self) -> bool {
        // Acquire: pairs with the Release in `set_finished`, so that a thread that has waited for a
        // handler sees what the handler did.
        self.flags.load(Ordering::Acquire) & FINISHED != 0
    }

    /// Returns the offset up to which a handler has handled everything.
    pub(crate) fn handled(&self) -> u64 {
        // Acquire: pairs with the Release in `set_handled`.
        self.got.handled.load(Ordering::Acquire)
    }

    /// Returns whether the dispatcher is currently waiting for capacity in this queue.
    pub(crate) fn is_waited_for(&self) -> bool {
        // Relaxed: the result is only reported.
        self.got.wake_at.load(Ordering::Relaxed) != NEVER
    }

    /// Runs user code for this watcher on the thread that runs the fan-out, so that a monitor can
    /// see that the code is running. Returns `None` if the code panics.
    pub(crate) fn run_user_code<R>(&self, code: impl FnOnce() -> R) -> Option<R> {
        self.sent.user_code.set(1);
        let result = catch_panic(code);
        self.sent.user_code.set(0);
        result
    }

    pub(crate) fn is_running_user_code(&self) -> bool {
        self.sent.user_code.get() == 1
    }

    pub(crate) fn set_oldest_age(&self, age: Duration) {
        self.sent.oldest_age.set(u64::try_from(age.as_nanos()).unwrap_or(u64::MAX));
    }

    pub(crate) fn count_panic(&self) {
        // Relaxed: a count.
        self.panics.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns the number of events in the queue or held by the reader, as reported by `stats`.
    pub(crate) fn queued(&self) -> u64 {
        let (got, sent) = (&self.got, &self.sent);
        // Relaxed, all: only counts, on which no data depends.
        let taken = got.consumed.load(Ordering::Relaxed)
            + got.stopped.load(Ordering::Relaxed)
            + got.abandoned.load(Ordering::Relaxed);
        // Relaxed: a count.
        sent.queued.load(Ordering::Relaxed).saturating_sub(taken)
    }

    pub(crate) fn stats(&self) -> WatcherStats {
        WatcherStats { name: self.name.text().into_owned(), ..self.counters() }
    }

    /// Returns the statistics without the name.
    pub(crate) fn counters(&self) -> WatcherStats {
        // The counts of lost and delivered events are read before the count of offered events, so
        // that no snapshot shows more events lost and delivered than offered.
        let (got, sent) = (&self.got, &self.sent);
        // Relaxed, all: the fence below orders them.
        let delivered = got.consumed.load(Ordering::Relaxed);
        let stopped = got.stopped.load(Ordering::Relaxed);
        let abandoned = got.abandoned.load(Ordering::Relaxed);
        // Relaxed, all: same as above.
        let dropped = DropCounts {
            incoming: sent.incoming.load(Ordering::Relaxed),
            oldest: sent.oldest.load(Ordering::Relaxed),
            conflated: sent.conflated.load(Ordering::Relaxed),
            timed_out: sent.timed_out.load(Ordering::Relaxed),
            stopped: sent.stopped.load(Ordering::Relaxed) + stopped,
            abandoned: sent.abandoned.load(Ordering::Relaxed) + abandoned,
        };
        // Relaxed, all: only counts. `filtered` and `missed` do not depend on any other count.
        let queued = sent.queued.load(Ordering::Relaxed);
        let filtered = sent.filtered.load(Ordering::Relaxed);
        let missed = sent.missed.load(Ordering::Relaxed);
        let high_water = sent.high_water.load(Ordering::Relaxed);
        // Acquire: pairs with the fence in `publish_sent`, and with the Releases in `set_consumed`
        // and `count_discarded`.
        fence(Ordering::Acquire);
        // Relaxed: the fence orders this load after the loads above.
        let offered = sent.offered.load(Ordering::Relaxed);
        let queued = queued.saturating_sub(delivered + stopped + abandoned);
        WatcherStats {
            name: String::new(),
            policy: Some(self.policy),
            offered,
            delivered,
            dropped,
            filtered,
            missed,
            queued,
            lag: offered.saturating_sub(delivered + dropped.total()),
            high_water,
            oldest_age: Duration::from_nanos(if queued == 0 { 0 } else { sent.oldest_age.get() }),
            // Relaxed, both: counts.
            evictions: u64::from(self.flags.load(Ordering::Relaxed) & EVICTED != 0),
            panics: self.panics.load(Ordering::Relaxed),
        }
    }
}

/// Returns the reason for the end of a watcher with these flags. The watcher must have ended.
fn reason(flags: u8) -> EndReason {
    if flags & STOPPED == 0 || flags & (AT_END | GAVE_UP) != 0 {
        EndReason::Closed
    } else if flags & EVICTED == 0 {
        EndReason::Stopped
    } else {
        EndReason::Evicted
    }
}
