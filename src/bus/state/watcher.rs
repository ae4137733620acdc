//! What the two ends of a watcher's mailbox share, whatever the events are: counters with one writer each, flags, and
//! the watcher's sleeper.

use crate::bus::wait::WakeCell;
use crate::policy::OverflowPolicy;
use crate::stats::{DropCounts, WatcherStats};
use crate::sync::atomic::{AtomicU8, AtomicU64, Ordering, fence};
use crate::sync::{CachePadded, Parker};

/// Somebody asked for the end: nothing more is offered.
const STOPPED: u8 = 1;
/// The reader takes nothing more out of the queue, or is about to empty it for good.
const GONE: u8 = 2;
/// The dispatcher puts nothing more into the queue.
const CLOSED: u8 = 4;
/// The reader's end has been dropped; of a handler, everything has been handled.
const FINISHED: u8 = 8;

/// A handler has given up its queue on the order of a shutdown by deadline: what comes still counts as abandoned.
const GAVE_UP: u8 = 16;

/// No credit is waited for.
const NEVER: u64 = u64::MAX;

#[derive(Debug)]
pub(crate) struct WatcherState {
    pub(crate) id: u64,
    pub(crate) name: Box<str>,
    pub(crate) capacity: u64,
    pub(crate) policy: OverflowPolicy,
    /// Whether flush and shutdown wait for the reader, because the library runs it.
    pub(crate) is_handler: bool,
    flags: AtomicU8,
    /// The value of `consumed` at which a dispatcher that waits for room wants to be woken.
    wake_at: AtomicU64,
    pub(crate) wake_cell: WakeCell,
    panics: AtomicU64,
    /// Written by the dispatcher alone.
    sent: CachePadded<SentSide>,
    /// Written by the reader alone.
    got: CachePadded<GotSide>,
}

#[derive(Debug, Default)]
struct SentSide {
    /// Every position below it is in the queue, delivered or lost.
    decided: AtomicU64,
    offered: AtomicU64,
    /// Put into the queue, less what the dispatcher took out again.
    queued: AtomicU64,
    incoming: AtomicU64,
    oldest: AtomicU64,
    timed_out: AtomicU64,
    stopped: AtomicU64,
    abandoned: AtomicU64,
    filtered: AtomicU64,
    high_water: AtomicU64,
}

#[derive(Debug, Default)]
struct GotSide {
    /// Taken out of the queue and read to the end: delivered.
    consumed: AtomicU64,
    /// Taken out and thrown away: by a reader that stopped, or on the order of a shutdown by deadline.
    stopped: AtomicU64,
    abandoned: AtomicU64,
    /// The position up to which a handler has handled everything, gaps included.
    handled: AtomicU64,
}

/// The dispatcher's own copy of what it publishes.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Sent {
    pub(crate) decided: u64,
    pub(crate) offered: u64,
    pub(crate) queued: u64,
    pub(crate) drops: DropCounts,
    pub(crate) filtered: u64,
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
            panics: AtomicU64::new(0),
            sent: CachePadded::new(SentSide::default()),
            got: CachePadded::new(GotSide::default()),
        }
    }

    // ── the dispatcher's side ──

    /// Publishes how much was offered, before any of it is queued or lost.
    pub(crate) fn publish_offered(&self, offered: u64) {
        // Relaxed: published by the queue, and by the fence in `publish_sent`, both of which come after it.
        self.sent.offered.store(offered, Ordering::Relaxed);
    }

    /// Publishes the dispatcher's counters.
    pub(crate) fn publish_sent(&self, sent: &Sent) {
        let to = &self.sent;
        // Release: pairs with the fence in `stats`, which so never sees more lost than offered, and with the Acquire in
        // `decided`: who sees a position decided finds its event in the queue, or knows it lost.
        fence(Ordering::Release);
        // Relaxed, all: the fence above orders them.
        to.incoming.store(sent.drops.incoming, Ordering::Relaxed);
        to.oldest.store(sent.drops.oldest, Ordering::Relaxed);
        to.timed_out.store(sent.drops.timed_out, Ordering::Relaxed);
        to.stopped.store(sent.drops.stopped, Ordering::Relaxed);
        to.abandoned.store(sent.drops.abandoned, Ordering::Relaxed);
        // Relaxed, as well: they are behind the same fence.
        to.filtered.store(sent.filtered, Ordering::Relaxed);
        to.high_water.store(sent.high_water, Ordering::Relaxed);
        to.queued.store(sent.queued, Ordering::Relaxed);
        to.decided.store(sent.decided, Ordering::Relaxed);
    }

    pub(crate) fn consumed(&self) -> u64 {
        // Acquire: pairs with the Release in `set_consumed`: the room that it reports is really there.
        self.got.consumed.load(Ordering::Acquire)
    }

    /// Asks for a wake-up at this value of `consumed`. The caller arms its sleeper and looks again.
    pub(crate) fn want_room(&self, at: u64) {
        // Relaxed: the fence in `WakeCell::arm` orders it before the second look at `consumed`.
        self.wake_at.store(at, Ordering::Relaxed);
    }

    pub(crate) fn has_room(&self) {
        // Relaxed: late news only costs a look at a sleeper that is not armed.
        self.wake_at.store(NEVER, Ordering::Relaxed);
    }

    /// The dispatcher's last word to this watcher. True: the reader is finished too, and the watcher can be forgotten.
    pub(crate) fn set_closed(&self) -> bool {
        // Release: pairs with the Acquire in `is_over`: who sees the end sees every event and position before it.
        // Acquire: pairs with the Release in `set_finished`: of the two last words, the later sees the other's counts.
        self.flags.fetch_or(CLOSED, Ordering::AcqRel) & FINISHED != 0
    }

    // ── the reader's side ──

    pub(crate) fn decided(&self) -> u64 {
        // Acquire: pairs with the fence in `publish_sent`.
        self.sent.decided.load(Ordering::Acquire)
    }

    /// Gives room back. Whether a dispatcher waits for it, the reader asks after a fence.
    #[inline]
    pub(crate) fn set_consumed(&self, consumed: u64) {
        // Release: pairs with the Acquire in `consumed` and the fence in `stats`.
        self.got.consumed.store(consumed, Ordering::Release);
    }

    /// Whether a dispatcher waits for what has been consumed so far.
    #[inline]
    pub(crate) fn is_room_wanted(&self, consumed: u64) -> bool {
        // Relaxed: ordered after `consumed` by the caller's fence.
        consumed >= self.wake_at.load(Ordering::Relaxed)
    }

    pub(crate) fn set_handled(&self, position: u64) {
        // Release: pairs with the Acquire in `handled`: who waits for a handler sees what it did.
        self.got.handled.store(position, Ordering::Release);
    }

    pub(crate) fn count_discarded(&self, events: u64, abandoned: bool) {
        let counter = if abandoned { &self.got.abandoned } else { &self.got.stopped };
        // Relaxed: the reader is the only writer.
        let before = counter.load(Ordering::Relaxed);
        // Release: pairs with the fence in `stats`, which so never sees more thrown away than offered.
        counter.store(before + events, Ordering::Release);
    }

    /// The reader will take no more. The caller fences, and empties the queue. True: nobody had stopped it before.
    pub(crate) fn set_gone(&self, gave_up: bool) -> bool {
        let flags = if gave_up { STOPPED | GONE | GAVE_UP } else { STOPPED | GONE };
        // Relaxed: the caller's fence orders it before the emptying; its partner is the dispatcher's after each offer.
        self.flags.fetch_or(flags, Ordering::Relaxed) & STOPPED == 0
    }

    /// The reader's last word. True: the dispatcher is done too, and the watcher can be forgotten.
    pub(crate) fn set_finished(&self) -> bool {
        // Release: pairs with the Acquires in `is_finished` and `set_closed`. Acquire: pairs with `set_closed`'s Release.
        self.flags.fetch_or(FINISHED, Ordering::AcqRel) & CLOSED != 0
    }

    // ── anybody ──

    /// Asks for the end. The caller fences, and tells the dispatcher and the reader. True: nobody had before.
    pub(crate) fn set_stopped(&self) -> bool {
        // Release: pairs with the Acquire in `is_over`: who sees the end finds counted what led to it. To the dispatcher the
        // caller's fence publishes it; its partners are the fences of the sleepers.
        self.flags.fetch_or(STOPPED, Ordering::Release) & STOPPED == 0
    }

    pub(crate) fn is_stopped(&self) -> bool {
        // Relaxed: no data hangs on it; a late look only offers a little more.
        self.flags.load(Ordering::Relaxed) & STOPPED != 0
    }

    pub(crate) fn has_given_up(&self) -> bool {
        // Relaxed: as in `is_stopped`.
        self.flags.load(Ordering::Relaxed) & GAVE_UP != 0
    }

    pub(crate) fn is_gone(&self) -> bool {
        // Relaxed: the dispatcher's fence after its offers orders it; its partner is the reader's after `set_gone`.
        self.flags.load(Ordering::Relaxed) & GONE != 0
    }

    /// Whether an empty queue is the end.
    pub(crate) fn is_over(&self) -> bool {
        // Acquire: pairs with the Release in `set_closed`, so that the queue, looked at after this, holds all there was; and
        // with that in `set_stopped`.
        self.flags.load(Ordering::Acquire) & (STOPPED | CLOSED) != 0
    }

    pub(crate) fn is_finished(&self) -> bool {
        // Acquire: pairs with the Release in `set_finished`: who waited for a handler sees what it did.
        self.flags.load(Ordering::Acquire) & FINISHED != 0
    }

    /// The position up to which a handler is through.
    pub(crate) fn handled(&self) -> u64 {
        // Acquire: pairs with the Release in `set_handled`.
        self.got.handled.load(Ordering::Acquire)
    }

    /// Whether the dispatcher waits for room in this queue now.
    pub(crate) fn is_waited_for(&self) -> bool {
        // Relaxed: only reported.
        self.wake_at.load(Ordering::Relaxed) != NEVER
    }

    pub(crate) fn count_panic(&self) {
        // Relaxed: a count.
        self.panics.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn stats(&self) -> WatcherStats {
        // What is lost and delivered is read before what was offered, so a snapshot in flight never shows more of it.
        let (got, sent) = (&self.got, &self.sent);
        // Relaxed, all: the fence below orders them.
        let delivered = got.consumed.load(Ordering::Relaxed);
        let stopped = got.stopped.load(Ordering::Relaxed);
        let abandoned = got.abandoned.load(Ordering::Relaxed);
        let dropped = DropCounts {
            incoming: sent.incoming.load(Ordering::Relaxed),
            oldest: sent.oldest.load(Ordering::Relaxed),
            timed_out: sent.timed_out.load(Ordering::Relaxed),
            stopped: sent.stopped.load(Ordering::Relaxed) + stopped,
            abandoned: sent.abandoned.load(Ordering::Relaxed) + abandoned,
        };
        // Relaxed, both: counts; `filtered` hangs on no other.
        let queued = sent.queued.load(Ordering::Relaxed);
        let (filtered, high_water) =
            (sent.filtered.load(Ordering::Relaxed), sent.high_water.load(Ordering::Relaxed));
        // Acquire: pairs with the fence in `publish_sent`, and with the Releases in `set_consumed` and `count_discarded`.
        fence(Ordering::Acquire);
        // Relaxed: the fence orders it behind the counts above.
        let offered = sent.offered.load(Ordering::Relaxed);
        WatcherStats {
            name: self.name.to_string(),
            policy: self.policy,
            offered,
            delivered,
            dropped,
            filtered,
            queued: queued.saturating_sub(delivered + stopped + abandoned),
            lag: offered.saturating_sub(delivered + dropped.total()),
            high_water,
            // Relaxed: a count.
            panics: self.panics.load(Ordering::Relaxed),
        }
    }
}
