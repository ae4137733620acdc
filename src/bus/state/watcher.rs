//! The state that both ends of a watcher's mailbox share, for events of any type: counters with one
//! writer each (except `panics`), flags, and the watcher's wake cell.

use std::sync::OnceLock;

use crate::bus::counters::{DropCounts, WatcherStats};
use crate::bus::policy::OverflowPolicy;
use crate::bus::wait::WakeCell;
use crate::sync::atomic::{AtomicU8, AtomicU64, Ordering, fence};
use crate::sync::{CachePadded, Parker};

use super::end_reason::EndReason;

/// The flag of a watcher that has been stopped. The dispatcher offers it nothing more, unless
/// `GAVE_UP` is set too.
const STOPPED: u8 = 1;
/// The flag of a reader that is gone. It takes nothing more out of the queue, except to discard
/// what is left.
const GONE: u8 = 2;
/// The flag of a closed mailbox. The dispatcher puts nothing more into the queue.
const CLOSED: u8 = 4;
/// The flag of a reader that has finished: its receiver has been dropped. A handler has then
/// handled all that it will handle.
const FINISHED: u8 = 8;

/// The flag of a handler that has abandoned its queue because of a shutdown by deadline. Events
/// that are still offered to it count as abandoned.
const GAVE_UP: u8 = 16;

/// The flag of a watcher that its own policy has stopped, because an event did not fit. `STOPPED`
/// is set with it.
const EVICTED: u8 = 32;

/// The value of `wake_at` while no dispatcher waits for capacity.
const NEVER: u64 = u64::MAX;

pub(crate) struct WatcherState {
    pub(crate) id: u64,
    pub(crate) name: Box<str>,
    pub(crate) capacity: u64,
    pub(crate) policy: OverflowPolicy,
    /// Whether the library runs the reader, so that flush and shutdown wait for it.
    pub(crate) is_handler: bool,
    flags: AtomicU8,
    /// The value of `consumed` at which a dispatcher that waits for capacity wants to be woken, or
    /// `NEVER`.
    wake_at: AtomicU64,
    pub(crate) wake_cell: WakeCell,
    /// The position in the order of the bus after which the watcher starts. Empty until the
    /// dispatcher has registered the watcher.
    start: OnceLock<u64>,
    panics: AtomicU64,
    /// The counters that only the dispatcher writes.
    sent: CachePadded<SentSide>,
    /// The counters that only the reader writes.
    got: CachePadded<GotSide>,
}

#[derive(Default)]
struct SentSide {
    /// The lowest offset that is not decided. Every event below it is in the queue, delivered or
    /// lost.
    decided: AtomicU64,
    offered: AtomicU64,
    /// The number of events put into the queue, minus those that the dispatcher took out again.
    queued: AtomicU64,
    incoming: AtomicU64,
    oldest: AtomicU64,
    timed_out: AtomicU64,
    stopped: AtomicU64,
    abandoned: AtomicU64,
    filtered: AtomicU64,
    /// The number of events that are missing for every watcher, or that the history no longer had.
    missed: AtomicU64,
    high_water: AtomicU64,
}

#[derive(Default)]
struct GotSide {
    /// The number of delivered events: the reader has taken them out of the queue, and has freed
    /// their capacity.
    consumed: AtomicU64,
    /// The number of events that the reader discarded because it stopped.
    stopped: AtomicU64,
    /// The number of events that the reader discarded after a shutdown by deadline had abandoned
    /// the rest.
    abandoned: AtomicU64,
    /// The offset up to which a handler has handled everything, gaps included.
    handled: AtomicU64,
}

/// The dispatcher's copy of the counters that it publishes.
#[derive(Clone, Copy, Default)]
pub(crate) struct Sent {
    pub(crate) decided: u64,
    pub(crate) offered: u64,
    pub(crate) queued: u64,
    pub(crate) drops: DropCounts,
    pub(crate) filtered: u64,
    pub(crate) missed: u64,
    pub(crate) high_water: u64,
}

impl WatcherState {
    pub(crate) fn new(
        id: u64,
        name: &str,
        capacity: usize,
        policy: OverflowPolicy,
        is_handler: bool,
        parker: &Parker,
    ) -> Self {
        Self {
            id,
            name: name.into(),
            capacity: capacity as u64,
            policy,
            is_handler,
            flags: AtomicU8::new(0),
            wake_at: AtomicU64::new(NEVER),
            wake_cell: WakeCell::new(parker),
            start: OnceLock::new(),
            panics: AtomicU64::new(0),
            sent: CachePadded::new(SentSide::default()),
            got: CachePadded::new(GotSide::default()),
        }
    }

    // ── the dispatcher's side ──

    /// Publishes the position in the order of the bus after which the watcher starts, before
    /// anything is offered.
    pub(crate) fn set_start(&self, position: u64) {
        let _ = self.start.set(position);
    }

    /// Publishes how many events were missing for the watcher.
    pub(crate) fn set_missed(&self, events: u64) {
        // Relaxed: a count.
        self.sent.missed.store(events, Ordering::Relaxed);
    }

    /// Publishes how many events were offered, before any of them is queued or lost.
    #[inline]
    pub(crate) fn publish_offered(&self, offered: u64) {
        // Relaxed: the queue and the fence in `publish_sent`, which both follow this store, publish
        // it.
        self.sent.offered.store(offered, Ordering::Relaxed);
    }

    /// Publishes the dispatcher's counters.
    #[inline]
    pub(crate) fn publish_sent(&self, sent: &Sent) {
        let to = &self.sent;
        // Release: pairs with the fence in `stats`, so that `stats` never sees more events lost
        // than offered. It also pairs with the Acquire in `decided`, so that a reader that sees a
        // offset decided finds its event in the queue, or knows that it is lost.
        fence(Ordering::Release);
        // Relaxed, all: the fence above orders them.
        to.incoming.store(sent.drops.incoming, Ordering::Relaxed);
        to.oldest.store(sent.drops.oldest, Ordering::Relaxed);
        to.timed_out.store(sent.drops.timed_out, Ordering::Relaxed);
        to.stopped.store(sent.drops.stopped, Ordering::Relaxed);
        to.abandoned.store(sent.drops.abandoned, Ordering::Relaxed);
        // Relaxed, as well: they follow the same fence.
        to.filtered.store(sent.filtered, Ordering::Relaxed);
        to.high_water.store(sent.high_water, Ordering::Relaxed);
        to.queued.store(sent.queued, Ordering::Relaxed);
        to.decided.store(sent.decided, Ordering::Relaxed);
    }

    #[inline]
    pub(crate) fn consumed(&self) -> u64 {
        // Acquire: pairs with the Release in `set_consumed`, so that the capacity that it reports
        // is really free.
        self.got.consumed.load(Ordering::Acquire)
    }

    /// Asks for a wake-up at this value of `consumed`. The caller then arms its wake cell and
    /// checks again.
    pub(crate) fn want_room(&self, at: u64) {
        // Relaxed: the fence in `WakeCell::arm` orders it before the second read of `consumed`.
        self.wake_at.store(at, Ordering::Relaxed);
    }

    /// Asks for a wake-up at this value of `consumed`, unless an earlier wake-up is already
    /// pending. The caller then fences, and checks again.
    pub(crate) fn wish_for_room(&self, at: u64) {
        // Relaxed, both: written under the lock of an inline bus. The caller's fence orders the
        // store before its second read of `consumed`.
        let before = self.wake_at.load(Ordering::Relaxed);
        if before <= self.consumed() || at < before {
            self.wake_at.store(at, Ordering::Relaxed);
        }
    }

    pub(crate) fn has_room(&self) {
        // Relaxed: a reader that sees this late only checks a wake cell that is not armed.
        self.wake_at.store(NEVER, Ordering::Relaxed);
    }

    /// Sets the flag of a closed mailbox, after the dispatcher has put the last event into the
    /// queue. Returns whether the reader has finished too, so that the watcher can be retired.
    pub(crate) fn set_closed(&self) -> bool {
        // Release: pairs with the Acquire in `end`. A reader that sees the end sees every event
        // and offset before it.
        // Acquire: pairs with the Release in `set_finished`. Of the two sides, the later one sees
        // the counts of the other.
        self.flags.fetch_or(CLOSED, Ordering::AcqRel) & FINISHED != 0
    }

    // ── the reader's side ──

    #[inline]
    pub(crate) fn decided(&self) -> u64 {
        // Acquire: pairs with the fence in `publish_sent`.
        self.sent.decided.load(Ordering::Acquire)
    }

    /// Returns the position after which the watcher starts. Returns `None` if the dispatcher has
    /// not registered the watcher yet.
    pub(crate) fn start(&self) -> Option<u64> {
        self.start.get().copied()
    }

    /// Frees capacity. After a fence, the reader checks whether a dispatcher waits for this
    /// capacity.
    #[inline]
    pub(crate) fn set_consumed(&self, consumed: u64) {
        // Release: pairs with the Acquire in `consumed` and the fence in `stats`.
        self.got.consumed.store(consumed, Ordering::Release);
    }

    /// Returns whether a dispatcher waits for the capacity that has been freed so far.
    #[inline]
    pub(crate) fn is_room_wanted(&self, consumed: u64) -> bool {
        // Relaxed: the caller's fence orders this load after `consumed`.
        consumed >= self.wake_at.load(Ordering::Relaxed)
    }

    pub(crate) fn set_handled(&self, offset: u64) {
        // Release: pairs with the Acquire in `handled`, so that a thread that waits for a handler
        // sees what the handler did.
        self.got.handled.store(offset, Ordering::Release);
    }

    pub(crate) fn count_discarded(&self, events: u64, abandoned: bool) {
        let counter = if abandoned { &self.got.abandoned } else { &self.got.stopped };
        // Relaxed: the reader is the only writer.
        let before = counter.load(Ordering::Relaxed);
        // Release: pairs with the fence in `stats`, so that `stats` never sees more events
        // discarded than offered.
        counter.store(before + events, Ordering::Release);
    }

    /// Sets the flag of a reader that is gone. The caller then fences, and empties the queue.
    /// Returns `true` if the dispatcher has to be asked to reap the watcher: no thread had stopped
    /// it before, and its mailbox is not closed, which it is if it was never registered.
    pub(crate) fn set_gone(&self, gave_up: bool) -> bool {
        let flags = if gave_up { STOPPED | GONE | GAVE_UP } else { STOPPED | GONE };
        // Relaxed: the caller's fence orders it before the emptying. Its partner is the
        // dispatcher's fence after each offer.
        self.flags.fetch_or(flags, Ordering::Relaxed) & (STOPPED | CLOSED) == 0
    }

    /// Sets the flag of a reader that has finished, as its last act. Returns whether the dispatcher
    /// has closed the mailbox too, so that the watcher can be retired.
    pub(crate) fn set_finished(&self) -> bool {
        // Release: pairs with the Acquires in `is_finished` and `set_closed`.
        // Acquire: pairs with the Release in `set_closed`.
        self.flags.fetch_or(FINISHED, Ordering::AcqRel) & CLOSED != 0
    }

    // ── any thread ──

    /// Sets the flag of a watcher that has been stopped. The caller then fences, and wakes the
    /// dispatcher and the reader. Returns `true` if the flag was not set before.
    pub(crate) fn set_stopped(&self) -> bool {
        // Release: pairs with the Acquire in `end`, so that a reader that sees the end also sees
        // the counter of its cause. The caller's fence publishes the flag to the dispatcher. Its
        // partners are the fences of the waiting sides.
        self.flags.fetch_or(STOPPED, Ordering::Release) & STOPPED == 0
    }

    /// Sets the flags of a watcher that its policy stops, unless the watcher has been stopped
    /// before. Returns whether it has set them. Only the dispatcher calls this. The rest is as in
    /// [`set_stopped`](Self::set_stopped).
    pub(crate) fn set_evicted(&self) -> bool {
        let evicted = |flags: u8| (flags & STOPPED == 0).then_some(flags | STOPPED | EVICTED);
        // Release: pairs with the Acquire in `end`, so that a reader that sees the end also sees
        // everything that was queued and counted before. Relaxed: a failed attempt only tries
        // again.
        self.flags.fetch_update(Ordering::Release, Ordering::Relaxed, evicted).is_ok()
    }

    #[inline]
    pub(crate) fn is_stopped(&self) -> bool {
        // Relaxed: no data depends on it. A dispatcher that sees it late only offers a little more.
        self.flags.load(Ordering::Relaxed) & STOPPED != 0
    }

    pub(crate) fn has_given_up(&self) -> bool {
        // Relaxed: as in `is_stopped`.
        self.flags.load(Ordering::Relaxed) & GAVE_UP != 0
    }

    #[inline]
    pub(crate) fn is_gone(&self) -> bool {
        // Relaxed: the dispatcher's fence after its offers orders this load. Its partner is the
        // reader's fence after `set_gone`.
        self.flags.load(Ordering::Relaxed) & GONE != 0
    }

    /// Returns the reason why the watcher ended, if an empty queue means the end.
    #[inline]
    pub(crate) fn end(&self) -> Option<EndReason> {
        // Acquire: pairs with the Release in `set_closed`, so that a check of the queue after this
        // finds everything that was put into it. It also pairs with the Releases in `set_stopped`
        // and `set_evicted`.
        let flags = self.flags.load(Ordering::Acquire);
        if flags & (STOPPED | CLOSED) == 0 {
            None
        } else if flags & STOPPED == 0 {
            Some(EndReason::Closed)
        } else if flags & EVICTED == 0 {
            Some(EndReason::Stopped)
        } else {
            Some(EndReason::Evicted)
        }
    }

    pub(crate) fn is_finished(&self) -> bool {
        // Acquire: pairs with the Release in `set_finished`, so that a thread that waited for a
        // handler sees what the handler did.
        self.flags.load(Ordering::Acquire) & FINISHED != 0
    }

    /// Returns the offset up to which a handler has handled everything.
    pub(crate) fn handled(&self) -> u64 {
        // Acquire: pairs with the Release in `set_handled`.
        self.got.handled.load(Ordering::Acquire)
    }

    /// Returns whether the dispatcher waits for capacity in this queue now.
    pub(crate) fn is_waited_for(&self) -> bool {
        // Relaxed: the value is only reported.
        self.wake_at.load(Ordering::Relaxed) != NEVER
    }

    pub(crate) fn count_panic(&self) {
        // Relaxed: a count.
        self.panics.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns the number of events that are in the queue or that the reader holds, like `stats`.
    pub(crate) fn queued(&self) -> u64 {
        let (got, sent) = (&self.got, &self.sent);
        // Relaxed, all: counts, on which no data depends.
        let taken = got.consumed.load(Ordering::Relaxed)
            + got.stopped.load(Ordering::Relaxed)
            + got.abandoned.load(Ordering::Relaxed);
        // Relaxed: a count.
        sent.queued.load(Ordering::Relaxed).saturating_sub(taken)
    }

    pub(crate) fn stats(&self) -> WatcherStats {
        // The counts of lost and delivered events are read before the count of offered ones, so
        // that a snapshot at any time never shows more events lost and delivered than offered.
        let (got, sent) = (&self.got, &self.sent);
        // Relaxed, all: the fence below orders them.
        let delivered = got.consumed.load(Ordering::Relaxed);
        let stopped = got.stopped.load(Ordering::Relaxed);
        let abandoned = got.abandoned.load(Ordering::Relaxed);
        // Relaxed, all: as above.
        let dropped = DropCounts {
            incoming: sent.incoming.load(Ordering::Relaxed),
            oldest: sent.oldest.load(Ordering::Relaxed),
            timed_out: sent.timed_out.load(Ordering::Relaxed),
            stopped: sent.stopped.load(Ordering::Relaxed) + stopped,
            abandoned: sent.abandoned.load(Ordering::Relaxed) + abandoned,
        };
        // Relaxed, all: counts. `filtered` and `missed` depend on no other count.
        let queued = sent.queued.load(Ordering::Relaxed);
        let filtered = sent.filtered.load(Ordering::Relaxed);
        let missed = sent.missed.load(Ordering::Relaxed);
        let high_water = sent.high_water.load(Ordering::Relaxed);
        // Acquire: pairs with the fence in `publish_sent`, and with the Releases in `set_consumed`
        // and `count_discarded`.
        fence(Ordering::Acquire);
        // Relaxed: the fence orders it after the counts above.
        let offered = sent.offered.load(Ordering::Relaxed);
        WatcherStats {
            name: self.name.to_string(),
            policy: Some(self.policy),
            offered,
            delivered,
            dropped,
            filtered,
            missed,
            queued: queued.saturating_sub(delivered + stopped + abandoned),
            lag: offered.saturating_sub(delivered + dropped.total()),
            high_water,
            // Relaxed, both: counts.
            evictions: u64::from(self.flags.load(Ordering::Relaxed) & EVICTED != 0),
            panics: self.panics.load(Ordering::Relaxed),
        }
    }
}
