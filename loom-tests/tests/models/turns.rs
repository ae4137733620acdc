//! Publishers that wait for the one place in the incoming queue: each has its turn, also when one gives up.

use std::task::{Context, Waker};

use eventcast::testing::{Exploration, Payload, begin, rest};
use eventcast::{Broadcaster, Delivery, OverflowPolicy, Watcher};
use eventcast_loom_tests::{bus, explore, spawn};
use loom::future::block_on;

/// A thread waits for the one place while the dispatcher takes what is in it for a watcher: it is woken in time.
fn a_publisher_waits_for_the_dispatcher() {
    explore(Exploration::default().after_set_up().first(30_000), || {
        let bus = bus(1, 2, OverflowPolicy::DropIncoming);
        let mut watcher = bus.watch().unwrap();
        let publisher = bus.publisher();
        rest(&bus);
        begin();
        let publishing = spawn(move || {
            publisher.publish(Payload::new(1)).unwrap();
            publisher.publish(Payload::new(2)).unwrap();
        });
        let reading = spawn(move || assert!(watcher.recv().is_ok()));
        publishing.join().unwrap();
        reading.join().unwrap();
    });
}

/// Two threads wait for one place while the dispatcher empties it: both are woken in time.
fn two_publishers_wait_for_one_place() {
    explore(Exploration::default().after_set_up().first(30_000), || {
        let bus = bus(1, 1, OverflowPolicy::DropIncoming);
        rest(&bus);
        begin();
        let publishing: Vec<_> = (1..3)
            .map(|number| {
                let publisher = bus.publisher();
                spawn(move || publisher.publish(Payload::new(number)).unwrap())
            })
            .collect();
        for publishing in publishing {
            publishing.join().unwrap();
        }
    });
}

/// The same, as tasks.
fn two_publishing_tasks_wait_for_one_place() {
    explore(Exploration::default().after_set_up().first(30_000), || {
        let bus = bus(1, 1, OverflowPolicy::DropIncoming);
        rest(&bus);
        begin();
        let publishing: Vec<_> = (1..3)
            .map(|number| {
                let publisher = bus.publisher();
                spawn(move || block_on(publisher.publish_async(Payload::new(number))).unwrap())
            })
            .collect();
        for publishing in publishing {
            publishing.join().unwrap();
        }
    });
}

/// A bus whose one place is taken, whose dispatcher hangs at the first watcher, and whose second gets all.
fn full() -> (Broadcaster<Payload>, Watcher<Payload>, Watcher<Payload>) {
    let bus = bus(1, 1, OverflowPolicy::Wait);
    let stuck = bus.watch().unwrap();
    let other = bus.watch_builder().queue_len(4).watch().unwrap();
    bus.publisher().publish_batch(vec![Payload::new(1), Payload::new(2)]).unwrap();
    bus.publisher().publish(Payload::new(3)).unwrap();
    (bus, stuck, other)
}

/// A task that waits for a place gives up just when it may have been chosen: the one behind it has its turn.
fn one_that_gives_up_hands_its_turn_on() {
    explore(Exploration::default().after_set_up().first(30_000), || {
        let (bus, stuck, mut other) = full();
        let (first, second) = (bus.publisher(), bus.publisher());
        begin();
        let mut first = Box::pin(async move { first.publish_async(Payload::new(4)).await });
        assert!(first.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
        let publishing = spawn(move || second.publish(Payload::new(5)).unwrap());
        let giving_up = spawn(move || {
            drop(stuck);
            // The dispatcher has come to the third, and chosen who may have its place, or is about to.
            while !matches!(other.recv(), Ok(Delivery::Event(event)) if event.number() == 3) {}
            drop(first);
        });
        publishing.join().unwrap();
        giving_up.join().unwrap();
    });
}

/// A registration that waits for a place gives up while another thread makes room: nothing of it is left, and the one
/// behind it has its turn.
fn a_registration_that_gives_up_leaves_nothing() {
    explore(Exploration::default().after_set_up().first(30_000), || {
        let (bus, stuck, other) = full();
        let publisher = bus.publisher();
        begin();
        let mut registering = Box::pin(bus.watch_builder().watch_async());
        assert!(registering.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
        let publishing = spawn(move || publisher.publish(Payload::new(4)).unwrap());
        let dropping = spawn(move || drop(stuck));
        drop(registering);
        publishing.join().unwrap();
        dropping.join().unwrap();
        assert!(bus.shutdown().complete);
        assert_eq!(bus.stats().watchers.len(), 1, "only the one that is kept");
        drop(other);
    });
}

/// A task that waits until there is room does not use it: the one behind it has its turn.
fn one_that_is_ready_hands_its_turn_on() {
    explore(Exploration::default().after_set_up().first(30_000), || {
        let (bus, stuck, other) = full();
        let (first, second) = (bus.publisher(), bus.publisher());
        begin();
        let waiting = spawn(move || block_on(first.ready()).unwrap());
        let publishing = spawn(move || second.publish(Payload::new(4)).unwrap());
        let dropping = spawn(move || drop(stuck));
        waiting.join().unwrap();
        publishing.join().unwrap();
        dropping.join().unwrap();
        drop((bus, other));
    });
}

/// A task that was given its turn is not polled again: the one behind it has its turn nevertheless.
fn one_that_is_not_polled_leaves_its_turn_to_others() {
    explore(Exploration::default().after_set_up().first(30_000), || {
        let (bus, stuck, other) = full();
        let (first, second) = (bus.publisher(), bus.publisher());
        begin();
        let mut first = Box::pin(async move { first.publish_async(Payload::new(4)).await });
        assert!(first.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
        let publishing = spawn(move || second.publish(Payload::new(5)).unwrap());
        let dropping = spawn(move || drop(stuck));
        publishing.join().unwrap();
        dropping.join().unwrap();
        drop((first, bus, other));
    });
}

models! {
    a_publisher_waits_for_the_dispatcher,
    two_publishers_wait_for_one_place,
    two_publishing_tasks_wait_for_one_place,
    one_that_gives_up_hands_its_turn_on,
    a_registration_that_gives_up_leaves_nothing,
    one_that_is_ready_hands_its_turn_on,
    one_that_is_not_polled_leaves_its_turn_to_others,
}
