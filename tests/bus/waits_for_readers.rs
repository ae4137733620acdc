//! The policies `Wait` and `WaitFor`: how long the dispatcher waits for readers.

use std::pin::pin;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::task::{Context, Poll};
use std::time::{Duration, SystemTime};

use eventcast::Delivery::{Event, Lagged};
use eventcast::OverflowPolicy::{Wait, WaitFor};
use eventcast::stats::DropReason;
use eventcast::testing::FakeClock;
use eventcast::{Broadcaster, BusOptions, Watcher};

use crate::support::{LONG, bus, reporting_waker, until};

/// While the dispatcher waits for two readers, each loses its event at its own limit, the one with
/// the shorter limit first.
#[test]
fn of_two_limits_the_earlier_counts() {
    const SECOND: Duration = Duration::from_secs(1);
    for limits in [[1, 10], [10, 1]] {
        let clock = FakeClock::new(SystemTime::UNIX_EPOCH);
        let bus = Broadcaster::with_clock(BusOptions::default().queue_len(1), clock.clock()).unwrap();
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

/// A busy reader may take events out of the incoming queue itself, instead of the dispatcher. The
/// dispatcher continues when such a reader stalls, and waits for it up to the limit.
#[test]
fn a_busy_reader_that_stalls_is_waited_for_up_to_its_limit() {
    const EVENTS: u64 = 300;
    const LIMIT: Duration = Duration::from_secs(1);
    for stalls_after in [0, 1, 50, 100, 200, EVENTS] {
        let clock = FakeClock::new(SystemTime::UNIX_EPOCH);
        let bus = Broadcaster::with_clock(BusOptions::default().max_batch(1), clock.clock()).unwrap();
        let (lost_tx, lost) = mpsc::channel();
        let builder = bus.watch_builder().queue_len(EVENTS as usize).overflow(WaitFor(LIMIT));
        let mut watcher = builder
            .on_drop(move |why, events: &[u64]| lost_tx.send((why, events[0])).unwrap())
            .watch()
            .unwrap();
        // The filter of another watcher holds the dispatcher until that watcher is dropped, and
        // everything is published. The dispatcher is then busy with one event after the other. This
        // is when it leaves the incoming queue to its only reader.
        let (go, gate) = mpsc::channel::<()>();
        let (entered_tx, entered) = mpsc::channel();
        let hold = move |event: &u64| {
            let _ = entered_tx.send(*event);
            gate.recv().is_ok()
        };
        let other = bus.watch_builder().filter(hold).watch().unwrap();
        bus.publisher().publish(0).unwrap();
        assert_eq!(entered.recv_timeout(LONG), Ok(0));
        drop(other);
        bus.publisher().publish_batch(1..EVENTS).unwrap();
        drop(go);
        for number in 0..stalls_after {
            assert_eq!(watcher.recv(), Ok(Event(number)));
        }
        // These do not all fit into the queue.
        bus.publisher().publish_batch(EVENTS..=EVENTS + stalls_after).unwrap();
        until(|| clock.waiters() > 0);
        clock.advance(LIMIT);
        assert_eq!(lost.recv_timeout(LONG), Ok((DropReason::TimedOut, EVENTS + stalls_after)));
        assert_eq!(watcher.len(), EVENTS as usize);
    }
}

/// A dispatcher that waits for a reader sends small batches, so that the reader frees space for the
/// next ones while it handles the first.
#[test]
fn events_that_waited_for_space_arrive_in_small_batches() {
    const QUEUE: usize = 16;
    let bus = bus::<usize>(100, QUEUE);
    for policy in [Wait, WaitFor(10 * LONG)] {
        let mut watcher = bus.watch_builder().overflow(policy).watch().unwrap();
        bus.publisher().publish_batch(0..QUEUE).unwrap();
        // The dispatcher waits with these until the first ones have been read.
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
    let mut quick = bus.watch_builder().queue_len(10).watch().unwrap();
    (0..5).for_each(|number| bus.publisher().publish(number).unwrap());
    for number in 0..5 {
        assert_eq!(slow.recv_timeout(LONG), Ok(Event(number)));
        assert_eq!(quick.recv_timeout(LONG), Ok(Event(number)));
    }
}

/// While the dispatcher waits for a reader, it removes dropped watchers, but carries out no later
/// entry: neither a flush, nor a gap, nor a registration.
#[test]
fn no_later_entry_passes_events_that_wait() {
    /// Drops a watcher, and waits until the dispatcher has removed it.
    fn disturb(bus: &Broadcaster<u64>, other: Watcher<u64>, gone: &mpsc::Receiver<()>) {
        drop(other);
        assert_eq!(gone.recv_timeout(LONG), Err(RecvTimeoutError::Disconnected));
        assert_eq!(bus.stats().missed, 0);
    }
    let bus = bus::<u64>(100, 1);
    let mut others = Vec::new();
    for _ in 0..3 {
        let (in_filter, gone) = mpsc::channel::<()>();
        let filter = move |_: &u64| {
            let _ = &in_filter;
            true
        };
        others.push((bus.watch_builder().filter(filter).watch().unwrap(), gone));
    }
    let mut full = bus.watch_builder().overflow(Wait).watch().unwrap();
    bus.publisher().publish_batch([1, 2, 3]).unwrap();
    let mut flush = pin!(bus.flush_async(10 * LONG));
    let (waker, woken) = reporting_waker();
    let mut poll = || flush.as_mut().poll(&mut Context::from_waker(&waker));
    assert_eq!(poll(), Poll::Pending);
    bus.publisher().publish_gap(5).unwrap();
    let mut late = bus.watch().unwrap();
    bus.publisher().publish(9).unwrap();
    for (other, gone) in others {
        disturb(&bus, other, &gone);
        assert_eq!((poll(), late.position()), (Poll::Pending, None));
    }
    assert_eq!(full.recv(), Ok(Event(1)));
    // The last event is not in the queue yet.
    until(|| full.stats().queued == 1);
    assert_eq!(poll(), Poll::Pending);
    assert_eq!(full.recv(), Ok(Event(2)));
    while poll().is_pending() {
        woken.recv_timeout(LONG).expect("the flush is not woken");
    }
    assert_eq!(full.recv(), Ok(Event(3)));
    assert_eq!(full.recv_timeout(LONG), Ok(Lagged(5)));
    assert_eq!(full.recv_timeout(LONG), Ok(Event(9)));
    assert_eq!((late.recv_timeout(LONG), late.position()), (Ok(Event(9)), Some(9)));
}
