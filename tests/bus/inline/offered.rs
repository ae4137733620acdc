//! G13: when a publish returns, its event has been offered to every watcher.

use std::sync::{Barrier, mpsc};
use std::thread;
use std::time::Duration;

use eventcast::Delivery::{Event, Lagged};
use eventcast::OverflowPolicy::{DropIncoming, DropOldest, Evict, Wait, WaitFor};
use eventcast::bus::Start;
use eventcast::error::TryRecvError;
use eventcast::{Broadcaster, Publisher};
use futures::FutureExt;

use crate::support::{LONG, assert_settled, available, bus_with, inline, inline_options, policies, watched};

type Publish = fn(&Publisher<u64>, u64);

/// Ways to publish a single event, including as a batch of one event.
const WAYS: [Publish; 6] = [
    |publisher, event| publisher.publish(event).unwrap(),
    |publisher, event| publisher.try_publish(event).unwrap(),
    |publisher, event| publisher.publish_timeout(event, LONG).unwrap(),
    |publisher, event| publisher.publish_batch([event]).unwrap(),
    |publisher, event| publisher.try_publish_batch([event]).unwrap(),
    |publisher, event| publisher.publish_async(event).now_or_never().expect("it must not wait").unwrap(),
];

/// An event is receivable when its publish returns. This holds on one thread, without a flush, for
/// every policy and every way to publish.
#[test]
fn an_event_is_receivable_when_its_publish_returns() {
    let bus = inline(8);
    let mut watchers = policies().map(|policy| bus.watch_builder().overflow(policy).watch().unwrap());
    let publisher = bus.publisher();
    for (event, publish) in (0..2000).zip(WAYS.iter().cycle()) {
        publish(&publisher, event);
        for watcher in &mut watchers {
            assert_eq!(watcher.len(), 1);
            assert_eq!(watcher.try_recv(), Ok(Event(event)));
            assert_eq!(watcher.try_recv(), Err(TryRecvError::Empty));
        }
    }
}

/// While other threads publish, each thread can receive its own event after its publish. All
/// watchers see the same order.
#[test]
fn each_of_four_publishing_threads_finds_its_own_event() {
    const ROUNDS: u64 = if cfg!(miri) { 50 } else { 2_000 };
    watched(|| {
        let bus = inline::<(u64, u64)>(4 * ROUNDS as usize);
        let barrier = Barrier::new(4);
        let publish_and_look = |id, mut watcher: eventcast::Watcher<_>, publisher: Publisher<_>| {
            barrier.wait();
            let mut seen = Vec::new();
            for number in 0..ROUNDS {
                publisher.publish((id, number)).unwrap();
                let before = seen.len();
                seen.extend(available(&mut watcher));
                assert!(
                    seen[before..].contains(&Event((id, number))),
                    "event {number} of thread {id} cannot be received"
                );
            }
            barrier.wait();
            seen.extend(available(&mut watcher));
            seen
        };
        let publish_and_look = &publish_and_look;
        let seen: Vec<_> = thread::scope(|scope| {
            let threads: Vec<_> = (0..4)
                .map(|id| {
                    let (watcher, publisher) = (bus.watch().unwrap(), bus.publisher());
                    scope.spawn(move || publish_and_look(id, watcher, publisher))
                })
                .collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        assert_eq!(seen[0].len() as u64, 4 * ROUNDS);
        assert!(seen.iter().all(|others| *others == seen[0]), "the watchers see different orders");
    });
}

/// Batches that are split into several pieces, and gaps, are each in the right place when the
/// publish returns.
#[test]
fn batches_and_gaps_are_there_when_their_publish_returns() {
    let bus = Broadcaster::with_options(inline_options(1000).max_batch(8)).unwrap();
    let mut watchers = policies().map(|policy| bus.watch_builder().overflow(policy).watch().unwrap());
    let publisher = bus.publisher();
    let mut next = 0;
    let mut check =
        |wanted: &[_]| watchers.iter_mut().for_each(|watcher| assert_eq!(available(watcher), wanted));
    for length in [1, 7, 8, 9, 100] {
        publisher.publish_batch(next..next + length).unwrap();
        check(&(next..next + length).map(Event).collect::<Vec<_>>());
        publisher.publish_gap(3).unwrap();
        check(&[Lagged(3)]);
        publisher.try_publish_batch([next, next + 1]).unwrap();
        publisher.publish_gap(4).unwrap();
        publisher.publish_gap(5).unwrap();
        check(&[Event(next), Event(next + 1), Lagged(9)]);
        next += length;
    }
    let stats = bus.stats();
    assert_settled(&stats, next + 10);
    assert_eq!(stats.missed, 5 * 12);
}

/// Between two calls, no event is pending, and every accepted event is counted for every watcher.
#[test]
fn the_statistics_balance_after_each_publish() {
    let bus = inline(3);
    let policies = [DropIncoming, DropOldest, WaitFor(Duration::ZERO), Evict];
    let mut watchers: Vec<_> =
        policies.map(|policy| bus.watch_builder().overflow(policy).watch().unwrap()).into();
    watchers.push(bus.watch_builder().filter(|n: &u64| n % 3 == 0).watch().unwrap());
    let publisher = bus.publisher();
    let mut accepted = 0;
    for round in 0..300_u64 {
        let length = if round % 5 == 0 { round % 7 } else { 1 };
        match length {
            1 => publisher.publish(round).unwrap(),
            _ => publisher.publish_batch(round..round + length).unwrap(),
        }
        accepted += length;
        let stats = bus.stats();
        assert_settled(&stats, accepted);
        assert_eq!(stats.published(), accepted);
        for watcher in stats.watchers.iter().filter(|watcher| watcher.evictions == 0) {
            assert_eq!(watcher.offered + watcher.filtered, accepted, "{watcher}");
        }
        for watcher in watchers.iter_mut().filter(|_| round % 2 == 0) {
            let _ = watcher.try_recv();
        }
        assert_settled(&bus.stats(), accepted);
    }
}

/// One thread publishes a burst that no reader can keep up with. No event is refused, and the
/// newest events survive, preceded by the number of lost events.
#[test]
fn the_newest_events_of_a_burst_survive() {
    const EVENTS: u64 = if cfg!(miri) { 3_000 } else { 100_000 };
    const QUEUE: u64 = 1024;
    let bus = inline(QUEUE as usize);
    let mut watcher = bus.watch_builder().overflow(DropOldest).watch().unwrap();
    let publisher = bus.publisher();
    (0..EVENTS).for_each(|event| publisher.try_publish(event).unwrap());
    assert_eq!(bus.stats().rejected_full, 0);
    assert_eq!(watcher.try_recv(), Ok(Lagged(EVENTS - QUEUE)));
    assert_eq!(available(&mut watcher), (EVENTS - QUEUE..EVENTS).map(Event).collect::<Vec<_>>());
}

/// User-supplied code runs on the publishing thread, before the publish call returns.
#[test]
fn filters_run_on_the_publishing_thread() {
    let bus = inline::<u64>(8);
    let (ran_tx, ran) = mpsc::channel();
    let filter = move |_: &u64| ran_tx.send(thread::current().id()).is_ok();
    let _watcher = bus.watch_builder().filter(filter).watch().unwrap();
    bus.publisher().publish(1).unwrap();
    assert_eq!(ran.try_recv(), Ok(thread::current().id()));
    let publisher = bus.publisher();
    let id = thread::spawn(move || {
        publisher.publish(2).unwrap();
        thread::current().id()
    });
    assert_eq!(ran.recv_timeout(LONG), Ok(id.join().unwrap()));
}

/// A filter is called for events from the history on the registering thread, before `watch`
/// returns.
#[test]
fn a_filter_has_seen_the_past_when_watch_returns() {
    let bus = bus_with(inline_options(1000).history(10));
    bus.publisher().publish_batch(1..=6).unwrap();
    let (ran_tx, ran) = mpsc::channel();
    let filter = move |event: &u64| {
        ran_tx.send((*event, thread::current().id())).unwrap();
        event % 2 == 0
    };
    let mut even = bus.watch_builder().filter(filter).start(Start::After(1)).watch().unwrap();
    let here = thread::current().id();
    assert_eq!(ran.try_iter().collect::<Vec<_>>(), (2..=6).map(|event| (event, here)).collect::<Vec<_>>());
    assert_eq!((even.stats().filtered, even.stats().offered), (2, 3));
    assert_eq!(available(&mut even), [2, 4, 6].map(Event));
}

/// Events from the history need no capacity, and reading them frees none for new events.
#[test]
fn the_past_takes_no_capacity() {
    let bus = bus_with(inline_options(1000).history(10));
    bus.publisher().publish_batch(1..=10).unwrap();
    let mut watcher =
        bus.watch_builder().queue_capacity(2).overflow(Wait).start(Start::Oldest).watch().unwrap();
    let publisher = bus.publisher();
    publisher.try_publish(11).unwrap();
    publisher.try_publish(12).unwrap();
    assert!(publisher.try_publish(13).unwrap_err().is_full());
    for event in 1..=10 {
        assert_eq!(watcher.try_recv(), Ok(Event(event)));
    }
    assert!(publisher.try_publish(13).unwrap_err().is_full());
    assert_eq!(watcher.try_recv(), Ok(Event(11)));
    publisher.try_publish(13).unwrap();
    assert_eq!(available(&mut watcher), [12, 13].map(Event));
}

/// The prefix is received first, followed by events from the history, and then by new events. The
/// prefix does not take up capacity.
#[test]
fn a_prefix_is_received_before_the_past() {
    let bus = bus_with(inline_options(1000).history(2));
    bus.publisher().publish_batch(1..=3).unwrap();
    let builder = bus.watch_builder().queue_capacity(1).overflow(Wait);
    let mut watcher = builder.prefix([100, 101]).start(Start::Oldest).watch().unwrap();
    bus.publisher().try_publish(4).unwrap();
    assert_eq!(available(&mut watcher), [100, 101, 2, 3, 4].map(Event));
    assert_eq!(watcher.try_recv(), Err(TryRecvError::Empty));
}
