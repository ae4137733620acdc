//! The `Wait` and `WaitFor` policies: how long the dispatcher waits for readers.

use std::pin::pin;
use std::sync::mpsc;
use std::task::Poll;
use std::time::Duration;

use eventcast::BusOptions;
use eventcast::Delivery::{Event, Lagged};
use eventcast::OverflowPolicy::{Wait, WaitFor};
use eventcast::stats::DropReason;

use crate::support::{Ear, LONG, assert_dropped, bus, drain, keeping, stopping_filter, timed, until, waits};

#[test]
fn wait_for_ends_at_its_limit_and_shows_the_gap() {
    let (clock, bus) = timed(BusOptions::default().queue_capacity(2));
    let policy = WaitFor(Duration::from_millis(50));
    let mut slow = bus.watch_builder().overflow(policy).watch().unwrap();
    bus.publisher().publish_batch(vec![1, 2, 3, 4]).unwrap();
    clock.wait_for_waiters(1);
    clock.advance(Duration::from_millis(49));
    assert_eq!(slow.stats().dropped.total(), 0);
    clock.advance(Duration::from_millis(1));
    bus.shutdown();
    assert_eq!(drain(&mut slow), [Event(1), Event(2), Lagged(2)]);
    assert_eq!(slow.stats().dropped.timed_out, 2);
}

/// While the dispatcher waits for two readers, each reader loses its event at its own limit, so the
/// reader with the shorter limit loses its event first.
#[test]
fn of_two_limits_the_earlier_counts() {
    const SECOND: Duration = Duration::from_secs(1);
    for limits in [[1, 10], [10, 1]] {
        let (clock, bus) = timed(BusOptions::default().queue_capacity(1));
        let (lost_tx, lost) = mpsc::channel();
        let watchers = limits.map(|limit| {
            let lost_tx = lost_tx.clone();
            let builder = bus.watch_builder().overflow(WaitFor(limit * SECOND));
            builder
                .on_drop(move |why, events| lost_tx.send((limit, why, events[0])).unwrap())
                .watch()
                .unwrap()
        });
        bus.publisher().publish_batch([1, 2]).unwrap();
        clock.wait_for_waiters(1);
        clock.advance(SECOND);
        assert_eq!(lost.recv_timeout(LONG), Ok((1, DropReason::TimedOut, 2)));
        clock.wait_for_waiters(1);
        clock.advance(8 * SECOND);
        assert!(lost.try_recv().is_err(), "the other reader has one more second");
        clock.advance(SECOND);
        assert_eq!(lost.recv_timeout(LONG), Ok((10, DropReason::TimedOut, 2)));
        bus.flush(LONG).unwrap();
        for watcher in watchers {
            assert_eq!((watcher.len(), watcher.stats().dropped.timed_out), (1, 1));
        }
    }
}

/// A busy reader may take events out of the incoming queue itself, instead of the dispatcher. When
/// such a reader stalls, the dispatcher takes over and waits for the reader up to the limit.
#[test]
fn a_busy_reader_that_stalls_is_waited_for_up_to_its_limit() {
    const EVENTS: u64 = 300;
    const LIMIT: Duration = Duration::from_secs(1);
    for stalls_after in [0, 1, 50, 100, 200, EVENTS] {
        let (clock, bus) = timed(BusOptions::default().max_batch(1));
        let (lost_tx, lost) = mpsc::channel();
        let builder = bus.watch_builder().queue_capacity(EVENTS as usize).overflow(WaitFor(LIMIT));
        let mut watcher = builder
            .on_drop(move |why, events: &[u64]| lost_tx.send((why, events[0])).unwrap())
            .watch()
            .unwrap();
        // The filter of another watcher holds the dispatcher until all events have been published.
        // The dispatcher is then continuously busy, so it leaves the incoming queue to its only
        // reader.
        let (turnstile, other) = stopping_filter(bus.watch_builder());
        bus.publisher().publish(0).unwrap();
        turnstile.wait_for(0);
        drop(other);
        bus.publisher().publish_batch(1..EVENTS).unwrap();
        drop(turnstile);
        for number in 0..stalls_after {
            assert_eq!(watcher.recv(), Ok(Event(number)));
        }
        // Not all of these events fit into the queue.
        bus.publisher().publish_batch(EVENTS..=EVENTS + stalls_after).unwrap();
        until(|| clock.waiters() > 0);
        clock.advance(LIMIT);
        assert_eq!(lost.recv_timeout(LONG), Ok((DropReason::TimedOut, EVENTS + stalls_after)));
        assert_eq!(watcher.len(), EVENTS as usize);
    }
}

/// While the dispatcher waits for a reader, it sends small batches, so that the reader frees space
/// for later batches while the reader handles the first batch.
#[test]
fn events_that_waited_for_space_arrive_in_small_batches() {
    const QUEUE: usize = 16;
    let bus = bus::<usize>(100, QUEUE);
    for policy in [Wait, WaitFor(10 * LONG)] {
        let mut watcher = bus.watch_builder().overflow(policy).watch().unwrap();
        bus.publisher().publish_batch(0..QUEUE).unwrap();
        // The dispatcher holds these events and waits until the first events have been read.
        bus.publisher().publish_batch(QUEUE..10 * QUEUE).unwrap();
        until(|| watcher.stats().lag == 10 * QUEUE as u64);
        let mut received = 0;
        while received < 10 * QUEUE {
            let batch = watcher.recv_batch_timeout(LONG).unwrap();
            assert_eq!((batch.lagged, batch.first()), (0, Some(&received)));
            assert!(received < QUEUE || batch.len() <= QUEUE / 4 + QUEUE / 8, "{} events", batch.len());
            received += batch.len();
        }
        assert_eq!(watcher.stats().dropped.total(), 0);
    }
}

/// The dispatcher continues with its other watchers as soon as the reader that it waits for has
/// freed the space of a single event.
#[test]
fn space_for_one_event_is_used() {
    let bus = bus::<u64>(100, 1);
    let mut slow = bus.watch_builder().overflow(Wait).watch().unwrap();
    let mut quick = bus.watch_builder().queue_capacity(10).watch().unwrap();
    (0..5).for_each(|number| bus.publisher().publish(number).unwrap());
    for number in 0..5 {
        assert_eq!(slow.recv_timeout(LONG), Ok(Event(number)));
        assert_eq!(quick.recv_timeout(LONG), Ok(Event(number)));
    }
}

/// While the dispatcher waits for a reader, it removes dropped watchers, but does not process later
/// entries such as flushes, gaps and registrations.
#[test]
fn no_later_entry_passes_events_that_wait() {
    let bus = bus::<u64>(100, 1);
    let mut others = Vec::new();
    for _ in 0..3 {
        let (in_filter, gone) = mpsc::channel();
        others.push((bus.watch_builder().filter(keeping(in_filter)).watch().unwrap(), gone));
    }
    let mut full = waits(&bus, 1).watch().unwrap();
    bus.publisher().publish_batch([1, 2, 3]).unwrap();
    let mut flush = pin!(bus.flush_async(10 * LONG));
    let ear = Ear::new();
    assert_eq!(ear.poll(flush.as_mut()), Poll::Pending);
    bus.publisher().publish_gap(5).unwrap();
    let mut late = bus.watch().unwrap();
    bus.publisher().publish(9).unwrap();
    for (other, gone) in others {
        drop(other);
        assert_dropped(&gone);
        assert_eq!(bus.stats().missed, 0);
        assert_eq!((ear.poll(flush.as_mut()), late.position()), (Poll::Pending, None));
    }
    assert_eq!(full.recv(), Ok(Event(1)));
    // The last event is not in the queue yet.
    until(|| full.stats().queued == 1);
    assert_eq!(ear.poll(flush.as_mut()), Poll::Pending);
    assert_eq!(full.recv(), Ok(Event(2)));
    assert_eq!(ear.finish(flush), Ok(()));
    assert_eq!(full.recv(), Ok(Event(3)));
    assert_eq!(full.recv_timeout(LONG), Ok(Lagged(5)));
    assert_eq!(full.recv_timeout(LONG), Ok(Event(9)));
    assert_eq!((late.recv_timeout(LONG), late.position()), (Ok(Event(9)), Some(9)));
}

/// If a filter accepts nothing, its watcher does not cause a wait, even if the queue is full and
/// the policy is `Wait`.
#[test]
fn a_full_queue_that_nothing_is_meant_for() {
    let bus = bus(1, 1);
    let watcher = waits(&bus, 1).filter(|n: &u32| *n == 0).watch().unwrap();
    bus.publisher().publish_batch(0..100).unwrap();
    assert!(bus.shutdown().complete);
    assert_eq!((watcher.stats().queued, watcher.stats().filtered), (1, 99));
}
