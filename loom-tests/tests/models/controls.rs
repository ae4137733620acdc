//! Models of control entries, which are queued alongside the incoming queue. The models cover the
//! order of control entries relative to events, and entries that callers withdraw.

use std::time::Duration;

use eventcast::error::FlushError;
use eventcast::testing::{Exploration, Payload, Popped, Sign, begin, finish, rest};
use eventcast::{Broadcaster, Delivery, OverflowPolicy};
use eventcast_loom_tests::{bus, direct_bus, explore, numbers, spawn};
use loom::sync::Arc;
use loom::sync::atomic::{AtomicUsize, Ordering};

/// Tests the real implementation that counts pushes into a queue. One thread pushes and counts
/// while another thread pops. Plain indices represent the queue.
fn a_count_of_pushes_against_pops() {
    explore(Exploration::default(), || {
        let (popped, head) = (Arc::new(Popped::new()), Arc::new(AtomicUsize::new(0)));
        let popping = {
            let (popped, head) = (popped.clone(), head.clone());
            // Relaxed: the count must not rely on synchronisation by the queue.
            spawn(move || [(); 2].map(|()| popped.count(|| Some(head.fetch_add(1, Ordering::Relaxed)))))
        };
        for tail in 2..4 {
            // Relaxed: for the same reason as the `fetch_add` above.
            assert_eq!(popped.pushed(|| tail - head.load(Ordering::Relaxed)), tail as u64);
        }
        popping.join().unwrap();
    });
}

/// Registers a watcher while another thread publishes event 1, and then publishes event 2. The
/// watcher receives event 2. The watcher may also receive event 1, before or after event 2.
fn registration_among_events(bus: &Broadcaster<Payload>) {
    rest(bus);
    begin();
    let publisher = bus.publisher();
    let publishing = spawn(move || publisher.try_publish(Payload::new(1)).unwrap());
    let mut watcher = bus.watch().unwrap();
    bus.publisher().try_publish(Payload::new(2)).unwrap();
    publishing.join().unwrap();
    bus.close();
    let (events, lost) = numbers(&mut watcher);
    assert!(lost == 0 && events.ends_with(&[2]) || events == [2, 1], "{events:?}");
    finish();
}

fn a_registration_among_events() {
    explore(Exploration::default().after_set_up().first(30_000), || {
        registration_among_events(&bus(2, 4, OverflowPolicy::DropIncoming));
    });
}

/// The same race as in `a_registration_among_events`, but on a bus with direct delivery and an
/// existing watcher.
fn a_registration_among_direct_events() {
    explore(Exploration::default().after_set_up().first(30_000), || {
        let bus = direct_bus(2, 4, OverflowPolicy::DropIncoming);
        let watcher = bus.watch().unwrap();
        registration_among_events(&bus);
        drop(watcher);
    });
}

/// A thread publishes an event, a gap and another event. The reader receives all three in the same
/// order.
fn a_gap_among_events() {
    explore(Exploration::default().after_set_up().first(30_000), || {
        let bus = direct_bus(2, 4, OverflowPolicy::DropIncoming);
        let mut watcher = bus.watch().unwrap();
        rest(&bus);
        begin();
        let publisher = bus.publisher();
        let publishing = spawn(move || {
            publisher.try_publish(Payload::new(1)).unwrap();
            publisher.publish_gap(3).unwrap();
            publisher.try_publish(Payload::new(2)).unwrap();
        });
        let seen = [0; 3].map(|_| match watcher.recv() {
            Ok(Delivery::Event(event)) => u64::from(event.number()),
            Ok(Delivery::Lagged(events)) => 1000 + events,
            other => panic!("{other:?}"),
        });
        assert_eq!(seen, [1, 1003, 2]);
        publishing.join().unwrap();
        finish();
    });
}

/// Two threads publish gaps, which may be merged into one entry. The gaps that the watcher receives
/// add up to the same number as the published gaps.
fn two_gaps_against_each_other() {
    explore(Exploration::default().after_set_up(), || {
        let bus = bus(1, 1, OverflowPolicy::DropIncoming);
        let mut watcher = bus.watch().unwrap();
        rest(&bus);
        begin();
        let publisher = bus.publisher();
        let publishing = spawn(move || publisher.publish_gap(1).unwrap());
        bus.publisher().publish_gap(2).unwrap();
        publishing.join().unwrap();
        bus.close();
        assert_eq!(numbers(&mut watcher), (vec![], 3));
        finish();
    });
}

/// A flush times out immediately, while the dispatcher may be about to complete the flush. The next
/// flush completes.
fn a_flush_that_times_out_against_the_dispatcher() {
    explore(Exploration::default().after_set_up(), || {
        let bus = bus(1, 1, OverflowPolicy::DropIncoming);
        let handled = bus.watch().unwrap();
        rest(&bus);
        begin();
        bus.publisher().try_publish(Payload::new(1)).unwrap();
        let given_up = bus.flush(Duration::ZERO);
        assert!(matches!(given_up, Ok(()) | Err(FlushError::Timeout { .. })), "{given_up:?}");
        bus.flush(Duration::from_secs(1)).unwrap();
        assert_eq!(handled.len(), 1);
        finish();
    });
}

/// A watcher is dropped while the dispatcher may be registering it. The watcher's filter is
/// dropped, and the watcher does not remain registered.
fn a_dropped_watcher_against_its_registration() {
    explore(Exploration::default().after_set_up(), || {
        let bus = bus(1, 1, OverflowPolicy::DropIncoming);
        rest(&bus);
        begin();
        let (sign, gone) = Sign::new();
        let filter = move |_: &Payload| {
            let _ = &sign;
            true
        };
        drop(bus.watch_builder().filter(filter).watch().unwrap());
        gone.wait();
        bus.publisher().try_publish(Payload::new(1)).unwrap();
        let report = bus.shutdown();
        finish();
        assert_eq!((report.bus.accepted, report.bus.watchers.len()), (1, 0));
    });
}

models![
    a_count_of_pushes_against_pops,
    a_dropped_watcher_against_its_registration,
    a_flush_that_times_out_against_the_dispatcher,
    a_gap_among_events,
    a_registration_among_direct_events,
    a_registration_among_events,
    two_gaps_against_each_other,
];
