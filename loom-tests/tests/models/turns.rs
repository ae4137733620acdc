//! Publishers that wait for the one place in the incoming queue: each has its turn, also when one gives up.

use std::task::{Context, Waker};

use eventcast::{Broadcaster, Delivery, OverflowPolicy, Watcher};
use eventcast_loom_tests::{Payload, bus, explore_with};
use loom::future::block_on;
use loom::thread;

/// A thread waits for the one place while the dispatcher takes what is in it for a watcher: it is woken in time.
#[test]
fn a_publisher_waits_for_the_dispatcher() {
    explore_with("a publisher waits for the dispatcher", 1, || {
        let bus = bus(1, 2, OverflowPolicy::DropIncoming);
        let mut watcher = bus.watch().unwrap();
        let publisher = bus.publisher();
        let publishing = thread::spawn(move || {
            publisher.publish(Payload::new(1)).unwrap();
            publisher.publish(Payload::new(2)).unwrap();
        });
        let reading = thread::spawn(move || assert!(watcher.recv().is_ok()));
        publishing.join().unwrap();
        reading.join().unwrap();
    });
}

/// Two threads wait for one place while the dispatcher empties it: both are woken in time.
#[test]
fn two_publishers_wait_for_one_place() {
    explore_with("two publishers wait for one place", 1, || {
        let bus = bus(1, 1, OverflowPolicy::DropIncoming);
        let publishing: Vec<_> = (1..3)
            .map(|number| {
                let publisher = bus.publisher();
                thread::spawn(move || publisher.publish(Payload::new(number)).unwrap())
            })
            .collect();
        for publishing in publishing {
            publishing.join().unwrap();
        }
    });
}

/// The same, as tasks.
#[test]
fn two_publishing_tasks_wait_for_one_place() {
    explore_with("two publishing tasks wait for one place", 1, || {
        let bus = bus(1, 1, OverflowPolicy::DropIncoming);
        let publishing: Vec<_> = (1..3)
            .map(|number| {
                let publisher = bus.publisher();
                thread::spawn(move || block_on(publisher.publish_async(Payload::new(number))).unwrap())
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
#[test]
fn one_that_gives_up_hands_its_turn_on() {
    explore_with("one that gives up hands its turn on", 1, || {
        let (bus, stuck, mut other) = full();
        let (first, second) = (bus.publisher(), bus.publisher());
        let mut first = Box::pin(async move { first.publish_async(Payload::new(4)).await });
        assert!(first.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
        let publishing = thread::spawn(move || second.publish(Payload::new(5)).unwrap());
        let giving_up = thread::spawn(move || {
            drop(stuck);
            // The dispatcher has come to the third, and chosen who may have its place, or is about to.
            while !matches!(other.recv(), Ok(Delivery::Event(event)) if event.number() == 3) {}
            drop(first);
        });
        publishing.join().unwrap();
        giving_up.join().unwrap();
    });
}

/// A task that waits until there is room does not use it: the one behind it has its turn.
#[test]
fn one_that_is_ready_hands_its_turn_on() {
    explore_with("one that is ready hands its turn on", 1, || {
        let (bus, stuck, other) = full();
        let (first, second) = (bus.publisher(), bus.publisher());
        let waiting = thread::spawn(move || block_on(first.ready()).unwrap());
        let publishing = thread::spawn(move || second.publish(Payload::new(4)).unwrap());
        let dropping = thread::spawn(move || drop(stuck));
        waiting.join().unwrap();
        publishing.join().unwrap();
        dropping.join().unwrap();
        drop((bus, other));
    });
}

/// A task that was given its turn is not polled again: the one behind it has its turn nevertheless.
#[test]
fn one_that_is_not_polled_leaves_its_turn_to_others() {
    explore_with("one that is not polled leaves its turn to others", 1, || {
        let (bus, stuck, other) = full();
        let (first, second) = (bus.publisher(), bus.publisher());
        let mut first = Box::pin(async move { first.publish_async(Payload::new(4)).await });
        assert!(first.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
        let publishing = thread::spawn(move || second.publish(Payload::new(5)).unwrap());
        let dropping = thread::spawn(move || drop(stuck));
        publishing.join().unwrap();
        dropping.join().unwrap();
        drop((first, bus, other));
    });
}
