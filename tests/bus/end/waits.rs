//! Flushes and timeouts.

use std::sync::mpsc;
use std::thread;
use std::time::{Duration, SystemTime};

use eventcast::error::FlushError;
use eventcast::testing::FakeClock;
use eventcast::{Broadcaster, BusOptions};

use crate::support::{LONG, bus, events, hold, turnstile, until, watched};

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
    let clock = FakeClock::new(SystemTime::UNIX_EPOCH).drive_the_end();
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
    let clock = FakeClock::new(SystemTime::UNIX_EPOCH).drive_the_end();
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
