//! Flushes: which handlers a flush waits for, and how it ends.

use std::pin::pin;
use std::sync::mpsc;
use std::task::Poll;
use std::thread;
use std::time::Duration;

use eventcast::Delivery::Event;
use eventcast::error::FlushError;
use eventcast::{Broadcaster, Delivery, Watcher};
use futures::FutureExt;

use crate::support::{
    Ear, LONG, assert_balanced, bus, bus_with, hold, inline, named_by_a_flush, on_both, stopping_handler,
    timed, turnstile, waits, watched,
};

/// A flush waits for handlers, and names the handlers that are late. A flush does not wait for
/// watchers that the caller reads.
#[test]
fn flush_waits_for_handlers_and_names_the_late() {
    on_both(|options| {
        let bus = bus_with(options);
        let _unread = bus.watch().unwrap();
        let (turnstile, _) = stopping_handler(bus.watch_builder().name("late"));
        let (handled_tx, handled) = mpsc::channel();
        let quick = move |delivery: Delivery<&u64>| handled_tx.send(delivery.event().copied()).unwrap();
        bus.watch_builder().name("quick").spawn(quick).unwrap();
        assert_eq!(bus.flush(LONG), Ok(()));
        bus.publisher().publish_batch([1, 2]).unwrap();
        for event in [1, 2] {
            turnstile.wait_for(Some(event));
            assert_eq!(handled.recv_timeout(LONG), Ok(Some(event)));
            let error = bus.flush(Duration::ZERO).unwrap_err();
            assert!(error.to_string().starts_with("the flush timed out"), "{error}");
            assert!(named_by_a_flush(&bus).contains(&"late".to_owned()));
            turnstile.let_one_pass();
        }
        assert_eq!(bus.flush(LONG), Ok(()));
        assert!(bus.shutdown().complete);
    });
}

/// A flush returns at its deadline, measured on the bus's clock.
#[test]
fn a_flush_returns_at_its_deadline() {
    on_both(|options| {
        let (clock, bus) = timed(options);
        let (turnstile, _) = stopping_handler(bus.watch_builder().name("late"));
        bus.publisher().publish(1).unwrap();
        turnstile.wait_for(Some(1));
        thread::scope(|scope| {
            let flushing = scope.spawn(|| bus.flush(Duration::from_secs(1)));
            clock.wait_for_waiters(1);
            clock.advance(Duration::from_secs(1));
            assert!(matches!(flushing.join().unwrap(), Err(FlushError::Timeout { .. })));
        });
        drop(turnstile);
        assert!(bus.shutdown().complete);
    });
}

/// On an inline bus, a flush does not wait for watchers that the caller reads, however short the
/// timeout is.
#[test]
fn a_flush_does_not_wait_for_readers() {
    let bus = inline(1);
    let _unread = [bus.watch().unwrap(), waits(&bus, 1).watch().unwrap()];
    bus.publisher().publish(1).unwrap();
    assert_eq!(bus.flush(Duration::ZERO), Ok(()));
    assert_eq!(bus.flush(LONG), Ok(()));
    assert_eq!(bus.flush_async(LONG).now_or_never(), Some(Ok(())));
}

#[test]
fn an_abandoned_flush_is_an_error() {
    let bus = bus(100, 1);
    let _held = hold(&bus);
    thread::scope(|scope| {
        let flush = scope.spawn(|| bus.flush(LONG));
        assert!(!bus.shutdown_timeout(Duration::from_millis(20)).complete);
        assert_eq!(flush.join().unwrap(), Err(FlushError::Abandoned));
    });
    assert_eq!(bus.flush(LONG), Err(FlushError::Abandoned));
}

/// If a flush is waiting for a handler when the handler ends at the deadline, the flush is reported
/// as abandoned, although there is no handler left to wait for.
#[test]
fn a_flush_whose_handler_was_abandoned_is_abandoned() {
    on_both(|options| {
        let bus = bus_with(options);
        let mut seen = bus.watch().unwrap();
        let (turnstile, handler) = stopping_handler(bus.watch_builder());
        bus.publisher().publish_batch([1, 2, 3]).unwrap();
        turnstile.wait_for(Some(1));
        let (mut flush, ear) = (pin!(bus.flush_async(10 * LONG)), Ear::new());
        assert_eq!(ear.poll(flush.as_mut()), Poll::Pending);
        reach_the_flush(&bus, &mut seen);
        assert!(!bus.shutdown_timeout(Duration::ZERO).complete);
        drop(turnstile);
        assert!(handler.join(LONG));
        assert_eq!(handler.stats().delivered, 1);
        assert_eq!(ear.poll(flush), Poll::Ready(Err(FlushError::Abandoned)));
    });
}

/// Publishes event 4, and receives it after three other events. By then the dispatcher has reached
/// every entry before event 4, including a flush.
fn reach_the_flush(bus: &Broadcaster<u64>, seen: &mut Watcher<u64>) {
    bus.publisher().publish(4).unwrap();
    for number in 1..=4 {
        assert_eq!(seen.recv_timeout(LONG), Ok(Event(number)));
    }
}

/// If a flush is waiting for a handler, and the handler panics or is stopped, the flush ends even
/// if the handler leaves events unhandled.
#[test]
fn a_flush_ends_with_a_handler_that_leaves_events() {
    on_both(|options| {
        for panics in [true, false] {
            let bus = bus_with(options.clone());
            let mut seen = bus.watch().unwrap();
            let (turnstile, mut pass) = turnstile();
            let handle = move |delivery: Delivery<&u64>| {
                pass(delivery.event().copied());
                assert!(!panics, "the handler ends here");
            };
            let handler = bus.watch_builder().stop_on_panic(true).spawn(handle).unwrap();
            bus.publisher().publish_batch([1, 2, 3]).unwrap();
            turnstile.wait_for(Some(1));
            // If the flush hangs, the test fails before this deadline.
            let (mut flush, ear) = (pin!(bus.flush_async(10 * LONG)), Ear::new());
            assert_eq!(ear.poll(flush.as_mut()), Poll::Pending);
            reach_the_flush(&bus, &mut seen);
            assert_eq!(
                ear.poll(flush.as_mut()),
                Poll::Pending,
                "the handler is still processing its first event"
            );
            if !panics {
                handler.stop();
            }
            drop(turnstile);
            assert_eq!(ear.finish(flush), Ok(()), "panics: {panics}");
            assert!(handler.join(LONG));
            let stats = handler.stats();
            assert_eq!((stats.delivered, stats.panics), if panics { (1, 1) } else { (4, 0) }, "{stats}");
            assert_eq!(bus.flush(LONG), Ok(()));
        }
    });
}

/// If a task flushes an inline bus, the task is woken when the handler has handled the events
/// published before the flush. The task does not wait for events published after the flush began.
#[test]
fn a_flushing_task_is_woken_by_the_handler() {
    watched(|| {
        let bus = inline(10);
        let (turnstile, handle) = stopping_handler(bus.watch_builder());
        bus.publisher().publish(1).unwrap();
        turnstile.wait_for(Some(1));
        let (mut flushing, ear) = (Box::pin(bus.flush_async(10 * LONG)), Ear::new());
        assert!(ear.poll(flushing.as_mut()).is_pending());
        bus.publisher().publish(2).unwrap();
        turnstile.let_one_pass();
        turnstile.wait_for(Some(2));
        assert_eq!(ear.finish(flushing.as_mut()), Ok(()));
        assert_eq!(handle.stats().delivered, 1, "the second event is still being handled");
        drop(turnstile);
        assert!(bus.shutdown().complete);
    });
}

/// A flush stops waiting for a runner when the runner is dropped without having been run.
#[test]
fn a_runner_that_is_dropped_is_not_waited_for() {
    on_both(|options| {
        let bus = bus_with(options);
        let runner = bus.watch_builder().name("idle").runner(|_: Delivery<&u64>| ()).unwrap();
        bus.publisher().publish(1).unwrap();
        assert_eq!(named_by_a_flush(&bus), ["idle"]);
        drop(runner);
        assert_eq!(bus.flush(LONG), Ok(()));
        assert!(bus.shutdown().complete);
        assert_balanced(&bus.stats());
        assert_eq!((bus.stats().departed.delivered, bus.stats().departed.dropped.stopped), (0, 1));
    });
}

/// If the dispatcher cannot reach a flush, the flush names the watcher that blocks the dispatcher.
#[test]
fn flush_names_the_watcher_that_holds_the_dispatcher() {
    let bus = bus(100, 1);
    let held = hold(&bus);
    assert_eq!(named_by_a_flush(&bus), ["held"]);
    drop(held);
    assert_eq!(bus.flush(LONG), Ok(()));
}

/// If a flush is in progress when the bus is shut down, the flush ends with the bus.
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
