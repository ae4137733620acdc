//! Statistics that are read while the bus works: they never show more delivered and lost than was offered.

use std::time::Duration;

use eventcast::{BusStats, OverflowPolicy};
use eventcast_loom_tests::{Payload, bus, explore_with};
use loom::thread;

/// What holds in every snapshot.
fn check(stats: &BusStats) {
    for watcher in &stats.watchers {
        assert!(watcher.delivered + watcher.dropped.total() <= watcher.offered, "{watcher:?}");
        assert!(watcher.queued <= watcher.offered, "{watcher:?}");
    }
}

/// A batch of two is offered to a queue of one with this policy, whose watcher is not read, while a thread looks on.
fn against_an_offer(name: &str, policy: OverflowPolicy) {
    explore_with(name, 1, move || {
        let bus = loom::sync::Arc::new(bus(2, 1, policy));
        let watcher = bus.watch().unwrap();
        let (looked_at, publisher) = (bus.clone(), bus.publisher());
        let publishing = thread::spawn(move || {
            publisher.try_publish_batch(vec![Payload::new(1), Payload::new(2)]).unwrap();
        });
        let looking = thread::spawn(move || check(&looked_at.stats()));
        publishing.join().unwrap();
        looking.join().unwrap();
        drop(watcher);
    });
}

/// Somebody looks while the dispatcher counts what does not fit.
#[test]
fn statistics_against_a_loss_of_the_incoming() {
    against_an_offer("statistics against a loss of the incoming", OverflowPolicy::DropIncoming);
}

/// Somebody looks while the dispatcher counts what it gives up at the other end of the queue.
#[test]
fn statistics_against_a_loss_of_the_oldest() {
    against_an_offer("statistics against a loss of the oldest", OverflowPolicy::DropOldest);
}

/// Somebody looks while the dispatcher counts what has waited too long: the model's clock has passed a limit of zero.
#[test]
fn statistics_against_a_wait_that_is_over() {
    against_an_offer("statistics against a wait that is over", OverflowPolicy::WaitFor(Duration::ZERO));
}

/// Somebody looks while a watcher is stopped that the dispatcher waits for, which counts what found no room.
#[test]
fn statistics_against_a_stop() {
    explore_with("statistics against a stop", 1, || {
        let bus = loom::sync::Arc::new(bus(2, 1, OverflowPolicy::Wait));
        let watcher = bus.watch().unwrap();
        bus.publisher().try_publish_batch(vec![Payload::new(1), Payload::new(2)]).unwrap();
        let (looked_at, stop) = (bus.clone(), watcher.stop_handle());
        let stopping = thread::spawn(move || stop.stop());
        let looking = thread::spawn(move || check(&looked_at.stats()));
        stopping.join().unwrap();
        looking.join().unwrap();
    });
}

/// Somebody looks while a shutdown by deadline gives up what found no room.
#[test]
fn statistics_against_giving_up() {
    explore_with("statistics against giving up", 1, || {
        let bus = loom::sync::Arc::new(bus(2, 1, OverflowPolicy::Wait));
        let watcher = bus.watch().unwrap();
        bus.publisher().try_publish_batch(vec![Payload::new(1), Payload::new(2)]).unwrap();
        let giving_up = bus.clone();
        let giving_up = thread::spawn(move || check(&giving_up.shutdown_timeout(Duration::ZERO).bus));
        giving_up.join().unwrap();
        drop(watcher);
    });
}

/// Somebody looks while a reader takes the event.
#[test]
fn statistics_against_a_reader() {
    explore_with("statistics against a reader", 1, || {
        let bus = loom::sync::Arc::new(bus(2, 1, OverflowPolicy::DropIncoming));
        let mut watcher = bus.watch().unwrap();
        bus.publisher().try_publish(Payload::new(1)).unwrap();
        let looked_at = bus.clone();
        let reading = thread::spawn(move || {
            watcher.recv().unwrap();
            watcher
        });
        let looking = thread::spawn(move || check(&looked_at.stats()));
        looking.join().unwrap();
        reading.join().unwrap();
    });
}

/// Somebody looks twice while a watcher is dropped that has read one event and not the other: what it throws away is
/// counted after it was offered, and what it has read stays read.
#[test]
fn statistics_against_a_drop() {
    explore_with("statistics against a drop", 1, || {
        let bus = loom::sync::Arc::new(bus(2, 2, OverflowPolicy::DropIncoming));
        let mut watcher = bus.watch().unwrap();
        bus.publisher().try_publish_batch(vec![Payload::new(1), Payload::new(2)]).unwrap();
        let looked_at = bus.clone();
        watcher.recv().unwrap();
        let dropping = thread::spawn(move || drop(watcher));
        let looking = thread::spawn(move || {
            let stats = looked_at.stats();
            check(&stats);
            assert!(
                stats.watchers.iter().chain([&stats.departed]).any(|watcher| watcher.delivered == 1),
                "{stats:?}"
            );
        });
        dropping.join().unwrap();
        looking.join().unwrap();
    });
}

/// Somebody looks while a watcher is dropped to which an event is on its way: it is not lost before it was offered.
#[test]
fn statistics_against_a_drop_and_an_offer() {
    explore_with("statistics against a drop and an offer", 1, || {
        let bus = loom::sync::Arc::new(bus(2, 1, OverflowPolicy::DropIncoming));
        let watcher = bus.watch().unwrap();
        bus.publisher().try_publish(Payload::new(1)).unwrap();
        let looked_at = bus.clone();
        let dropping = thread::spawn(move || drop(watcher));
        let looking = thread::spawn(move || check(&looked_at.stats()));
        dropping.join().unwrap();
        looking.join().unwrap();
    });
}
