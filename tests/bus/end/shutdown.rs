//! Shutdown, close and drop of the bus.

use std::thread;
use std::time::{Duration, SystemTime};

use eventcast::Delivery::Event;
use eventcast::error::{RecvError, TryRecvError, WatchError};
use eventcast::testing::FakeClock;
use eventcast::{Broadcaster, BusOptions, Delivery, OverflowPolicy};

use crate::support::{LONG, assert_balanced, bus, drain, events, hold, turnstile, until};

/// G3: `Ok` means offered, whatever the shutdown does at the same moment.
#[test]
fn nothing_accepted_is_lost_to_a_shutdown() {
    // Miri takes long for a round.
    for round in 0..if cfg!(miri) { 5 } else { 300 } {
        let bus =
            Broadcaster::with_options(BusOptions::default().incoming_len(8).overflow(OverflowPolicy::Wait))
                .unwrap();
        let mut watcher = bus.watch().unwrap();
        let reader = thread::spawn(move || watcher.events().collect::<Vec<u64>>());
        let accepted = thread::scope(|scope| {
            let publishers: Vec<_> = (0..3_u64)
                .map(|id| {
                    let publisher = bus.publisher();
                    scope.spawn(move || {
                        let mut accepted = Vec::new();
                        for n in 0.. {
                            let event = id * 1_000_000 + n;
                            match publisher.publish(event) {
                                Ok(()) => accepted.push(event),
                                Err(error) => {
                                    assert!(error.is_closed());
                                    assert_eq!(error.into_inner(), event);
                                    return accepted;
                                }
                            }
                        }
                        unreachable!()
                    })
                })
                .collect();
            while bus.stats().accepted < round {
                thread::yield_now();
            }
            assert!(bus.shutdown().complete);
            publishers.into_iter().flat_map(|publisher| publisher.join().unwrap()).collect::<Vec<_>>()
        });
        let mut seen = reader.join().unwrap();
        seen.sort_unstable();
        assert_eq!(seen, accepted, "round {round}");
    }
}

/// G8: every call returns after the drain, with the same report.
#[test]
fn concurrent_shutdowns_all_wait_and_agree() {
    let bus = bus::<u64>(100, 100);
    let (turnstile, mut pass) = turnstile();
    bus.watch_builder().spawn(move |delivery| pass(delivery.event().copied())).unwrap();
    bus.publisher().publish(1).unwrap();
    assert_eq!(turnstile.entered.recv_timeout(LONG), Ok(Some(1)));
    thread::scope(|scope| {
        let calls: Vec<_> = (0..3).map(|_| scope.spawn(|| bus.shutdown())).collect();
        // No shutdown can have returned: the handler is in the middle of its event.
        assert!(calls.iter().all(|call| !call.is_finished()));
        turnstile.go.send(()).unwrap();
        let reports: Vec<_> = calls.into_iter().map(|call| call.join().unwrap()).collect();
        assert!(reports[0].complete);
        assert_eq!(reports[0].bus.watchers[0].delivered, 1);
        assert!(reports.iter().all(|report| *report == reports[0]));
    });
    assert!(bus.shutdown().complete);
}

#[test]
fn after_the_end_everything_says_so() {
    let bus = bus(100, 100);
    let mut watcher = bus.watch().unwrap();
    let publisher = bus.publisher();
    publisher.publish(1).unwrap();
    assert!(!publisher.is_closed());
    bus.shutdown();
    assert!(publisher.is_closed());
    assert_eq!(publisher.publish(2).unwrap_err().into_inner(), 2);
    assert!(publisher.try_publish(2).unwrap_err().is_closed());
    assert!(matches!(bus.watch(), Err(WatchError::Closed)));
    assert!(matches!(bus.watch_builder().spawn(|_| ()), Err(WatchError::Closed)));
    assert_eq!(bus.flush(LONG), Ok(()));
    assert_eq!(watcher.recv(), Ok(Event(1)));
    assert_eq!(watcher.recv(), Err(RecvError));
    assert_eq!(watcher.try_recv(), Err(TryRecvError::Ended));
    assert!(watcher.recv_batch().is_err());
}

/// G8: a shutdown by deadline returns by the deadline and reports what it abandoned.
#[test]
fn a_shutdown_by_deadline_reports_what_it_abandoned() {
    let clock = FakeClock::new(SystemTime::UNIX_EPOCH).drive_the_end();
    let bus = Broadcaster::with_clock(BusOptions::default().queue_len(1), clock.clock()).unwrap();
    let mut held = hold(&bus);
    let mut other = bus.watch_builder().queue_len(100).watch().unwrap();
    bus.publisher().publish_batch(vec![1, 2, 3]).unwrap();
    let report = thread::scope(|scope| {
        let shutdown = scope.spawn(|| bus.shutdown_timeout(Duration::from_secs(1)));
        clock.wait_for_waiters(1);
        // The shutdown begins to abandon 50 ms before the deadline. The clock never reaches the
        // deadline, so the shutdown ends as soon as everything has been abandoned.
        clock.advance(Duration::from_millis(950));
        shutdown.join().unwrap()
    });
    assert!(!report.complete);
    // The watcher that nobody read lost all but the first. The other watcher lost nothing.
    let stats = &report.bus.watchers[0];
    assert_eq!((stats.offered, stats.queued, stats.dropped.abandoned), (5, 1, 4));
    assert_eq!(report.bus.watchers[1].queued, 3);
    assert_balanced(&report.bus);
    assert_eq!(bus.shutdown(), report);
    assert_eq!(drain(&mut held.watcher), [Event(u64::MAX - 1), Delivery::Lagged(4)]);
    assert_eq!(events(&drain(&mut other)), [1, 2, 3]);
}

/// A handler that does not return does not delay the deadline. When the handler returns at last, it
/// abandons its queue and does not learn what was lost behind that.
#[test]
fn a_stuck_handler_is_left_behind_at_the_deadline() {
    let clock = FakeClock::new(SystemTime::UNIX_EPOCH).drive_the_end();
    let bus = Broadcaster::with_clock(BusOptions::default().queue_len(3), clock.clock()).unwrap();
    let (turnstile, mut pass) = turnstile();
    let handle = bus.watch_builder().spawn(move |delivery| pass(delivery.event().copied())).unwrap();
    bus.publisher().publish_batch(vec![1, 2, 3, 4, 5]).unwrap();
    turnstile.entered.recv_timeout(LONG).unwrap();
    thread::scope(|scope| {
        let shutdown = scope.spawn(|| bus.shutdown_timeout(Duration::from_secs(5)));
        clock.wait_for_waiters(1);
        clock.advance(Duration::from_secs(5));
        let report = shutdown.join().unwrap();
        assert!(!report.complete);
        assert_eq!((report.bus.watchers[0].queued, report.bus.watchers[0].delivered), (3, 0));
    });
    assert!(!handle.join(Duration::ZERO));
    turnstile.go.send(()).unwrap();
    // The clock stands still, so only the handler's end can end this.
    assert!(handle.join(LONG));
    // Both ends may empty the queue of a watcher that is gone. Each counts what it took, the
    // dispatcher on its own thread.
    until(|| handle.stats().lag == 0);
    let stats = handle.stats();
    assert_eq!((stats.delivered, stats.dropped.abandoned, stats.queued), (1, 2, 0));
    assert_eq!((stats.dropped.incoming, turnstile.entered.try_recv().ok()), (2, None));
}

/// The end releases publishers that wait for room.
#[test]
fn blocked_publishers_are_released() {
    let bus = bus(1, 1);
    let held = hold(&bus);
    bus.publisher().publish(1).unwrap();
    thread::scope(|scope| {
        let publishers: Vec<_> = (0..4)
            .map(|n| {
                let publisher = bus.publisher();
                scope.spawn(move || publisher.publish(n))
            })
            .collect();
        bus.close();
        for publisher in publishers {
            assert!(publisher.join().unwrap().unwrap_err().is_closed());
        }
    });
    assert_eq!(bus.stats().rejected_closed, 4);
    drop(held);
    assert!(bus.shutdown().complete);
}

/// Dropping the bus closes it and waits for nobody, even if a watcher that nobody reads is on the
/// same stack.
#[test]
fn dropping_the_bus_waits_for_nobody() {
    let bus = bus(100, 1);
    let mut held = hold(&bus);
    let mut other = bus.watch_builder().queue_len(10).watch().unwrap();
    let publisher = bus.publisher();
    publisher.publish(1).unwrap();
    drop(bus);
    assert!(publisher.publish(2).unwrap_err().is_closed());
    // The dispatcher's thread still offers what was accepted.
    assert_eq!(drain(&mut held.watcher), [Event(u64::MAX - 1), Event(u64::MAX), Event(1)]);
    assert_eq!(events(&drain(&mut other)), [1]);
}

/// A test that panics while it holds a `Wait` watcher fails instead of hanging.
#[test]
fn a_panic_with_a_waiting_watcher_on_the_stack_unwinds() {
    let result = thread::spawn(|| {
        let bus = bus(100, 1);
        let _held = hold(&bus);
        panic!("as a failed assertion would");
    })
    .join();
    assert!(result.is_err());
}
