//! Runs a pair in the matrix, in which the row's operation races with the column's way of ending
//! the bus.

use std::cell::Cell;
use std::time::Duration;

use eventcast::stats::{ShutdownReport, WatcherStats};
use eventcast::testing::{Payload, begin, finish, rest};
use eventcast::{Broadcaster, BusOptions, OverflowPolicy};
use eventcast_loom_tests::spawn;

pub(super) type Bus = Broadcaster<Payload>;

pub(super) const SECOND: Duration = Duration::from_secs(1);

thread_local! {
    /// Whether the model's bus is inline. A thread-local is sufficient because loom runs all of a
    /// model's threads on one thread.
    pub(super) static IS_INLINE: Cell<bool> = const { Cell::new(false) };
}

/// A column of the matrix, which is a way to end the bus.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    Close,
    Shutdown,
    /// A shutdown whose deadline has already expired when the shutdown begins, so the shutdown
    /// abandons the bus.
    Hasty,
    TwoShutdowns,
    LastHandle,
}

pub(super) const COLUMNS: [(End, &str); 5] = [
    (End::Close, "close"),
    (End::Shutdown, "shutdown"),
    (End::Hasty, "hasty_shutdown"),
    (End::TwoShutdowns, "two_shutdowns"),
    (End::LastHandle, "last_handle"),
];

impl End {
    /// Ends the bus on another thread and returns the handle. Returns `None` if the last handle was
    /// dropped.
    fn run(self, bus: Bus) -> Option<Bus> {
        match self {
            Self::Close => {
                let closed = bus.clone();
                spawn(move || closed.close()).join().unwrap();
            }
            Self::Shutdown => {
                let ended = bus.clone();
                assert!(spawn(move || ended.shutdown()).join().unwrap().complete);
            }
            Self::Hasty => {
                let ended = bus.clone();
                spawn(move || ended.shutdown_timeout(Duration::ZERO)).join().unwrap();
            }
            Self::TwoShutdowns => {
                let ended = bus.clone();
                let other = spawn(move || ended.shutdown());
                let report = bus.shutdown();
                assert_eq!(other.join().unwrap(), report);
                assert!(report.complete);
            }
            Self::LastHandle => {
                spawn(move || drop(bus)).join().unwrap();
                return None;
            }
        }
        Some(bus)
    }
}

/// A row of the matrix, which is an operation on the bus.
pub(super) struct Row<S, R> {
    /// The capacity of the incoming queue, in entries.
    pub(super) incoming: usize,
    /// Whether an event fills the incoming queue when the two threads begin. If so, the dispatcher
    /// is about to wake up for the event. If the queue is not full, the dispatcher is asleep. On an
    /// inline bus, the event fills the queue of a watcher with `Wait`.
    pub(super) is_full: bool,
    pub(super) policy: OverflowPolicy,
    pub(super) set_up: fn(&Bus) -> S,
    pub(super) act: fn(S) -> R,
    /// Checks the result after both threads have ended. The report is `None` if there is no handle
    /// left from which to request a report. The report is incomplete if a shutdown abandoned the
    /// bus.
    pub(super) check: fn(R, Option<&ShutdownReport>),
}

impl<S: 'static, R: 'static> Row<S, R> {
    pub(super) fn against(&self, end: End) {
        let options =
            BusOptions::default().incoming_capacity(self.incoming).queue_capacity(1).overflow(self.policy);
        // With `max_batch(1)`, a batch of two events takes two slots in the incoming queue. Direct
        // delivery is off if the incoming queue has to be filled, because an event that is
        // delivered directly would not fill the queue.
        let is_inline = IS_INLINE.get();
        let is_direct = is_inline || !self.is_full;
        let bus =
            Bus::with_options(options.max_batch(1).direct_delivery(is_direct).inline(is_inline)).unwrap();
        // A row with the `Wait` policy fills the queue of its own watcher in `set_up`.
        let fills = is_inline && self.is_full && self.policy != OverflowPolicy::Wait;
        let full = fills.then(|| bus.watch_builder().overflow(OverflowPolicy::Wait).watch().unwrap());
        let prepared = (self.set_up)(&bus);
        rest(&bus);
        if self.is_full && (fills || !is_inline) {
            bus.publisher().try_publish(Payload::new(0)).unwrap();
        }
        begin();
        let act = self.act;
        let acting = spawn(move || act(prepared));
        let ended = end.run(bus);
        let result = acting.join().unwrap();
        finish();
        drop(full);
        // The bus is already ending, so this shutdown waits for the bus to end.
        let report = ended.map(|bus| {
            let mut report = bus.shutdown();
            assert!(report.threads_ended);
            // The report shows the bus's state at the time when the bus ended, and the other thread
            // may have continued since then. The bus does not accept any events after it has ended.
            let stats = bus.stats();
            assert_eq!(report.bus.accepted, stats.accepted);
            report.bus = stats;
            report
        });
        if end != End::Hasty {
            assert!(report.as_ref().is_none_or(|report| report.complete));
        }
        (self.check)(result, report.as_ref());
    }
}

/// Waits until the dispatcher no longer holds any events for a watcher, and returns the watcher's
/// counters. The wait is necessary because a shutdown that abandons the bus does not wait for the
/// dispatcher.
pub(super) fn settled(stats: impl Fn() -> WatcherStats) -> WatcherStats {
    loop {
        let stats = stats();
        if stats.lag == 0 {
            return stats;
        }
        loom::thread::yield_now();
    }
}
