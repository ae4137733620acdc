//! The `WaitFor` policy: publishers wait for a watcher up to its limit, which starts when the first
//! event does not fit. After the limit the watcher loses events until it has capacity again.

use std::sync::mpsc;
use std::task::Poll;
use std::thread;
use std::time::{Duration, SystemTime};

use eventcast::Delivery::{Event, Lagged};
use eventcast::OverflowPolicy::WaitFor;
use eventcast::error::PublishError;
use eventcast::stats::DropReason;
use eventcast::testing::FakeClock;
use eventcast::{Broadcaster, Watcher};

use crate::support::{
    Ear, LONG, assert_settled, available, inline_options, poll, reporting_waker, timed, waits, watched,
};

const SECOND: Duration = Duration::from_secs(1);
const LIMIT: Duration = Duration::from_secs(10);

/// One second before the limit.
const BEFORE: Duration = Duration::from_secs(9);

/// Returns a bus with two watchers. The first watcher has a `WaitFor` limit, and its queue of one
/// event is full.
fn full() -> (FakeClock, Broadcaster<u64>, Watcher<u64>, Watcher<u64>) {
    let (clock, bus) = timed(inline_options(100));
    let slow = bus.watch_builder().queue_capacity(1).overflow(WaitFor(LIMIT)).watch().unwrap();
    let other = bus.watch().unwrap();
    bus.publisher().publish(1).unwrap();
    (clock, bus, slow, other)
}

#[test]
fn a_publisher_waits_until_the_limit_and_then_the_watcher_loses() {
    watched(|| {
        let (clock, bus, mut slow, mut other) = full();
        let publisher = bus.publisher();
        let waiting = thread::spawn(move || publisher.publish(2));
        clock.wait_for_waiters(1);
        clock.advance(BEFORE);
        clock.wait_for_waiters(1);
        assert_eq!(available(&mut other), [Event(1)]);
        clock.advance(SECOND);
        assert_eq!(waiting.join().unwrap(), Ok(()));
        assert_eq!(slow.stats().dropped.timed_out, 1);
        assert_eq!(available(&mut other), [Event(2)]);
        assert_eq!(available(&mut slow), [Event(1), Lagged(1)]);
        assert_settled(&bus.stats(), 2);
    });
}

/// After the limit, the watcher loses events without further waits, whichever publish method is
/// used. Once the watcher has capacity again, the limit applies as before.
#[test]
fn after_the_limit_a_watcher_loses_until_it_has_capacity() {
    watched(|| {
        let (clock, bus, mut slow, _other) = full();
        let publisher = bus.publisher();
        assert_eq!(publisher.try_publish(2), Err(PublishError::Full(2)));
        clock.advance(LIMIT);
        publisher.try_publish(3).unwrap();
        publisher.publish(4).unwrap();
        publisher.try_publish_batch([5, 6]).unwrap();
        clock.advance(SECOND);
        publisher.publish_batch([7]).unwrap();
        assert_eq!(slow.stats().dropped.timed_out, 5);
        assert_eq!(slow.try_recv(), Ok(Event(1)));
        publisher.try_publish(8).unwrap();
        assert_eq!(publisher.try_publish(9), Err(PublishError::Full(9)), "the limit starts again");
        clock.advance(BEFORE);
        assert_eq!(publisher.try_publish(9), Err(PublishError::Full(9)));
        clock.advance(SECOND);
        publisher.try_publish(9).unwrap();
        assert_eq!(available(&mut slow), [Lagged(5), Event(8), Lagged(1)]);
        assert_settled(&bus.stats(), 8);
        assert_eq!(bus.stats().rejected_full, 3);
    });
}

/// As long as nothing is published to a full watcher, its limit does not start.
#[test]
fn the_limit_starts_at_the_first_refusal_and_not_when_the_queue_is_full() {
    let (clock, bus, mut slow, _other) = full();
    clock.advance(LIMIT);
    assert_eq!(bus.publisher().try_publish(2), Err(PublishError::Full(2)));
    assert_eq!(slow.try_recv(), Ok(Event(1)));
    bus.publisher().try_publish(3).unwrap();
    assert_eq!((available(&mut slow), slow.stats().dropped.total()), (vec![Event(3)], 0));
}

#[test]
fn a_reader_that_frees_capacity_in_time_loses_nothing() {
    watched(|| {
        let (clock, bus, mut slow, mut other) = full();
        let publisher = bus.publisher();
        let waiting = thread::spawn(move || publisher.publish(2));
        clock.wait_for_waiters(1);
        clock.advance(BEFORE);
        assert_eq!(slow.try_recv(), Ok(Event(1)));
        assert_eq!(waiting.join().unwrap(), Ok(()));
        clock.advance(LIMIT);
        assert_eq!((available(&mut slow), slow.stats().dropped.total()), (vec![Event(2)], 0));
        assert_eq!(available(&mut other), [Event(1), Event(2)]);
    });
}

/// A publish with a timeout waits until its deadline or the watcher's limit, whichever is earlier.
/// The limit starts at the first refusal.
#[test]
fn a_timeout_before_the_limit_returns_the_event() {
    watched(|| {
        let (clock, bus, mut slow, _other) = full();
        let publish = |event, timeout| {
            let publisher = bus.publisher();
            thread::spawn(move || publisher.publish_timeout(event, timeout))
        };
        let early = publish(2, BEFORE);
        clock.wait_for_waiters(1);
        clock.advance(BEFORE);
        assert_eq!(early.join().unwrap(), Err(PublishError::Full(2)));
        let late = publish(3, LIMIT);
        clock.wait_for_waiters(1);
        clock.advance(SECOND);
        assert_eq!(late.join().unwrap(), Ok(()));
        assert_eq!(available(&mut slow), [Event(1), Lagged(1)]);
    });
}

/// `ready` completes at the limit, because `try_publish` would then be accepted. The limit starts
/// when `ready` first checks for capacity, because a program that calls only these two methods
/// would otherwise wait forever.
#[test]
fn ready_is_ready_at_the_limit() {
    watched(|| {
        let (clock, bus, slow, _other) = full();
        let publisher = bus.publisher();
        let (waker, woken) = reporting_waker();
        let mut ready = Box::pin(publisher.ready());
        assert!(poll(ready.as_mut(), &waker).is_pending());
        clock.wait_for_waiters(1);
        clock.advance(LIMIT);
        woken.recv_timeout(LONG).expect("the task must be woken at the limit");
        assert_eq!(poll(ready.as_mut(), &waker), Poll::Ready(Ok(())));
        publisher.try_publish(2).unwrap();
        assert_eq!(slow.stats().dropped.timed_out, 1);
    });
}

/// Publishing a batch waits for the limit only once. After that, the watcher loses the rest of the
/// batch.
#[test]
fn a_batch_waits_for_the_limit_once() {
    watched(|| {
        let (clock, bus) = timed(inline_options(100));
        let mut slow = bus.watch_builder().queue_capacity(2).overflow(WaitFor(LIMIT)).watch().unwrap();
        let mut other = bus.watch().unwrap();
        let publisher = bus.publisher();
        let waiting = thread::spawn(move || publisher.publish_batch(1..=9));
        clock.wait_for_waiters(1);
        assert_eq!(available(&mut other), [Event(1), Event(2)]);
        clock.advance(LIMIT);
        assert_eq!(waiting.join().unwrap(), Ok(()));
        assert_eq!(available(&mut slow), [Event(1), Event(2), Lagged(7)]);
        assert_eq!(available(&mut other), (3..=9).map(Event).collect::<Vec<_>>());
        assert_settled(&bus.stats(), 9);
    });
}

/// Each of two limits applies to its own watcher, and the publisher waits for the longer limit.
#[test]
fn of_two_limits_the_longer_delays_the_publisher() {
    for limits in [[1, 10], [10, 1]] {
        watched(move || {
            let (clock, bus) = timed(inline_options(1));
            let (lost_tx, lost) = mpsc::channel();
            let mut watchers = limits.map(|limit| {
                let lost_tx = lost_tx.clone();
                let hook = move |why, events: &[u64]| lost_tx.send((limit, why, events.to_vec())).unwrap();
                bus.watch_builder().overflow(WaitFor(limit * SECOND)).on_drop(hook).watch().unwrap()
            });
            let publisher = bus.publisher();
            publisher.publish(1).unwrap();
            let waiting = thread::spawn(move || publisher.publish(2));
            clock.wait_for_waiters(1);
            clock.advance(SECOND);
            clock.wait_for_waiters(1);
            clock.advance(9 * SECOND);
            assert_eq!(waiting.join().unwrap(), Ok(()));
            let mut reports: Vec<_> = lost.try_iter().collect();
            reports.sort_by_key(|report| report.0);
            assert_eq!(reports, [1, 10].map(|limit| (limit, DropReason::TimedOut, vec![2])));
            for watcher in &mut watchers {
                assert_eq!(available(watcher), [Event(1), Lagged(1)]);
            }
        });
    }
}

/// Once a watcher is past its limit, it loses events, while the publisher still waits for another
/// full watcher with the `Wait` policy.
#[test]
fn a_late_watcher_does_not_replace_the_wait_for_another() {
    watched(|| {
        let (clock, bus, mut slow, _other) = full();
        let mut unlimited = waits(&bus, 1).watch().unwrap();
        assert!(bus.publisher().try_publish(2).unwrap_err().is_full());
        clock.advance(LIMIT);
        bus.publisher().try_publish(3).unwrap();
        assert!(bus.publisher().try_publish(4).unwrap_err().is_full(), "the other watcher is full");
        assert_eq!(slow.stats().dropped.timed_out, 1, "refused events do not count as lost");
        assert_eq!(unlimited.try_recv(), Ok(Event(3)));
        bus.publisher().try_publish(5).unwrap();
        assert_eq!(available(&mut slow), [Event(1), Lagged(2)]);
        assert_eq!(available(&mut unlimited), [Event(5)]);
    });
}

#[test]
fn the_largest_limit_never_passes() {
    let (clock, bus) = timed(inline_options(1));
    let mut watcher = bus.watch_builder().overflow(WaitFor(Duration::MAX)).watch().unwrap();
    bus.publisher().publish(1).unwrap();
    for _ in 0..3 {
        assert!(bus.publisher().try_publish(2).unwrap_err().is_full());
        clock.advance(Duration::from_secs(u64::MAX / 8));
    }
    assert_eq!(watcher.try_recv(), Ok(Event(1)));
    bus.publisher().try_publish(2).unwrap();
}

/// A waiting task is woken at the limit by the bus's clock, even if that clock does not drive the
/// deadlines of flushes, joins and shutdowns.
#[test]
fn a_task_waits_until_the_limit_too() {
    for drives_the_end in [true, false] {
        watched(move || {
            let clock = FakeClock::new(SystemTime::UNIX_EPOCH);
            let clock = if drives_the_end { clock.drive_the_end() } else { clock };
            let bus = Broadcaster::with_clock(inline_options(100), clock.clock()).unwrap();
            let mut slow = bus.watch_builder().queue_capacity(1).overflow(WaitFor(LIMIT)).watch().unwrap();
            let mut other = bus.watch().unwrap();
            let publisher = bus.publisher();
            publisher.publish(1).unwrap();
            let (mut publishing, ear) = (Box::pin(publisher.publish_async(2)), Ear::new());
            assert!(ear.poll(publishing.as_mut()).is_pending());
            // The waiter is the thread that manages the deadlines of tasks.
            clock.wait_for_waiters(1);
            clock.advance(BEFORE);
            assert!(ear.poll(publishing.as_mut()).is_pending());
            clock.wait_for_waiters(1);
            clock.advance(SECOND);
            ear.wait();
            assert_eq!(ear.poll(publishing.as_mut()), Poll::Ready(Ok(())));
            assert_eq!(available(&mut slow), [Event(1), Lagged(1)]);
            assert_eq!(available(&mut other), [Event(1), Event(2)]);
        });
    }
}
