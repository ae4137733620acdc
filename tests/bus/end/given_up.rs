//! Handlers that give up, because of a shutdown by deadline, before the dispatcher has registered
//! them. What was accepted behind their registration counts as abandoned.

use std::sync::mpsc;
use std::time::Duration;

use eventcast::bus::Start;
use eventcast::stats::{DropReason, WatcherStats};
use eventcast::{Broadcaster, BusOptions, Watcher};

use crate::support::{LONG, assert_balanced, drain};

/// A dispatcher that is held in a watcher's filter until the sender is dropped.
struct HeldInFilter {
    watcher: Watcher<u64>,
    go: mpsc::Sender<()>,
}

impl HeldInFilter {
    /// Publishes the event 0, and waits until the dispatcher is in the filter with it.
    fn hold(bus: &Broadcaster<u64>) -> Self {
        let (entered_tx, entered) = mpsc::channel();
        let (go, go_rx) = mpsc::channel::<()>();
        let filter = move |_: &u64| {
            let _ = entered_tx.send(());
            let _ = go_rx.recv();
            true
        };
        let watcher = bus.watch_builder().name("held").filter(filter).watch().unwrap();
        bus.publisher().publish(0).unwrap();
        entered.recv_timeout(LONG).unwrap();
        Self { watcher, go }
    }

    /// Lets the dispatcher continue to the end of the bus.
    fn finish(mut self) {
        drop(self.go);
        drain(&mut self.watcher);
    }
}

/// Registers a handler while the dispatcher is held, calls `publish`, and abandons the bus. The
/// handler gives up then. Returns the handler's counters at the end of the bus, and the losses that
/// its hook received.
fn give_up_before_registration(
    options: BusOptions,
    start: Start,
    publish: impl Fn(&Broadcaster<u64>),
) -> (WatcherStats, Vec<(DropReason, u64)>) {
    let bus = Broadcaster::with_options(options).unwrap();
    bus.publisher().publish_batch([100, 101]).unwrap();
    let held = HeldInFilter::hold(&bus);
    let (lost_tx, lost) = mpsc::channel();
    let builder = bus.watch_builder().name("late").start(start).on_drop(move |reason, events| {
        for event in events {
            lost_tx.send((reason, *event)).unwrap();
        }
    });
    let runner = builder.runner(|_| ()).unwrap();
    let handle = runner.handle();
    publish(&bus);
    assert!(!bus.shutdown_timeout(Duration::ZERO).complete);
    // The runner sees that the bus was abandoned, and ends.
    runner.run();
    assert!(handle.join(LONG));
    held.finish();
    assert_balanced(&bus.stats());
    (handle.stats(), lost.iter().collect())
}

fn ten(bus: &Broadcaster<u64>) {
    (1..=10).for_each(|n| bus.publisher().publish(n).unwrap());
}

/// G3: an accepted event is offered, or reported as abandoned.
#[test]
fn events_behind_a_registration_that_was_given_up_count_as_abandoned() {
    for direct in [true, false] {
        let options = BusOptions::default().direct_delivery(direct);
        let (stats, lost) = give_up_before_registration(options, Start::Next, ten);
        assert_eq!((stats.offered, stats.dropped.abandoned, stats.dropped.total()), (10, 10, 10));
        let wanted: Vec<_> = (1..=10).map(|n| (DropReason::Abandoned, n)).collect();
        assert_eq!(lost, wanted);
    }
}

/// The same for events that the handler would have received from the history.
#[test]
fn the_past_of_a_registration_that_was_given_up_counts_as_abandoned() {
    let (stats, lost) = give_up_before_registration(BusOptions::default().history(10), Start::Oldest, ten);
    assert_eq!((stats.offered, stats.dropped.abandoned, stats.dropped.total()), (13, 13, 13));
    let events: Vec<_> = [100, 101].into_iter().chain(0..=10).collect();
    assert_eq!(lost.into_iter().map(|(_, event)| event).collect::<Vec<_>>(), events);
}

/// The same for gaps, which count as missed.
#[test]
fn gaps_behind_a_registration_that_was_given_up_count_as_missed() {
    let (stats, _) = give_up_before_registration(BusOptions::default(), Start::Next, |bus| {
        bus.publisher().publish(1).unwrap();
        bus.publisher().publish_gap(5).unwrap();
    });
    assert_eq!((stats.offered, stats.dropped.abandoned, stats.missed), (1, 1, 5));
}

/// A handler that was stopped before its registration is not one that has given up: it is offered
/// nothing.
#[test]
fn a_registration_that_was_stopped_is_offered_nothing() {
    let bus = Broadcaster::new().unwrap();
    let held = HeldInFilter::hold(&bus);
    let runner = bus.watch_builder().runner(|_| ()).unwrap();
    let handle = runner.handle();
    ten(&bus);
    handle.stop();
    assert!(!bus.shutdown_timeout(Duration::ZERO).complete);
    runner.run();
    held.finish();
    assert_eq!((handle.stats().offered, handle.stats().dropped.total()), (0, 0));
}
