//! Stopping and dropping watchers and handlers.

use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use eventcast::Delivery::{self, Event};
use eventcast::WatchHandle;
use eventcast::error::RecvTimeoutError;

use crate::support::{
    AtDrop, LONG, Live, Loaded, Tracked, assert_balanced, assert_dropped, bus, bus_with, drain, hold,
    keeping, on_both, stopping_handler, timed, turnstile, waits, watched,
};

/// G11: after `stop`, the queued events can still be read, and then the watcher ends.
#[test]
fn a_stopped_watcher_keeps_its_queue_and_then_ends() {
    on_both(|options| {
        let bus = bus_with(options);
        let mut watcher = bus.watch().unwrap();
        bus.publisher().publish_batch([1, 2]).unwrap();
        bus.flush(LONG).unwrap();
        watcher.stop();
        watcher.handle().stop();
        bus.publisher().publish(3).unwrap();
        bus.flush(LONG).unwrap();
        assert_eq!(drain(&mut watcher), [Event(1), Event(2)]);
        assert_eq!(watcher.stats().offered, 2);
        assert!(bus.shutdown().complete);
    });
}

/// G11: a stop from another thread wakes a blocked reader.
#[test]
fn stop_wakes_a_waiting_reader() {
    on_both(|options| {
        let (clock, bus) = timed::<u64>(options);
        let mut watcher = bus.watch().unwrap();
        let stop = watcher.handle();
        let reader = thread::spawn(move || watcher.recv_timeout(LONG));
        clock.wait_for_waiters(1);
        stop.stop();
        assert_eq!(reader.join().unwrap(), Err(RecvTimeoutError::Ended));
    });
}

/// If the program itself reads a watcher, a join on the watcher's handle waits until the watcher is
/// dropped, not until it is stopped.
#[test]
fn a_join_on_a_watcher_waits_until_the_watcher_is_dropped() {
    on_both(|options| {
        let bus = bus_with::<u64>(options);
        let watcher = bus.watch().unwrap();
        let handle = watcher.handle();
        bus.publisher().publish(1).unwrap();
        bus.flush(LONG).unwrap();
        handle.stop();
        assert!(!handle.join(Duration::ZERO));
        thread::scope(|scope| {
            let joining = scope.spawn(|| handle.join(LONG));
            drop(watcher);
            assert!(joining.join().unwrap());
        });
        assert_eq!((handle.stats().offered, handle.stats().dropped.stopped), (1, 1));
    });
}

/// G11: on an idle bus, a dropped watcher and its events are freed without waiting for the next
/// event.
#[test]
fn watchers_that_are_dropped_on_an_idle_bus_leave_nothing() {
    let live = Live::default();
    let bus = bus(100, 100);
    // Under Miri, each watcher takes a long time.
    let watchers = if cfg!(miri) { 200 } else { 2_000_u64 };
    for n in 0..watchers {
        let (in_filter, gone) = mpsc::channel();
        let watcher = bus.watch_builder().filter(keeping::<Tracked>(in_filter)).watch().unwrap();
        if n % 100 == 0 {
            bus.publisher().publish(live.event(n)).unwrap();
            bus.flush(LONG).unwrap();
        }
        drop(watcher);
        assert_dropped(&gone);
    }
    bus.flush(LONG).unwrap();
    assert_eq!(live.count(), 0);
    assert!(bus.stats().watchers.is_empty());
    assert_eq!(bus.stats().departed.dropped.stopped, watchers / 100);
}

/// A handler counts as ended only after its closure has been dropped, so anything that the closure
/// owns (such as a buffered file) is complete by then.
#[test]
fn a_handler_has_ended_when_its_closure_is_gone() {
    on_both(|options| {
        let bus = bus_with::<u64>(options);
        let (turnstile, mut pass) = turnstile();
        let guard = AtDrop(move || pass(()));
        let handler = move |_: Delivery<&u64>| {
            let _ = &guard;
        };
        let handle = bus.watch_builder().spawn(handler).unwrap();
        handle.stop();
        turnstile.wait_for(());
        let ended = handle.join(Duration::ZERO);
        turnstile.let_one_pass();
        assert!(!ended, "the handler had ended while its closure was still being dropped");
        assert!(handle.join(LONG));
    });
}

/// Dropping a watcher first releases the dispatcher that waits for the watcher, and only then runs
/// the events' destructors. These destructors may take a long time, or may need the bus to make
/// progress.
#[test]
fn a_dropped_watcher_releases_the_dispatcher_before_its_events() {
    watched(|| {
        let bus = bus(100, 100);
        let waited = waits(&bus, 1).watch().unwrap();
        let mut other = bus.watch().unwrap();
        let mut receive = || other.recv().unwrap().event().map(|event: Loaded| event.number);
        let (turnstile, mut pass) = turnstile();
        bus.publisher().publish(Loaded::with(1, move || pass(()))).unwrap();
        assert_eq!(receive(), Some(1));
        // The dispatcher holds the second event and waits for capacity in the first watcher's
        // queue.
        bus.publisher().publish(Loaded::plain(2)).unwrap();
        assert_eq!(receive(), Some(2));
        bus.publisher().publish(Loaded::plain(3)).unwrap();
        let dropping = thread::spawn(move || drop(waited));
        turnstile.wait_for(());
        // If the dispatcher still waited for the watcher that is being dropped, this test would
        // hang.
        assert_eq!(receive(), Some(3));
        turnstile.let_one_pass();
        dropping.join().unwrap();
    });
}

/// Dropping a handler's handle leaves the handler running, `stop` lets the handler finish its
/// queue, and `join` waits for the handler without stopping it.
#[test]
fn join_waits_for_the_handler_and_does_not_stop_it() {
    on_both(|options| {
        let bus = bus_with(options);
        let (left, _) = stopping_handler(bus.watch_builder());
        let (turnstile, handle) = stopping_handler(bus.watch_builder());
        bus.publisher().publish_batch([1, 2]).unwrap();
        turnstile.wait_for(Some(1));
        assert!(!handle.join(Duration::ZERO), "the handler is in the middle of an event");
        turnstile.let_one_pass();
        turnstile.wait_for(Some(2));
        handle.stop();
        assert!(!handle.join(Duration::ZERO));
        turnstile.let_one_pass();
        assert!(handle.join(Duration::MAX));
        assert!(handle.clone().join(Duration::ZERO), "the handler has ended");
        bus.publisher().publish(3).unwrap();
        for event in [1, 2, 3] {
            left.wait_for(Some(event));
            left.let_one_pass();
        }
        assert!(bus.shutdown().complete);
        assert_eq!(handle.stats().delivered, 2);
    });
}

/// G11: stopping or dropping a watcher releases a dispatcher that waits for that watcher, and the
/// events that the watcher loses are counted.
#[test]
fn stop_and_drop_release_a_dispatcher_that_waits_for_them() {
    for drops in [false, true] {
        let bus = bus(100, 1);
        let held = hold(&bus);
        let mut other = bus.watch_builder().queue_capacity(10).watch().unwrap();
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

/// If a handler joins itself or another handler of its bus, the join does not wait.
#[test]
fn join_does_not_wait_on_a_thread_of_the_bus() {
    watched(|| {
        let bus = bus::<u64>(10, 10);
        let (give, take) = mpsc::channel::<WatchHandle>();
        let (tx, joined) = mpsc::channel();
        let other = bus.watch_builder().spawn(|_| ()).unwrap();
        let own = bus.watch_builder().spawn(move |_| {
            tx.send(take.iter().map(|handle| handle.join(LONG)).collect::<Vec<_>>()).unwrap();
        });
        give.send(own.unwrap()).unwrap();
        give.send(other.clone()).unwrap();
        drop(give);
        bus.publisher().publish(1).unwrap();
        assert_eq!(joined.recv_timeout(LONG / 2), Ok(vec![false, false]));
        assert!(bus.shutdown().complete);
        assert!(other.join(Duration::ZERO));
    });
}
