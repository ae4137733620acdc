//! Statistics that are read while the bus works: they never show more delivered and lost than was offered.

use std::time::Duration;

use eventcast::testing::{Exploration, Payload, begin, rest};
use eventcast::{BusStats, OverflowPolicy};
use eventcast_loom_tests::{bus, explore, spawn};

/// What holds in every snapshot.
fn check(stats: &BusStats) {
    for watcher in &stats.watchers {
        assert!(watcher.delivered + watcher.dropped.total() <= watcher.offered, "{watcher:?}");
        assert!(watcher.queued <= watcher.offered, "{watcher:?}");
    }
}

/// A batch of two is offered to a queue of one with this policy, whose watcher is not read, while a thread looks on.
fn against_an_offer(policy: OverflowPolicy) {
    explore(Exploration::default().after_set_up().first(30_000), move || {
        let bus = loom::sync::Arc::new(bus(2, 1, policy));
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

/// Somebody looks while the dispatcher counts what does not fit.
fn statistics_against_a_loss_of_the_incoming() {
    against_an_offer(OverflowPolicy::DropIncoming);
}

/// Somebody looks while the dispatcher counts what it gives up at the other end of the queue.
fn statistics_against_a_loss_of_the_oldest() {
    against_an_offer(OverflowPolicy::DropOldest);
}

/// Somebody looks while the dispatcher counts what has waited too long: the model's clock has passed a limit of zero.
fn statistics_against_a_wait_that_is_over() {
    against_an_offer(OverflowPolicy::WaitFor(Duration::ZERO));
}

/// Somebody looks while a watcher is stopped that the dispatcher waits for, which counts what found no room.
fn statistics_against_a_stop() {
    explore(Exploration::default().after_set_up().first(30_000), || {
        let bus = loom::sync::Arc::new(bus(2, 1, OverflowPolicy::Wait));
        let watcher = bus.watch().unwrap();
        rest(&bus);
        begin();
        bus.publisher().try_publish_batch(vec![Payload::new(1), Payload::new(2)]).unwrap();
        let (looked_at, stop) = (bus.clone(), watcher.stop_handle());
        let stopping = spawn(move || stop.stop());
        let looking = spawn(move || check(&looked_at.stats()));
        stopping.join().unwrap();
        looking.join().unwrap();
    });
}

/// Somebody looks while a shutdown by deadline gives up what found no room.
fn statistics_against_giving_up() {
    explore(Exploration::default().after_set_up().first(30_000), || {
        let bus = loom::sync::Arc::new(bus(2, 1, OverflowPolicy::Wait));
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

/// Somebody looks while a reader takes the event.
fn statistics_against_a_reader() {
    explore(Exploration::default().after_set_up().first(30_000), || {
        let bus = loom::sync::Arc::new(bus(2, 1, OverflowPolicy::DropIncoming));
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
        reading.join().unwrap();
    });
}

/// Somebody looks twice while a watcher is dropped that has read one event and not the other: what it throws away is
/// counted after it was offered, and what it has read stays read.
fn statistics_against_a_drop() {
    explore(Exploration::default().after_set_up().first(30_000), || {
        let bus = loom::sync::Arc::new(bus(2, 2, OverflowPolicy::DropIncoming));
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
        // One was read, and one was thrown away out of the reader's hand.
        assert!(bus.shutdown().complete);
        let departed = bus.stats().departed;
        assert_eq!((departed.offered, departed.delivered, departed.dropped.stopped), (2, 1, 1));
    });
}

/// Somebody looks while a watcher is dropped to which an event is on its way: it is not lost before it was offered.
fn statistics_against_a_drop_and_an_offer() {
    explore(Exploration::default().after_set_up().first(30_000), || {
        let bus = loom::sync::Arc::new(bus(2, 1, OverflowPolicy::DropIncoming));
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
    statistics_against_giving_up,
    statistics_against_a_reader,
    statistics_against_a_drop,
    statistics_against_a_drop_and_an_offer,
}
