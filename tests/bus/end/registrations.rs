//! Watchers and handlers that end before the dispatcher has registered them. If a shutdown with a
//! deadline makes a handler abandon its queue, the events accepted after the handler's registration
//! count as abandoned.

use std::sync::mpsc;
use std::time::Duration;

use eventcast::Delivery::Event;
use eventcast::bus::Start;
use eventcast::stats::{DropReason, WatcherStats};
use eventcast::{Broadcaster, BusOptions, Watcher};

use crate::support::{
    AtDrop, LONG, Turnstile, assert_balanced, assert_dropped, bus, bus_with, drain, hold, keeping,
    stopping_filter, waits, watched,
};

/// Registers a handler while the dispatcher is held, calls `publish`, and then abandons the bus so
/// that the handler abandons its queue. Returns the handler's counters at the end of the bus, and
/// the losses that its hook received.
fn abandon_before_registration(
    options: BusOptions,
    start: Start,
    publish: impl Fn(&Broadcaster<u64>),
) -> (WatcherStats, Vec<(DropReason, u64)>) {
    let bus = bus_with(options);
    bus.publisher().publish_batch([100, 101]).unwrap();
    let mut held = hold_in_filter(&bus);
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
    // The bus was abandoned, so the runner ends.
    runner.run();
    assert!(handle.join(LONG));
    drop(held.0);
    drain(&mut held.1);
    assert_balanced(&bus.stats());
    (handle.stats(), lost.iter().collect())
}

fn ten(bus: &Broadcaster<u64>) {
    (1..=10).for_each(|n| bus.publisher().publish(n).unwrap());
}

/// G3: an accepted event is either offered or reported as abandoned.
#[test]
fn events_after_an_abandoned_registration_count_as_abandoned() {
    for direct in [true, false] {
        let options = BusOptions::default().direct_delivery(direct);
        let (stats, lost) = abandon_before_registration(options, Start::Next, ten);
        assert_eq!((stats.offered, stats.dropped.abandoned, stats.dropped.total()), (10, 10, 10));
        let wanted: Vec<_> = (1..=10).map(|n| (DropReason::Abandoned, n)).collect();
        assert_eq!(lost, wanted);
    }
}

/// If a handler would have received events from the history, these events count as abandoned too.
#[test]
fn the_past_of_an_abandoned_registration_counts_as_abandoned() {
    let (stats, lost) = abandon_before_registration(BusOptions::default().history(10), Start::Oldest, ten);
    assert_eq!((stats.offered, stats.dropped.abandoned, stats.dropped.total()), (13, 13, 13));
    let events: Vec<_> = [100, 101].into_iter().chain(0..=10).collect();
    assert_eq!(lost.into_iter().map(|(_, event)| event).collect::<Vec<_>>(), events);
}

/// Gaps after an abandoned registration count as missed.
#[test]
fn gaps_after_an_abandoned_registration_count_as_missed() {
    let (stats, _) = abandon_before_registration(BusOptions::default(), Start::Next, |bus| {
        bus.publisher().publish(1).unwrap();
        bus.publisher().publish_gap(5).unwrap();
    });
    assert_eq!((stats.offered, stats.dropped.abandoned, stats.missed), (1, 1, 5));
}

/// If a handler is stopped before its registration, the handler is not offered any events, so it
/// has not abandoned its queue.
#[test]
fn a_registration_that_was_stopped_is_offered_nothing() {
    let bus = bus(100, 100);
    let mut held = hold_in_filter(&bus);
    let runner = bus.watch_builder().runner(|_| ()).unwrap();
    let handle = runner.handle();
    ten(&bus);
    handle.stop();
    assert!(!bus.shutdown_timeout(Duration::ZERO).complete);
    runner.run();
    drop(held.0);
    drain(&mut held.1);
    assert_eq!((handle.stats().offered, handle.stats().dropped.total()), (0, 0));
}

/// Publishes event 0, and returns once the dispatcher is running a watcher's filter on it.
fn hold_in_filter(bus: &Broadcaster<u64>) -> (Turnstile<u64>, Watcher<u64>) {
    let held = stopping_filter(bus.watch_builder().name("held"));
    bus.publisher().publish(0).unwrap();
    held.0.wait_for(0);
    held
}

/// While the incoming queue is full, one watcher is stopped and another is dropped before the
/// dispatcher has registered them. The dropped watcher is freed on this thread and leaves nothing
/// behind.
#[test]
fn watchers_that_end_before_their_registration_leave_nothing() {
    watched(|| {
        let bus = bus::<u64>(1, 100);
        let (turnstile, mut holding) = hold_in_filter(&bus);
        while bus.publisher().try_publish(1).is_ok() {}
        let accepted = bus.stats().published() - bus.stats().rejected_full - 1;
        let mut stays = bus.watch().unwrap();
        let mut stopped = waits(&bus, 1).prefix([7]).watch().unwrap();
        let (in_filter, gone) = mpsc::channel();
        let dropped = waits(&bus, 1).prefix([7]).filter(keeping(in_filter)).watch().unwrap();
        assert_eq!(bus.watcher_count(), 4);
        stopped.stop();
        drop(dropped);
        assert_dropped(&gone);
        assert_eq!(bus.watcher_count(), 3);
        assert_eq!(stopped.recv(), Ok(Event(7)));
        assert!(stopped.recv().is_err());
        drop(turnstile);
        bus.publisher().publish_batch([2, 3]).unwrap();
        assert!(bus.shutdown().complete);
        assert_eq!(holding.events().count() as u64, 1 + accepted + 2);
        assert_eq!(drain(&mut stays), [Event(2), Event(3)]);
        let stats = bus.stats();
        assert_eq!((stats.departed.offered, stats.watchers.len()), (0, 3));
        assert_balanced(&stats);
    });
}

/// A filter's destructor shuts the bus down on a thread that the dispatcher is waiting for. This
/// thread counts as a thread of the bus while the destructor runs, so the shutdown does not wait.
#[test]
fn a_filter_dropped_before_its_registration_does_not_wait_for_the_bus() {
    watched(|| {
        let bus = bus::<u64>(10, 10);
        let held = hold(&bus);
        let own = bus.clone();
        let ends = AtDrop(move || assert!(!own.shutdown().complete));
        drop(bus.watch_builder().filter(keeping(ends)).watch().unwrap());
        assert!(bus.is_closed());
        drop(held);
        assert!(bus.shutdown().complete);
    });
}
