//! A model for each pair of something that can happen on a bus and something that ends the bus.
//!
//! One thread does what the row says. Another thread ends the bus as the column says. The
//! dispatcher is the third thread. The set-up is not explored: the dispatcher sleeps when the two
//! threads begin. Each pair is there a second time for an inline bus, which has no dispatcher.

mod publishing;
mod user_code;
mod watching;

use std::cell::Cell;
use std::time::Duration;

use eventcast::stats::WatcherStats;
use eventcast::testing::{Exploration, Payload, begin, finish, rest};
use eventcast::{Broadcaster, BusOptions, OverflowPolicy, ShutdownReport};
use eventcast_loom_tests::table::{ENDS, WHOLE};
use eventcast_loom_tests::{Model, explore, set_cell, spawn};

type Bus = Broadcaster<Payload>;

const SECOND: Duration = Duration::from_secs(1);

thread_local! {
    /// Whether the bus of the model is inline. loom runs all threads of a model on one thread.
    static IS_INLINE: Cell<bool> = const { Cell::new(false) };
}

/// A column: a way to end the bus.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Close,
    Shutdown,
    /// A shutdown whose deadline has passed when it begins, so that it abandons the bus.
    Hasty,
    TwoShutdowns,
    LastHandle,
}

const COLUMNS: [(End, &str); 5] = [
    (End::Close, "close"),
    (End::Shutdown, "shutdown"),
    (End::Hasty, "hasty_shutdown"),
    (End::TwoShutdowns, "two_shutdowns"),
    (End::LastHandle, "last_handle"),
];

impl End {
    /// Ends the bus on another thread, and returns the handle. Returns `None` if the last handle
    /// was dropped.
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

/// A row: an operation on the bus.
struct Row<S, R> {
    /// The length of the incoming queue, in entries.
    incoming: usize,
    /// Whether an event fills the incoming queue when the two threads begin. The dispatcher is then
    /// about to wake up for the event. Otherwise the dispatcher sleeps. On an inline bus, the event
    /// fills the queue of a watcher with `Wait`.
    is_full: bool,
    policy: OverflowPolicy,
    set_up: fn(&Bus) -> S,
    act: fn(S) -> R,
    /// The check of the result, when both threads have ended. The report is `None` if there is no
    /// handle to ask for it, and incomplete if a shutdown abandoned the bus.
    check: fn(R, Option<&ShutdownReport>),
}

impl<S: 'static, R: 'static> Row<S, R> {
    fn against(&self, end: End) {
        let options =
            BusOptions::default().incoming_capacity(self.incoming).queue_capacity(1).overflow(self.policy);
        // With this limit, a batch of two events takes two places in the incoming queue.
        // An event that is delivered directly would not fill the incoming queue.
        let is_inline = IS_INLINE.get();
        let is_direct = is_inline || !self.is_full;
        let bus =
            Bus::with_options(options.max_batch(1).direct_delivery(is_direct).inline(is_inline)).unwrap();
        // A row with `Wait` fills its own watcher.
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
        // The end has begun, so this shutdown waits for it.
        let report = ended.map(|bus| {
            let mut report = bus.shutdown();
            assert!(report.threads_ended);
            // A report shows the bus at its end, and the other thread may have continued. The bus
            // accepts nothing after that end.
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

/// Waits until the dispatcher holds nothing for a watcher, and returns the watcher's counters. A
/// shutdown that abandoned the bus has not waited for the dispatcher.
fn settled(stats: impl Fn() -> WatcherStats) -> WatcherStats {
    loop {
        let stats = stats();
        if stats.lag == 0 {
            return stats;
        }
        loom::thread::yield_now();
    }
}

pub(crate) fn models() -> Vec<Model> {
    /// A row's name, its title in the table, and the function that explores it.
    type Named = (&'static str, &'static str, fn(End));
    let rows: [Named; 22] = [
        ("try_publish", "`try_publish`", publishing::try_publish),
        ("publish", "`publish` that waits", publishing::publish_that_waits),
        ("publish_timeout", "`publish_timeout`", publishing::publish_timeout),
        ("publish_batch", "`publish_batch`", publishing::publish_batch),
        ("publish_async", "`publish_async`", publishing::publish_async),
        ("last_publisher", "the last publisher's drop", publishing::the_last_publishers_drop),
        ("clone", "a clone of the broadcaster", publishing::a_clone_of_the_broadcaster),
        ("watch", "`watch`", watching::watch),
        ("watch_given_up", "a registration that is given up", watching::a_registration_that_is_given_up),
        ("publish_gap", "`publish_gap`", watching::publish_gap),
        ("stop", "`stop`", watching::stop),
        ("drop_watcher", "drop of a watcher", watching::drop_of_a_watcher),
        ("recv", "`recv`", watching::recv),
        ("recv_async", "`recv_async`", watching::recv_async),
        ("select", "a `Select`", watching::a_select),
        ("flush", "`flush`", watching::flush),
        ("flush_async", "`flush_async`", watching::flush_async),
        ("handler", "a handler at work", user_code::a_handler_at_work),
        ("handler_registered", "a handler that is registered", user_code::a_handler_that_is_registered),
        ("handler_panic", "a handler that panics", user_code::a_handler_that_panics),
        ("filter_panic", "a filter that panics", user_code::a_filter_that_panics),
        ("filter_drop", "a filter whose `Drop` calls back", user_code::a_filter_whose_drop_calls_back),
    ];
    let mut models: Vec<Model> = Vec::new();
    for (is_inline, matrix) in [(false, "matrix"), (true, "matrix_inline")] {
        for (name, operation, row) in rows {
            for ((end, column), title) in COLUMNS.into_iter().zip(ENDS) {
                let explore = move || {
                    let inline = || &*format!("{operation}, inline").leak();
                    set_cell(if is_inline { inline() } else { operation }, title);
                    let whole = Exploration::default().after_set_up();
                    // The other columns add little to the whole ones, and what they add shows
                    // early.
                    let exploration = if WHOLE.contains(&title) { whole } else { whole.first(10_000) };
                    IS_INLINE.set(is_inline);
                    explore(exploration, move || row(end));
                };
                models.push((format!("{matrix}::{name}::{column}"), Box::new(explore)));
            }
        }
    }
    models
}
