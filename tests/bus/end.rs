//! G3, G8, G11: what shutdown, close, drop and stop promise.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use eventcast::Delivery::Event;
use eventcast::error::{FlushError, RecvError, TryRecvError, WatchError};
use eventcast::testing::FakeClock;
use eventcast::{Broadcaster, BusOptions, Delivery, OverflowPolicy};

use crate::support::{
    LONG, Live, Tracked, assert_balanced, bus, drain, events, hold, turnstile, until, watched,
};

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
                                    assert!(error.is_stopped());
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
    assert!(publisher.try_publish(2).unwrap_err().is_stopped());
    assert!(matches!(bus.watch(), Err(WatchError::Stopped)));
    assert!(matches!(bus.watch_builder().spawn(|_| ()), Err(WatchError::Stopped)));
    assert_eq!(bus.flush(LONG), Ok(()));
    assert_eq!(watcher.recv(), Ok(Event(1)));
    assert_eq!(watcher.recv(), Err(RecvError));
    assert_eq!(watcher.try_recv(), Err(TryRecvError::Stopped));
    assert!(watcher.recv_batch().is_err());
}

/// G8: a shutdown by deadline returns by the deadline and reports what it abandoned.
#[test]
fn a_shutdown_by_deadline_reports_what_it_abandoned() {
    let clock = FakeClock::new(SystemTime::UNIX_EPOCH);
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
    let clock = FakeClock::new(SystemTime::UNIX_EPOCH);
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
            assert!(publisher.join().unwrap().unwrap_err().is_stopped());
        }
    });
    assert_eq!(bus.stats().rejected_stopped, 4);
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
    assert!(publisher.publish(2).unwrap_err().is_stopped());
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

/// G11: after `stop` the queued events stay readable, then the end comes.
#[test]
fn a_stopped_watcher_keeps_its_queue_and_then_ends() {
    let bus = bus(100, 100);
    let mut watcher = bus.watch().unwrap();
    bus.publisher().publish_batch(vec![1, 2]).unwrap();
    bus.flush(LONG).unwrap();
    watcher.stop();
    watcher.stop_handle().stop();
    bus.publisher().publish(3).unwrap();
    bus.flush(LONG).unwrap();
    assert_eq!(drain(&mut watcher), [Event(1), Event(2)]);
    assert_eq!(watcher.stats().offered, 2);
    assert!(bus.shutdown().complete);
}

/// G11: a stop from another thread wakes a reader that waits.
#[test]
fn stop_wakes_a_waiting_reader() {
    let bus = bus::<u64>(10, 10);
    let mut watcher = bus.watch().unwrap();
    let stop = watcher.stop_handle();
    let reader = thread::spawn(move || watcher.recv());
    stop.stop();
    assert_eq!(reader.join().unwrap(), Err(RecvError));
}

/// G11: stop and drop release a dispatcher that waits for exactly that watcher, and the events that
/// it loses are counted.
#[test]
fn stop_and_drop_release_a_dispatcher_that_waits_for_them() {
    for drops in [false, true] {
        let bus = bus(100, 1);
        let held = hold(&bus);
        let mut other = bus.watch_builder().queue_len(10).watch().unwrap();
        bus.publisher().publish(1).unwrap();
        if drops {
            drop(held);
        } else {
            held.watcher.stop();
        }
        assert_eq!(other.recv(), Ok(Event(1)));
        let report = bus.shutdown();
        assert!(report.complete);
        assert_balanced(&report.bus);
        if drops {
            let departed = &report.bus.departed;
            assert_eq!((departed.offered, departed.dropped.stopped), (2, 2));
        } else {
            let stats = &report.bus.watchers[0];
            assert_eq!((stats.offered, stats.dropped.stopped, stats.queued), (2, 1, 1));
        }
    }
}

/// G11: on an idle bus a dropped watcher and its events are freed without waiting for the next
/// event.
#[test]
fn watchers_that_come_and_go_on_an_idle_bus_leave_nothing() {
    /// Reports when the dispatcher has dropped a watcher's filter.
    struct Says(mpsc::Sender<()>);
    impl Drop for Says {
        fn drop(&mut self) {
            let _ = self.0.send(());
        }
    }
    let live = Live::default();
    let bus = bus(100, 100);
    let (gone_tx, gone) = mpsc::channel();
    // Miri takes long for each watcher.
    let watchers = if cfg!(miri) { 200 } else { 2_000_u64 };
    for n in 0..watchers {
        let says = Says(gone_tx.clone());
        let watcher = bus
            .watch_builder()
            .filter(move |_: &Tracked| {
                let _ = &says;
                true
            })
            .watch()
            .unwrap();
        if n % 100 == 0 {
            bus.publisher().publish(live.event(n)).unwrap();
            bus.flush(LONG).unwrap();
        }
        drop(watcher);
        gone.recv_timeout(LONG).expect("the dispatcher must let go without another event");
    }
    bus.flush(LONG).unwrap();
    assert_eq!(live.count(), 0);
    assert!(bus.stats().watchers.is_empty());
    assert_eq!(bus.stats().departed.dropped.stopped, watchers / 100);
}

/// A handle that is dropped leaves its handler running. `stop` and `join` end the handler.
#[test]
fn a_dropped_handle_leaves_the_handler_running() {
    let seen = Arc::new(AtomicU64::new(0));
    let bus = bus::<u64>(100, 100);
    let count = |to: &Arc<AtomicU64>| {
        let to = to.clone();
        move |delivery: Delivery<&u64>| {
            if let Event(n) = delivery {
                to.fetch_add(*n, Ordering::SeqCst);
            }
        }
    };
    drop(bus.watch_builder().spawn(count(&seen)).unwrap());
    let stopped = bus.watch_builder().name("stopped").spawn(count(&seen)).unwrap();
    bus.publisher().publish(1).unwrap();
    bus.flush(LONG).unwrap();
    assert_eq!(seen.load(Ordering::SeqCst), 2);
    stopped.stop();
    assert!(stopped.join(LONG));
    bus.publisher().publish(10).unwrap();
    bus.shutdown();
    assert_eq!(seen.load(Ordering::SeqCst), 12);
    assert_eq!(stopped.stats().delivered, 1);
}

/// Returns the names that the first flush reports that reports any. Before the dispatcher has come
/// to a flush, or to its wait for a watcher, there is no name to report.
fn named_by_a_flush(bus: &Broadcaster<u64>) -> Vec<String> {
    let mut named = Vec::new();
    until(|| match bus.flush(Duration::from_millis(1)).unwrap_err() {
        FlushError::Timeout { waiting_for, .. } => {
            named = waiting_for;
            !named.is_empty()
        }
        error => panic!("{error}"),
    });
    named
}

/// A flush waits for handlers, names those that are late, and does not wait for watchers that the
/// caller reads.
#[test]
fn flush_waits_for_handlers_and_names_the_late() {
    let bus = bus(100, 100);
    let _unread = bus.watch().unwrap();
    let (turnstile, mut pass) = turnstile();
    bus.watch_builder().name("late").spawn(move |delivery| pass(delivery.event().copied())).unwrap();
    assert_eq!(bus.flush(LONG), Ok(()));
    bus.publisher().publish(1).unwrap();
    turnstile.entered.recv_timeout(LONG).unwrap();
    let error = bus.flush(Duration::ZERO).unwrap_err();
    assert!(error.to_string().starts_with("not flushed in time"), "{error}");
    assert_eq!(named_by_a_flush(&bus), ["late"]);
    turnstile.go.send(()).unwrap();
    assert_eq!(bus.flush(LONG), Ok(()));
}

/// A flush that the dispatcher cannot come to names the watcher that holds up the dispatcher.
#[test]
fn flush_names_the_watcher_that_holds_the_dispatcher() {
    let bus = bus(100, 1);
    let held = hold(&bus);
    assert_eq!(named_by_a_flush(&bus), ["held"]);
    drop(held);
    assert_eq!(bus.flush(LONG), Ok(()));
}

/// A flush that is under way when the bus is shut down ends with the bus.
#[test]
fn a_flush_during_shutdown_ends_with_it() {
    let bus = bus(100, 1);
    let held = hold(&bus);
    thread::scope(|scope| {
        let flush = scope.spawn(|| bus.flush(LONG));
        let shutdown = scope.spawn(|| bus.shutdown());
        drop(held);
        assert_eq!(flush.join().unwrap(), Ok(()));
        assert!(shutdown.join().unwrap().complete);
    });
}

/// A flush that a deadline abandoned reports it.
#[test]
fn an_abandoned_flush_says_so() {
    let bus = bus(100, 1);
    let _held = hold(&bus);
    thread::scope(|scope| {
        let flush = scope.spawn(|| bus.flush(LONG));
        assert!(!bus.shutdown_timeout(Duration::from_millis(20)).complete);
        assert_eq!(flush.join().unwrap(), Err(FlushError::Abandoned));
    });
    assert_eq!(bus.flush(LONG), Err(FlushError::Abandoned));
}

/// Receiving by a deadline runs on the bus's clock.
#[test]
fn recv_timeout_runs_on_the_clock() {
    let clock = FakeClock::new(SystemTime::UNIX_EPOCH);
    let bus = Broadcaster::<u64>::with_clock(BusOptions::default(), clock.clock()).unwrap();
    let mut watcher = bus.watch().unwrap();
    thread::scope(|scope| {
        let reader = scope.spawn(|| watcher.recv_timeout(Duration::from_secs(3600)));
        clock.wait_for_waiters(1);
        clock.advance(Duration::from_secs(3600));
        assert_eq!(reader.join().unwrap(), Err(eventcast::error::RecvTimeoutError::Timeout));
    });
    assert!(watcher.recv_batch_timeout(Duration::ZERO).is_err());
}

/// A publisher that waits with a timeout gets its event back when time is up, and loses nothing if
/// room comes first.
#[test]
fn publish_timeout_runs_on_the_clock() {
    let clock = FakeClock::new(SystemTime::UNIX_EPOCH);
    let options = BusOptions::default().incoming_len(1).queue_len(1);
    let bus = Broadcaster::with_clock(options, clock.clock()).unwrap();
    let mut held = hold(&bus);
    let publisher = bus.publisher();
    publisher.publish(1).unwrap();
    thread::scope(|scope| {
        let waiting = scope.spawn(|| publisher.publish_timeout(2, Duration::from_secs(1)));
        clock.wait_for_waiters(1);
        clock.advance(Duration::from_secs(1));
        let error = waiting.join().unwrap().unwrap_err();
        assert!(error.is_full());
        assert_eq!(error.into_inner(), 2);
        let waiting = scope.spawn(|| publisher.publish_timeout(3, Duration::from_secs(1)));
        clock.wait_for_waiters(1);
        let reader = scope.spawn(|| (0..4).map(|_| held.watcher.recv().unwrap()).collect::<Vec<_>>());
        assert_eq!(waiting.join().unwrap(), Ok(()));
        assert_eq!(events(&reader.join().unwrap()), [u64::MAX - 1, u64::MAX, 1, 3]);
    });
}

/// The longest spin that the options allow, so that the test notices a thread that spins to the end
/// of it.
const SPIN: Duration = Duration::from_secs(1);

/// A reader that spins instead of sleeping keeps its deadline too.
#[test]
fn a_receive_that_spins_keeps_its_deadline() {
    let bus = Broadcaster::<u64>::with_options(BusOptions::default().spin(SPIN)).unwrap();
    let mut watcher = bus.watch().unwrap();
    for timeout in [Duration::ZERO, Duration::from_millis(1)] {
        let start = Instant::now();
        assert_eq!(watcher.recv_timeout(timeout), Err(eventcast::error::RecvTimeoutError::Timeout));
        assert!(watcher.recv_batch_timeout(timeout).is_err());
        let took = start.elapsed();
        assert!(took >= 2 * timeout && took < SPIN, "two receives of {timeout:?} took {took:?}");
    }
}

/// The same for the dispatcher: while it spins, it notices the end of the bus and watchers that
/// have stopped.
#[test]
fn a_dispatcher_that_spins_looks_at_the_end() {
    let bus = Broadcaster::<u64>::with_options(BusOptions::default().spin(SPIN)).unwrap();
    let dropped = bus.watch().unwrap();
    bus.publisher().publish(1).unwrap();
    let start = Instant::now();
    bus.flush(LONG).unwrap();
    drop(dropped);
    until(|| bus.stats().watchers.is_empty());
    let handled = bus.watch_builder().spawn(|_| ()).unwrap();
    bus.publisher().publish(2).unwrap();
    bus.flush(LONG).unwrap();
    let report = bus.shutdown_timeout(SPIN);
    let took = start.elapsed();
    assert!(took < SPIN, "nothing was outstanding, and the end took {took:?}");
    assert!(report.complete, "{report}");
    assert_eq!(handled.stats().delivered, 1);
}

/// A destructor that waits until a reader has seen the end.
struct WaitsFor(mpsc::Receiver<()>);

impl Drop for WaitsFor {
    fn drop(&mut self) {
        let _ = self.0.recv();
    }
}

/// The end reaches every reader before any destructor of the user's runs, because such a destructor
/// may wait for a reader.
#[test]
fn a_destructor_at_the_end_holds_up_no_reader() {
    watched(|| {
        let bus = bus::<u64>(4, 4);
        let (ended, sees_the_end) = mpsc::channel();
        let waits = WaitsFor(sees_the_end);
        let first = bus.watch_builder().filter(move |_| waits.0.try_recv().is_err()).watch().unwrap();
        let mut second = bus.watch().unwrap();
        let reading = thread::spawn(move || {
            while second.recv().is_ok() {}
            ended.send(()).unwrap();
        });
        bus.publisher().publish(1).unwrap();
        assert!(bus.shutdown().complete);
        reading.join().unwrap();
        drop(first);
    });
}
