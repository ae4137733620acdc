//! A flush of a bus without a thread waits for handlers alone.

use std::sync::mpsc;
use std::task::Poll;
use std::thread;
use std::time::Duration;

use eventcast::Delivery;
use eventcast::error::FlushError;
use futures::FutureExt;

use crate::support::{LONG, reporting_waker, turnstile, watched};

use super::support::{inline, options, poll, timed, waits};

fn names(result: Result<(), FlushError>) -> Vec<String> {
    match result {
        Err(FlushError::Timeout { waiting_for, .. }) => waiting_for,
        other => panic!("{other:?}"),
    }
}

/// Watchers that the caller reads are not waited for, whatever is in their queues.
#[test]
fn a_flush_does_not_wait_for_readers() {
    let bus = inline(1);
    let _unread = [bus.watch().unwrap(), waits(&bus, 1).watch().unwrap()];
    bus.publisher().publish(1).unwrap();
    assert_eq!(bus.flush(Duration::ZERO), Ok(()));
    assert_eq!(bus.flush(LONG), Ok(()));
    assert_eq!(bus.flush_async(LONG).now_or_never(), Some(Ok(())));
}

/// A flush waits until the handlers have handled what was published, and names those that are
/// late.
#[test]
fn a_flush_waits_for_handlers_and_names_the_late() {
    watched(|| {
        let bus = inline(10);
        let (turnstile, mut pass) = turnstile();
        bus.watch_builder().name("late").spawn(move |delivery| pass(delivery.event().copied())).unwrap();
        let (handled_tx, handled) = mpsc::channel();
        let quick = move |delivery: Delivery<&u64>| handled_tx.send(delivery.event().copied()).unwrap();
        bus.watch_builder().name("quick").spawn(quick).unwrap();
        assert_eq!(bus.flush(Duration::ZERO), Ok(()));
        bus.publisher().publish_batch([1, 2]).unwrap();
        assert_eq!(turnstile.entered.recv_timeout(LONG), Ok(Some(1)));
        assert_eq!([(); 2].map(|()| handled.recv_timeout(LONG)), [Ok(Some(1)), Ok(Some(2))]);
        assert!(names(bus.flush(Duration::ZERO)).contains(&"late".to_owned()));
        turnstile.go.send(()).unwrap();
        assert_eq!(turnstile.entered.recv_timeout(LONG), Ok(Some(2)));
        assert!(names(bus.flush(Duration::ZERO)).contains(&"late".to_owned()));
        thread::scope(|scope| {
            let flushing = scope.spawn(|| bus.flush(LONG));
            drop(turnstile);
            assert_eq!(flushing.join().unwrap(), Ok(()));
        });
        assert!(bus.shutdown().complete);
    });
}

/// The deadline of a flush is by the clock.
#[test]
fn a_flush_returns_at_its_deadline() {
    watched(|| {
        let (clock, bus) = timed(options(10));
        let (turnstile, mut pass) = turnstile();
        bus.watch_builder().name("late").spawn(move |delivery| pass(delivery.event().copied())).unwrap();
        bus.publisher().publish(1).unwrap();
        assert_eq!(turnstile.entered.recv_timeout(LONG), Ok(Some(1)));
        thread::scope(|scope| {
            let flushing = scope.spawn(|| bus.flush(Duration::from_secs(1)));
            clock.wait_for_waiters(1);
            clock.advance(Duration::from_secs(1));
            assert_eq!(names(flushing.join().unwrap()), ["late"]);
        });
        drop(turnstile);
        assert!(bus.shutdown().complete);
    });
}

/// A task that flushes is woken by the handler that finishes.
#[test]
fn a_flushing_task_is_woken_by_the_handler() {
    watched(|| {
        let bus = inline(10);
        let (turnstile, mut pass) = turnstile();
        let handle = bus.watch_builder().spawn(move |delivery| pass(delivery.event().copied())).unwrap();
        bus.publisher().publish(1).unwrap();
        assert_eq!(turnstile.entered.recv_timeout(LONG), Ok(Some(1)));
        let (waker, woken) = reporting_waker();
        let mut flushing = Box::pin(bus.flush_async(10 * LONG));
        assert!(poll(flushing.as_mut(), &waker).is_pending());
        // What is published after the flush began is not waited for.
        bus.publisher().publish(2).unwrap();
        turnstile.go.send(()).unwrap();
        assert_eq!(turnstile.entered.recv_timeout(LONG), Ok(Some(2)));
        let flushed = loop {
            woken.recv_timeout(LONG).expect("the task is not woken");
            if let Poll::Ready(flushed) = poll(flushing.as_mut(), &waker) {
                break flushed;
            }
        };
        assert_eq!(flushed, Ok(()));
        assert_eq!(handle.stats().delivered, 1, "the second event is still being handled");
        drop(turnstile);
        assert!(bus.shutdown().complete);
    });
}

/// A handler that ends, by a panic or a stop, is waited for no longer.
#[test]
fn a_flush_ends_with_the_handler_that_it_waits_for() {
    for panics in [false, true] {
        watched(move || {
            let bus = inline(10);
            let (turnstile, mut pass) = turnstile();
            let handler = move |delivery: Delivery<&u64>| {
                pass(delivery.event().copied());
                assert!(!panics, "the handler ends here");
            };
            let handle = bus.watch_builder().stop_on_panic(true).spawn(handler).unwrap();
            bus.publisher().publish_batch([1, 2, 3]).unwrap();
            assert_eq!(turnstile.entered.recv_timeout(LONG), Ok(Some(1)));
            thread::scope(|scope| {
                let flushing = scope.spawn(|| bus.flush(LONG));
                if !panics {
                    handle.stop();
                }
                drop(turnstile);
                assert_eq!(flushing.join().unwrap(), Ok(()));
            });
            assert!(handle.join(LONG));
            assert_eq!(handle.stats().lag, 0);
        });
    }
}

/// A runner that is dropped without having run is not waited for.
#[test]
fn a_dropped_runner_is_not_waited_for() {
    watched(|| {
        let bus = inline(10);
        let runner = bus.watch_builder().name("idle").runner(|_: Delivery<&u64>| ()).unwrap();
        bus.publisher().publish(1).unwrap();
        assert_eq!(names(bus.flush(Duration::ZERO)), ["idle"]);
        drop(runner);
        assert_eq!(bus.flush(LONG), Ok(()));
        assert!(bus.shutdown().complete);
        assert_eq!(bus.stats().departed.dropped.stopped, 1);
    });
}
