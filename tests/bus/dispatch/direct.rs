//! Direct delivery: a publisher that finds the dispatcher asleep delivers its event itself. The
//! tests use a waiting task to find out which thread delivered an event, because the delivering
//! thread wakes the task.

use std::pin::pin;
use std::task::{Poll, Waker};
use std::thread;
use std::time::Instant;

use eventcast::Delivery::Event;
use eventcast::{Broadcaster, Watcher};
use futures::executor::block_on;

use crate::support::{Ear, LONG, poll, reporting_waker, stopping_handler};

/// Lets the dispatcher fall asleep, which it does after a few unsuccessful checks.
fn settle() {
    (0..20).for_each(|_| thread::yield_now());
}

/// Publishes consecutive numbers, starting with `next`, until the calling thread has delivered one
/// of them, and returns that number. A task receives all of the numbers through the watcher.
fn deliver_here(bus: &Broadcaster<u64>, task: &mut Watcher<u64>, next: u64) -> u64 {
    let ear = Ear::new();
    let start = Instant::now();
    for number in next.. {
        assert!(start.elapsed() < LONG, "no event was delivered by its publisher");
        settle();
        let mut receiving = pin!(task.recv_async());
        assert_eq!(ear.poll(receiving.as_mut()), Poll::Pending);
        bus.publisher().publish(number).unwrap();
        let deliverer = ear.wait();
        assert_eq!(ear.poll(receiving), Poll::Ready(Ok(Event(number))));
        if deliverer == thread::current().id() {
            return number;
        }
    }
    unreachable!("the loop never ends")
}

/// Once a publisher has delivered its event itself and the publish call has returned, the event
/// counts as offered and as queued, and the watcher can receive it.
#[test]
fn what_a_publisher_has_delivered_is_counted() {
    let bus = Broadcaster::new().unwrap();
    let (mut task, mut watcher) = (bus.watch().unwrap(), bus.watch().unwrap());
    bus.flush(LONG).unwrap();
    let mut published = 0;
    for _ in 0..10 {
        published = deliver_here(&bus, &mut task, published) + 1;
        let stats = watcher.stats();
        assert_eq!((stats.offered, stats.queued, stats.lag), (published, published, published), "{stats}");
        assert_eq!((stats.high_water, watcher.len() as u64), (published, published), "{stats}");
        assert_eq!(bus.stats().accepted, published);
    }
    for number in 0..published {
        assert_eq!(watcher.try_recv(), Ok(Event(number)), "there must be no gap between the events");
    }
    assert!(watcher.is_empty());
}

/// A flush also waits for a handler if the publisher delivered the handler's event directly.
#[test]
fn a_flush_waits_for_what_a_publisher_has_delivered() {
    let bus = Broadcaster::new().unwrap();
    let (mut task, mut seen) = (bus.watch().unwrap(), bus.watch().unwrap());
    let (turnstile, _) = stopping_handler(bus.watch_builder());
    bus.flush(LONG).unwrap();
    let last = deliver_here(&bus, &mut task, 0);
    // The handler stays blocked while it handles the last event.
    for number in 0..=last {
        turnstile.wait_for(Some(number));
        if number < last {
            turnstile.let_one_pass();
        }
    }
    let mut flush = pin!(bus.flush_async(LONG));
    assert_eq!(poll(flush.as_mut(), Waker::noop()), Poll::Pending);
    // Once an event published after the flush arrives, the dispatcher has reached the flush.
    bus.publisher().publish(last + 1).unwrap();
    for number in 0..=last + 1 {
        assert_eq!(seen.recv_timeout(LONG), Ok(Event(number)));
    }
    assert_eq!(poll(flush.as_mut(), Waker::noop()), Poll::Pending);
    drop(turnstile);
    assert_eq!(block_on(flush), Ok(()));
}

/// Every sleeping watcher is woken, even if more watchers are asleep than a single publisher wakes.
#[test]
fn every_sleeping_watcher_is_woken() {
    const ROUNDS: u64 = 100;
    for count in [3, 4, 5, 6, 9] {
        let bus = Broadcaster::new().unwrap();
        let mut watchers: Vec<_> = (0..count).map(|_| bus.watch().unwrap()).collect();
        bus.flush(LONG).unwrap();
        for round in 0..ROUNDS {
            settle();
            let mut tasks: Vec<_> = watchers.iter_mut().map(|task| Box::pin(task.recv_async())).collect();
            let (waker, woken) = reporting_waker();
            assert!(tasks.iter_mut().all(|task| poll(task.as_mut(), &waker).is_pending()));
            bus.publisher().publish(round).unwrap();
            for number in 1..=count {
                woken
                    .recv_timeout(LONG)
                    .unwrap_or_else(|_| panic!("wake-up {number} of {count} did not arrive"));
            }
            for task in &mut tasks {
                assert_eq!(poll(task.as_mut(), &waker), Poll::Ready(Ok(Event(round))));
            }
        }
    }
}
