//! The non-blocking iterator (`try_iter`), and watchers that return only events.

use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use eventcast::Delivery::{Event, Lagged};
use eventcast::bus::{EndReason, EventWatcher};
use eventcast::error::{RecvError, RecvTimeoutError, TryRecvError};
use eventcast::testing::FakeClock;
use eventcast::{Broadcaster, BusOptions, OverflowPolicy};
use futures::executor::block_on;
use futures::{Stream, StreamExt};

use crate::support::{LONG, buses, watched};

// ── try_iter ──

#[test]
fn try_iter_returns_what_is_queued_now() {
    for bus in buses(2) {
        let mut watcher = bus.watch().unwrap();
        assert_eq!(watcher.try_iter().next(), None);
        bus.publisher().publish_batch([1, 2, 3]).unwrap();
        bus.flush(LONG).unwrap();
        assert_eq!(watcher.try_iter().collect::<Vec<_>>(), [Event(1), Event(2), Lagged(1)]);
        assert_eq!(watcher.end_reason(), None);

        // The iterator continues after a `None`.
        let mut arrived = watcher.try_iter();
        assert_eq!(arrived.next(), None);
        bus.publisher().publish_batch([4, 5]).unwrap();
        bus.flush(LONG).unwrap();
        assert_eq!(arrived.next(), Some(Event(4)));
        bus.shutdown();
        assert_eq!(
            watcher.try_iter().collect::<Vec<_>>(),
            [Event(5)],
            "the queued event must remain readable"
        );
        assert_eq!(watcher.end_reason(), Some(EndReason::Closed));
        assert_eq!(watcher.try_iter().next(), None);
    }
}

// ── events only ──

/// Publishes two events, with losses before, between and after them.
fn publish_with_losses(bus: &Broadcaster<u64>) {
    bus.publisher().publish_gap(2).unwrap();
    bus.publisher().publish(1).unwrap();
    bus.publisher().publish_gap(3).unwrap();
    bus.publisher().publish_gap(4).unwrap();
    bus.publisher().publish(2).unwrap();
    bus.publisher().publish_gap(5).unwrap();
    bus.flush(LONG).unwrap();
}

/// Reads until the bus ends, or until nothing more is available.
type Read = fn(&mut EventWatcher<u64>) -> Vec<u64>;

#[test]
fn every_receive_skips_losses() {
    let ways: [(&str, Read); 9] = [
        ("recv", |events| std::iter::from_fn(|| events.recv().ok()).collect()),
        ("try_recv", |events| std::iter::from_fn(|| events.try_recv().ok()).collect()),
        ("recv_timeout", |events| std::iter::from_fn(|| events.recv_timeout(LONG).ok()).collect()),
        ("recv_deadline", |events| {
            let deadline = Instant::now() + LONG;
            std::iter::from_fn(|| events.recv_deadline(deadline).ok()).collect()
        }),
        ("recv_async", |events| std::iter::from_fn(|| block_on(events.recv_async()).ok()).collect()),
        ("stream", |events| block_on(events.by_ref().collect())),
        ("try_iter", |events| events.try_iter().collect()),
        ("for", |events| events.into_iter().collect()),
        ("events of the watcher", |events| {
            let mut watcher = std::mem::replace(events, eventcast::Watcher::ended().into_events());
            let seen = (&mut watcher).into_iter().collect();
            *events = watcher.into_watcher().into_events();
            seen
        }),
    ];
    watched(move || {
        for (way, read) in ways {
            for bus in buses(10) {
                let mut events = bus.watch().unwrap().into_events();
                publish_with_losses(&bus);
                bus.shutdown();
                assert_eq!(read(&mut events), [1, 2], "{way}");
                assert_eq!(events.try_recv(), Err(TryRecvError::Ended), "{way}");
                assert_eq!(events.recv(), Err(RecvError), "{way}");
                let watcher = events.watcher();
                assert_eq!((watcher.stats().missed, watcher.stats().delivered), (14, 2), "{way}");
                assert_eq!(watcher.end_reason(), Some(EndReason::Closed), "{way}");
            }
        }
    });
}

#[test]
fn a_receive_that_has_only_losses_is_empty() {
    for bus in buses(10) {
        let mut events = bus.watch().unwrap().into_events();
        bus.publisher().publish_gap(1).unwrap();
        bus.flush(LONG).unwrap();
        let cx = &mut Context::from_waker(Waker::noop());
        assert_eq!(pin!(events.recv_async()).as_mut().poll(cx), Poll::Pending);
        assert_eq!(pin!(&mut events).poll_next(cx), Poll::Pending);
        assert_eq!(events.try_recv(), Err(TryRecvError::Empty));
        assert_eq!(events.recv_timeout(Duration::ZERO), Err(RecvTimeoutError::Timeout));
        // A cancelled receive has not taken an event.
        bus.publisher().publish(1).unwrap();
        bus.flush(LONG).unwrap();
        assert_eq!((events.watcher().len(), events.try_recv()), (1, Ok(1)));
    }
}

/// Losses in the watcher's own queue are skipped too, regardless of the policy.
#[test]
fn losses_by_a_policy_stay_counted() {
    for (policy, expected) in [(OverflowPolicy::DropIncoming, [1, 2]), (OverflowPolicy::DropOldest, [3, 4])] {
        for bus in buses(2) {
            let events = bus.watch_builder().overflow(policy).watch().unwrap().into_events();
            bus.publisher().publish_batch(1..=4).unwrap();
            bus.flush(LONG).unwrap();
            bus.close();
            assert_eq!(events.watcher().stats().dropped.total(), 2);
            assert_eq!(events.into_iter().collect::<Vec<_>>(), expected, "{policy}");
        }
    }
}

/// A blocking receive has a single deadline, even if it skips losses while it waits.
#[test]
fn a_loss_does_not_extend_the_wait() {
    watched(|| {
        for inline in [false, true] {
            let clock = FakeClock::new(SystemTime::UNIX_EPOCH);
            let options = BusOptions::default().inline(inline);
            let bus = Broadcaster::<u64>::with_clock(options, clock.clock()).unwrap();
            let mut events = bus.watch().unwrap().into_events();
            let waiting = thread::spawn(move || (events.recv_timeout(Duration::from_secs(10)), events));
            clock.wait_for_waiters(1);
            clock.advance(Duration::from_secs(6));
            bus.publisher().publish_gap(1).unwrap();
            bus.flush(LONG).unwrap();
            clock.advance(Duration::from_secs(4));
            let (received, mut events) = waiting.join().unwrap();
            assert_eq!(received, Err(RecvTimeoutError::Timeout));
            // An available event can be received, even after a loss and with a timeout of zero.
            bus.publisher().publish_gap(1).unwrap();
            bus.publisher().publish(7).unwrap();
            bus.flush(LONG).unwrap();
            assert_eq!(events.recv_timeout(Duration::ZERO), Ok(7));
        }
    });
}

#[test]
fn into_watcher_returns_the_losses_that_were_not_skipped() {
    for bus in buses(10) {
        let mut events = bus.watch().unwrap().into_events();
        publish_with_losses(&bus);
        assert_eq!(events.recv(), Ok(1));
        assert_eq!(events.watcher().position(), Some(3));
        let stop = events.watcher().handle();
        let text = format!("{events:?}");
        assert!(text.starts_with("EventWatcher { watcher: Watcher"), "{text}");
        stop.stop();
        let mut watcher = events.into_watcher();
        let rest: Vec<_> = (&mut watcher).into_iter().collect();
        assert_eq!(rest, [Lagged(7), Event(2), Lagged(5)]);
        assert_eq!(watcher.end_reason(), Some(EndReason::Stopped));
    }
}
