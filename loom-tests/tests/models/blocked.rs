//! Models of a blocked dispatcher, in which an event is waiting for capacity in the queue of a
//! watcher with `Wait` or `WaitFor`. Operations that must not wait still complete, and later
//! entries are not processed.

use std::time::{Duration, SystemTime};

use eventcast::testing::FakeClock;
use eventcast::testing::{Exploration, Payload, Sign, begin, finish, rest};
use eventcast::{Broadcaster, Delivery, OverflowPolicy, Watcher};
use eventcast_loom_tests::{bus, bus_at, direct_bus, explore, numbers, spawn};

/// Publishes a batch whose second event does not fit into a queue with a capacity of one.
fn block(bus: &Broadcaster<Payload>) {
    bus.publisher().publish_batch(vec![Payload::new(1), Payload::new(2)]).unwrap();
}

fn received(watcher: &mut Watcher<Payload>) -> u32 {
    match watcher.recv() {
        Ok(Delivery::Event(event)) => event.number(),
        other => panic!("{other:?}"),
    }
}

/// A watcher is dropped while the dispatcher is blocked, or about to be blocked, by another watcher
/// that no thread reads. The dispatcher drops the dropped watcher's filter. The blocking watcher
/// moves to the dropped watcher's index in the list of watchers, and still receives its events.
fn a_drop_beside_a_full_watcher() {
    explore(Exploration::default().after_set_up().first(30_000), || {
        let bus = bus(2, 1, OverflowPolicy::Wait);
        let (sign, gone) = Sign::new();
        let filter = move |_: &Payload| {
            let _ = &sign;
            false
        };
        let dropped = bus.watch_builder().filter(filter).watch().unwrap();
        let mut full = bus.watch().unwrap();
        rest(&bus);
        begin();
        block(&bus);
        let dropping = spawn(move || drop(dropped));
        gone.wait();
        assert_eq!([0; 2].map(|_| received(&mut full)), [1, 2]);
        dropping.join().unwrap();
        finish();
    });
}

/// Two watchers block the dispatcher, and one of the two watchers is stopped. The stopped watcher's
/// pending events are counted, its filter is dropped, and the other watcher is still full.
fn a_stop_of_one_of_two_full_watchers() {
    explore(Exploration::default().after_set_up().first(30_000), || {
        let bus = bus(2, 1, OverflowPolicy::Wait);
        let (sign, gone) = Sign::new();
        let filter = move |_: &Payload| {
            let _ = &sign;
            true
        };
        let mut stopped = bus.watch_builder().filter(filter).watch().unwrap();
        let mut full = bus.watch().unwrap();
        rest(&bus);
        begin();
        block(&bus);
        let stop = stopped.handle();
        let stopping = spawn(move || stop.stop());
        gone.wait();
        let (events, _) = numbers(&mut stopped);
        let stats = stopped.stats();
        assert_eq!((stats.delivered, stats.queued), (events.len() as u64, 0), "{stats:?}");
        assert_eq!(stats.offered, stats.delivered + stats.dropped.stopped, "{stats:?}");
        assert_eq!([0; 2].map(|_| received(&mut full)), [1, 2]);
        stopping.join().unwrap();
        finish();
    });
}

/// A watcher's time limit expires while another watcher, which has no limit, is full as well. Only
/// the first watcher loses the event.
fn a_deadline_beside_a_full_watcher() {
    explore(Exploration::default().after_set_up().first(30_000), || {
        let clock = FakeClock::new(SystemTime::UNIX_EPOCH);
        let bus = bus_at(&clock, 2, 1, OverflowPolicy::Wait);
        let limit = OverflowPolicy::WaitFor(Duration::from_secs(1));
        let mut limited = bus.watch_builder().overflow(limit).watch().unwrap();
        let mut full = bus.watch().unwrap();
        rest(&bus);
        begin();
        block(&bus);
        let stepping = spawn(move || {
            clock.wait_for_waiters(1);
            clock.advance(Duration::from_secs(1));
        });
        stepping.join().unwrap();
        assert_eq!(received(&mut full), 1);
        assert_eq!(received(&mut full), 2);
        bus.close();
        assert_eq!(numbers(&mut limited), (vec![1], 1));
        assert_eq!(limited.stats().dropped.timed_out, 1);
    });
}

/// The bus is closed while the dispatcher is blocked. A reader still receives all events, and then
/// reaches the end.
fn a_close_against_a_full_watcher() {
    explore(Exploration::default().after_set_up().first(30_000), || {
        let bus = bus(2, 1, OverflowPolicy::Wait);
        let mut full = bus.watch().unwrap();
        rest(&bus);
        begin();
        block(&bus);
        let reading = spawn(move || numbers(&mut full));
        let report = bus.shutdown();
        assert!(report.complete);
        assert_eq!(reading.join().unwrap(), (vec![1, 2], 0));
    });
}

/// Returns a bus whose dispatcher is blocked, or about to be blocked, by the second watcher.
fn blocked_beside_another() -> (Broadcaster<Payload>, Watcher<Payload>, Watcher<Payload>) {
    let bus = bus(2, 1, OverflowPolicy::Wait);
    let other = bus.watch_builder().filter(|_| false).watch().unwrap();
    let full = bus.watch().unwrap();
    rest(&bus);
    begin();
    block(&bus);
    (bus, other, full)
}

/// A flush follows a batch that blocks the dispatcher. When the flush returns, the last event in
/// the batch is in the watcher's queue or has been delivered, even though dropping another watcher
/// wakes the dispatcher in the meantime.
fn a_flush_after_a_blocked_batch() {
    explore(Exploration::default().after_set_up().first(30_000), || {
        let (bus, other, mut full) = blocked_beside_another();
        let reading = spawn(move || {
            drop(other);
            assert_eq!(received(&mut full), 1);
            full
        });
        bus.flush(Duration::from_secs(1)).unwrap();
        let full = reading.join().unwrap();
        assert_eq!(full.stats().queued, 1);
        finish();
    });
}

/// A gap is published after a batch that blocks the dispatcher. The reader receives the gap after
/// the last event in the batch, even though dropping another watcher wakes the dispatcher in the
/// meantime.
fn a_gap_after_a_blocked_batch() {
    explore(Exploration::default().after_set_up().first(30_000), || {
        let (bus, other, mut full) = blocked_beside_another();
        bus.publisher().publish_gap(7).unwrap();
        let dropping = spawn(move || drop(other));
        assert_eq!([0; 2].map(|_| received(&mut full)), [1, 2]);
        assert!(matches!(full.recv(), Ok(Delivery::Lagged(7))));
        dropping.join().unwrap();
        finish();
    });
}

/// On a bus with direct delivery, a publisher finds the dispatcher idle, but acquires the fan-out
/// only when the dispatcher is asleep again, blocked by another event. The publisher must not offer
/// its event.
fn a_publisher_against_a_full_watcher() {
    explore(Exploration::default().after_set_up().first(30_000), || {
        let bus = direct_bus(3, 1, OverflowPolicy::Wait);
        let mut full = bus.watch().unwrap();
        rest(&bus);
        begin();
        let publisher = bus.publisher();
        let publishing = spawn(move || publisher.try_publish(Payload::new(3)).unwrap());
        block(&bus);
        let seen = [0; 3].map(|_| received(&mut full));
        assert!(seen == [1, 2, 3] || seen == [3, 1, 2], "{seen:?}");
        publishing.join().unwrap();
        finish();
    });
}

models![
    a_drop_beside_a_full_watcher,
    a_stop_of_one_of_two_full_watchers,
    a_deadline_beside_a_full_watcher,
    a_close_against_a_full_watcher,
    a_flush_after_a_blocked_batch,
    a_gap_after_a_blocked_batch,
    a_publisher_against_a_full_watcher,
];
