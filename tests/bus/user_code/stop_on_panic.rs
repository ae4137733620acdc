//! Handlers that stop when they panic.

use eventcast::Delivery::Event;
use eventcast::OverflowPolicy::{DropIncoming, DropOldest, Wait};
use eventcast::{Delivery, WatchOptions};
use futures::executor::block_on;

use crate::support::{LONG, assert_balanced, bus, bus_with, on_both, turnstile, until};

/// When the handler stops, its queued events are lost, the handler no longer delays the dispatcher,
/// and other watchers are not affected.
#[test]
fn a_handler_that_is_to_stop_takes_its_queue_with_it() {
    for policy in [DropIncoming, DropOldest, Wait] {
        let bus = bus(100, 10);
        let (turnstile, mut pass) = turnstile();
        let handler = move |delivery: Delivery<&u64>| {
            pass(delivery.event().copied());
            assert_ne!(delivery, Event(&2), "the second event");
        };
        let stopping = bus.watch_builder().name("stopping").overflow(policy).stop_on_panic(true);
        let stopping = stopping.spawn(handler).unwrap();
        let other = bus.watch_builder().name("other").queue_capacity(100).spawn(|_| ()).unwrap();
        bus.publisher().publish_batch(1..=10).unwrap();
        for number in [1, 2] {
            turnstile.wait_for(Some(number));
            turnstile.let_one_pass();
        }
        assert!(stopping.join(LONG), "{policy}");
        // The dispatcher may still be offering the rest of the batch, and counts the events for
        // which there is no longer a handler.
        bus.flush(LONG).unwrap();
        let stats = stopping.stats();
        assert_eq!((stats.offered, stats.delivered, stats.dropped.stopped), (10, 2, 8), "{policy}");
        assert_eq!((stats.queued, stats.lag, stats.panics), (0, 0, 1), "{policy}");

        bus.publisher().publish(100).unwrap();
        bus.flush(LONG).unwrap();
        assert_eq!(stopping.stats().offered, 10, "{policy}: nothing more is offered");
        assert_eq!((other.stats().delivered, other.stats().panics), (11, 0), "{policy}");
        let report = bus.shutdown();
        assert!(report.complete, "{policy}");
        assert_balanced(&report.bus);
        // The watcher has departed or has ended with the bus, depending on when the dispatcher
        // reached it.
        let all = report.bus.watchers.iter().chain([&report.bus.departed]);
        assert_eq!(all.map(|watcher| watcher.dropped.stopped).sum::<u64>(), 8, "{policy}");
    }
}

/// If the dispatcher is waiting for capacity in a handler's queue when the handler stops, the
/// dispatcher continues. The events that the dispatcher held for the handler count as lost because
/// the handler stopped.
#[test]
fn a_dispatcher_that_waits_for_a_handler_that_stops_continues() {
    let bus = bus(100, 1);
    let (turnstile, mut pass) = turnstile();
    let options = WatchOptions::default().overflow(Wait).stop_on_panic(true);
    let handler = bus.watch_builder().options(options).spawn(move |delivery: Delivery<&u64>| {
        pass(delivery.event().copied());
        panic!("at the first event");
    });
    let handler = handler.unwrap();
    let mut other = bus.watch_builder().queue_capacity(10).watch().unwrap();
    bus.publisher().publish_batch(vec![1, 2, 3]).unwrap();
    turnstile.wait_for(Some(1));
    // The other watcher has received its event, and the dispatcher is in the round that the handler
    // delays.
    assert_eq!(other.recv(), Ok(Event(1)));
    bus.publisher().publish(4).unwrap();
    turnstile.let_one_pass();
    assert!(handler.join(LONG));
    bus.flush(LONG).unwrap();
    let stats = handler.stats();
    assert_eq!((stats.delivered, stats.dropped.total()), (1, stats.dropped.stopped), "{stats:?}");
    assert_eq!(stats.offered, stats.delivered + stats.dropped.stopped, "{stats:?}");
    assert!(stats.offered >= 3, "{stats:?}");
    assert_eq!(other.events().take(3).collect::<Vec<_>>(), [2, 3, 4]);
}

/// A panic at a gap also stops a runner, and the runner returns to its caller, whether the runner
/// runs on a thread or is awaited.
#[test]
fn a_runner_that_is_to_stop_returns() {
    on_both(|options| {
        for awaited in [false, true] {
            let bus = bus_with(options.clone().queue_capacity(1));
            let runner = bus.watch_builder().stop_on_panic(true).runner(|delivery: Delivery<&u64>| {
                assert!(delivery.event().is_some(), "a gap");
            });
            let runner = runner.unwrap();
            let handle = runner.handle();
            bus.publisher().publish_batch([1, 2]).unwrap();
            if awaited {
                block_on(runner);
            } else {
                runner.run();
            }
            assert!(handle.join(LONG));
            until(|| bus.stats().watchers.is_empty());
            let departed = bus.stats().departed;
            assert_eq!((departed.delivered, departed.dropped.incoming, departed.panics), (1, 1, 1));
        }
    });
}
