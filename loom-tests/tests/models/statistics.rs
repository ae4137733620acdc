//! Models of statistics that are read while the bus is working. The number of delivered and lost
//! events in the statistics never exceeds the number of offered events.

use std::time::Duration;

use eventcast::OverflowPolicy;
use eventcast::stats::BusStats;
use eventcast::testing::{Exploration, Payload, begin, rest};
use eventcast_loom_tests::{bus, explore, spawn};

/// Checks the invariants that hold for every snapshot.
fn check(stats: &BusStats) {
    for watcher in &stats.watchers {
        assert!(watcher.delivered + watcher.dropped.total() <= watcher.offered, "{watcher:?}");
        assert!(watcher.queued <= watcher.offered, "{watcher:?}");
    }
}

/// Offers a batch of two events to a queue with a capacity of one and the given policy, while a
/// thread takes a snapshot. No thread reads the watcher.
fn against_an_offer(policy: OverflowPolicy) {
    explore(Exploration::default().after_set_up().first(30_000), move || {
        let bus = bus(2, 1, policy);
        let watcher = bus.watch().unwrap();
        let (looked_at, publisher) = (bus.clone(), bus.publisher());
        rest(&bus);
        begin();
        let publishing = spawn(move || {
            publisher.try_publish_batch(vec![Payload::new(1), Payload::new(2)]).unwrap();
        });
        let looking = spawn(move || check(&looked_at.stats()));
        publishing.join().unwrap();
        looking.join().unwrap();
        drop(watcher);
    });
}

/// A thread takes a snapshot while the dispatcher counts the incoming event that does not fit as
/// lost.
fn statistics_against_a_loss_of_the_incoming() {
    against_an_offer(OverflowPolicy::DropIncoming);
}

/// A thread takes a snapshot while the dispatcher drops the oldest event and counts it as lost.
fn statistics_against_a_loss_of_the_oldest() {
    against_an_offer(OverflowPolicy::DropOldest);
}

/// A thread takes a snapshot while the dispatcher counts an event whose wait has timed out. The
/// time limit is zero, so it has already expired even though time does not advance in the model.
fn statistics_against_a_wait_that_is_over() {
    against_an_offer(OverflowPolicy::WaitFor(Duration::ZERO));
}

/// A thread takes a snapshot while another thread stops a watcher for which the dispatcher is
/// waiting. Stopping the watcher causes the dispatcher to count the event that did not fit.
fn statistics_against_a_stop() {
    explore(Exploration::default().after_set_up().first(30_000), || {
        let bus = bus(2, 1, OverflowPolicy::Wait);
        let watcher = bus.watch().unwrap();
        rest(&bus);
        begin();
        bus.publisher().try_publish_batch(vec![Payload::new(1), Payload::new(2)]).unwrap();
        let (looked_at, stop) = (bus.clone(), watcher.handle());
        let stopping = spawn(move || stop.stop());
        let looking = spawn(move || check(&looked_at.stats()));
        stopping.join().unwrap();
        looking.join().unwrap();
    });
}

/// A shutdown with a deadline takes a snapshot while the event that did not fit is abandoned.
fn statistics_against_abandoning() {
    explore(Exploration::default().after_set_up().first(30_000), || {
        let bus = bus(2, 1, OverflowPolicy::Wait);
        let watcher = bus.watch().unwrap();
        rest(&bus);
        begin();
        bus.publisher().try_publish_batch(vec![Payload::new(1), Payload::new(2)]).unwrap();
        let giving_up = bus.clone();
        let giving_up = spawn(move || check(&giving_up.shutdown_timeout(Duration::ZERO).bus));
        giving_up.join().unwrap();
        drop(watcher);
    });
}

/// A thread takes a snapshot while a reader takes the event.
fn statistics_against_a_reader() {
    explore(Exploration::default().after_set_up().first(30_000), || {
        let bus = bus(2, 1, OverflowPolicy::DropIncoming);
        let mut watcher = bus.watch().unwrap();
        rest(&bus);
        begin();
        bus.publisher().try_publish(Payload::new(1)).unwrap();
        let looked_at = bus.clone();
        let reading = spawn(move || {
            watcher.recv().unwrap();
            watcher
        });
        let looking = spawn(move || check(&looked_at.stats()));
        looking.join().unwrap();
        drop(reading.join().unwrap());
    });
}

/// A thread takes a snapshot while another thread drops a watcher that has read one of two events.
/// The event that is discarded with the watcher is counted only after it has been offered, and the
/// event that was read remains counted.
fn statistics_against_a_drop() {
    explore(Exploration::default().after_set_up().first(30_000), || {
        let bus = bus(2, 2, OverflowPolicy::DropIncoming);
        let mut watcher = bus.watch().unwrap();
        rest(&bus);
        begin();
        bus.publisher().try_publish_batch(vec![Payload::new(1), Payload::new(2)]).unwrap();
        let looked_at = bus.clone();
        watcher.recv().unwrap();
        let dropping = spawn(move || drop(watcher));
        let looking = spawn(move || {
            let stats = looked_at.stats();
            check(&stats);
            assert!(
                stats.watchers.iter().chain([&stats.departed]).any(|watcher| watcher.delivered == 1),
                "{stats:?}"
            );
        });
        dropping.join().unwrap();
        looking.join().unwrap();
        // One event was read, and dropping the watcher discarded the other event.
        assert!(bus.shutdown().complete);
        let departed = bus.stats().departed;
        assert_eq!((departed.offered, departed.delivered, departed.dropped.stopped), (2, 1, 1));
    });
}

/// A thread takes a snapshot while another thread drops a watcher to which an event is about to be
/// offered. The event is not counted as lost before it has been offered.
fn statistics_against_a_drop_and_an_offer() {
    explore(Exploration::default().after_set_up().first(30_000), || {
        let bus = bus(2, 1, OverflowPolicy::DropIncoming);
        let watcher = bus.watch().unwrap();
        rest(&bus);
        begin();
        bus.publisher().try_publish(Payload::new(1)).unwrap();
        let looked_at = bus.clone();
        let dropping = spawn(move || drop(watcher));
        let looking = spawn(move || check(&looked_at.stats()));
        dropping.join().unwrap();
        looking.join().unwrap();
    });
}

models! {
    statistics_against_a_loss_of_the_incoming,
    statistics_against_a_loss_of_the_oldest,
    statistics_against_a_wait_that_is_over,
    statistics_against_a_stop,
    statistics_against_abandoning,
    statistics_against_a_reader,
    statistics_against_a_drop,
    statistics_against_a_drop_and_an_offer,
}
