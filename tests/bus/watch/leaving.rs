//! Handlers that end themselves.

use std::ops::ControlFlow::{self, Break, Continue};
use std::sync::mpsc;
use std::thread;

use eventcast::Delivery;
use eventcast::Delivery::{Event, Lagged};
use eventcast::OverflowPolicy::{DropIncoming, DropOldest, Wait};
use eventcast::bus::Runner;
use futures::executor::block_on;

use crate::support::{
    LONG, assert_balanced, assert_dropped, bus, bus_with, buses, copied, inline, on_both, turnstile, until,
    waits,
};

/// Returns a handler that sends what it receives, and ends itself with `last`.
fn until_it_receives(
    last: Delivery<u64>,
) -> (impl FnMut(Delivery<&u64>) -> ControlFlow<()> + Send, mpsc::Receiver<Delivery<u64>>) {
    let (tx, rx) = mpsc::channel();
    let handler = move |delivery: Delivery<&u64>| {
        tx.send(copied(delivery)).unwrap();
        if copied(delivery) == last { Break(()) } else { Continue(()) }
    };
    (handler, rx)
}

/// Runs a runner on this thread, or awaits it.
fn run<H: FnMut(Delivery<&u64>) -> ControlFlow<()>>(runner: Runner<u64, H>, awaited: bool) {
    if awaited { block_on(runner) } else { runner.run() }
}

/// When a handler on its own thread ends itself, its queued events are lost, and other watchers are
/// not affected.
#[test]
fn a_handler_that_breaks_takes_its_queue_with_it() {
    for policy in [DropIncoming, DropOldest, Wait] {
        for bus in buses(10) {
            let (turnstile, mut pass) = turnstile();
            let leaving = bus.watch_builder().name("leaving").overflow(policy).spawn_while(move |delivery| {
                pass(copied(delivery));
                if delivery == Event(&2) { Break(()) } else { Continue(()) }
            });
            let leaving = leaving.unwrap();
            let other = bus.watch_builder().name("other").queue_capacity(100).spawn(|_| ()).unwrap();
            bus.publisher().publish_batch(1..=10).unwrap();
            for number in [1, 2] {
                turnstile.wait_for(Event(number));
                turnstile.let_one_pass();
            }
            assert!(leaving.join(LONG), "{policy}");
            bus.flush(LONG).unwrap();
            let stats = leaving.stats();
            assert_eq!((stats.offered, stats.delivered, stats.dropped.stopped), (10, 2, 8), "{policy}");
            assert_eq!((stats.queued, stats.lag, stats.panics), (0, 0, 0), "{policy}");

            bus.publisher().publish(100).unwrap();
            bus.flush(LONG).unwrap();
            assert_eq!(leaving.stats().offered, 10, "{policy}: nothing more is offered");
            assert_eq!(other.stats().delivered, 11, "{policy}");
            let report = bus.shutdown();
            assert!(report.complete, "{policy}");
            assert_balanced(&report.bus);
        }
    }
}

/// A runner returns after the delivery with which its handler ended itself, in the middle of a
/// batch, and the handler is dropped by then.
#[test]
fn a_runner_whose_handler_breaks_returns() {
    on_both(|options| {
        for awaited in [false, true] {
            let bus = bus_with(options.clone().queue_capacity(10));
            let (handler, handled) = until_it_receives(Event(3));
            let runner = bus.watch_builder().runner_while(handler).unwrap();
            let handle = runner.handle();
            let mut other = bus.watch().unwrap();
            bus.publisher().publish_batch([1, 2]).unwrap();
            bus.publisher().publish_batch([3, 4, 5]).unwrap();
            bus.publisher().publish(6).unwrap();
            other.events().find(|event| *event == 6).unwrap();
            run(runner, awaited);
            assert!(handled.into_iter().eq([1, 2, 3].map(Event)), "awaited: {awaited}");
            assert!(handle.join(LONG));
            let stats = handle.stats();
            assert_eq!((stats.offered, stats.delivered, stats.dropped.stopped), (6, 3, 3), "{stats:?}");
            assert_eq!((stats.dropped.total(), stats.queued), (3, 0), "{stats:?}");
            until(|| bus.stats().watchers.len() == 1);
            assert_eq!(bus.flush(LONG), Ok(()));
            assert!(bus.shutdown().complete);
        }
    });
}

/// A loss can be the delivery with which a handler ends itself.
#[test]
fn a_handler_can_break_at_a_loss() {
    on_both(|options| {
        for awaited in [false, true] {
            let bus = bus_with(options.clone().queue_capacity(1));
            let (handler, handled) = until_it_receives(Lagged(2));
            let runner = bus.watch_builder().runner_while(handler).unwrap();
            let handle = runner.handle();
            let mut other = bus.watch_builder().queue_capacity(3).watch().unwrap();
            bus.publisher().publish_batch([1, 2, 3]).unwrap();
            assert_eq!(other.events().nth(2), Some(3));
            run(runner, awaited);
            assert!(handled.into_iter().eq([Event(1), Lagged(2)]), "awaited: {awaited}");
            let stats = handle.stats();
            assert_eq!((stats.delivered, stats.dropped.incoming, stats.dropped.stopped), (1, 2, 0));
            assert!(bus.shutdown().complete);
        }
    });
}

/// An event of the prefix can be the last, too. The prefix does not count, but the queue does.
#[test]
fn a_handler_can_break_in_its_prefix() {
    for bus in buses(10) {
        let (handler, handled) = until_it_receives(Event(8));
        let runner = bus.watch_builder().prefix([7, 8, 9]).runner_while(handler).unwrap();
        let handle = runner.handle();
        let mut other = bus.watch().unwrap();
        bus.publisher().publish_batch([1, 2]).unwrap();
        assert_eq!(other.events().nth(1), Some(2));
        runner.run();
        assert!(handled.into_iter().eq([7, 8].map(Event)));
        let stats = handle.stats();
        assert_eq!((stats.offered, stats.delivered, stats.dropped.stopped), (2, 0, 2), "{stats:?}");
    }
}

/// If the dispatcher or a publisher is waiting for capacity in a handler's queue when the handler
/// ends itself, it continues.
#[test]
fn a_dispatcher_that_waits_for_a_handler_that_breaks_continues() {
    for on_inline in [false, true] {
        let bus = if on_inline { inline(1) } else { bus(100, 1) };
        let (turnstile, mut pass) = turnstile();
        let leaving = waits(&bus, 1).spawn_while(move |delivery| {
            pass(copied(delivery));
            Break(())
        });
        let leaving = leaving.unwrap();
        let mut other = bus.watch_builder().queue_capacity(10).watch().unwrap();
        let publisher = bus.publisher();
        let publishing = thread::spawn(move || (1..=4).for_each(|event| publisher.publish(event).unwrap()));
        turnstile.wait_for(Event(1));
        turnstile.let_one_pass();
        assert!(leaving.join(LONG));
        publishing.join().unwrap();
        bus.flush(LONG).unwrap();
        let stats = leaving.stats();
        assert_eq!((stats.delivered, stats.offered), (1, 1 + stats.dropped.stopped), "{stats:?}");
        assert_eq!(other.events().take(4).collect::<Vec<_>>(), [1, 2, 3, 4]);
    }
}

/// A runner runs inside a call to its own inline bus, and its handler publishes to the bus before
/// it ends itself. The call continues, and the bus offers the handler nothing more.
#[test]
fn a_handler_can_break_inside_a_call_to_its_inline_bus() {
    let bus = inline::<u64>(10);
    let publisher = bus.publisher();
    let (mut handler, handled) = until_it_receives(Event(2));
    let runner = bus.watch_builder().runner_while(move |delivery: Delivery<&u64>| {
        publisher.publish(10 + delivery.event().unwrap()).unwrap();
        handler(delivery)
    });
    let runner = runner.unwrap();
    let handle = runner.handle();
    bus.publisher().publish_batch([1, 2, 3]).unwrap();
    let mut owned = Some(runner);
    let filter = move |_: &u64| {
        owned.take().into_iter().for_each(Runner::run);
        true
    };
    let mut watcher = bus.watch_builder().filter(filter).watch().unwrap();
    bus.publisher().publish(4).unwrap();
    assert!(handled.into_iter().eq([1, 2].map(Event)));
    assert!(handle.join(LONG));
    assert_eq!(watcher.try_iter().collect::<Vec<_>>(), [4, 11, 12].map(Event));
    let stats = handle.stats();
    assert_eq!((stats.delivered, stats.offered), (2, 2 + stats.dropped.stopped), "{stats:?}");
    assert_eq!((bus.watcher_count(), bus.stats().watchers.len()), (1, 1));
    assert_eq!(bus.flush(LONG), Ok(()));
    assert!(bus.shutdown().complete);
}

/// A panic does not end a handler that could have ended itself, unless panics are to end it.
#[test]
fn a_handler_that_can_break_continues_after_a_panic() {
    for (stops, delivered) in [(false, 3), (true, 1)] {
        for bus in buses(10) {
            let handle = bus.watch_builder().stop_on_panic(stops).spawn_while(|delivery| {
                assert_ne!(delivery, Event(&1), "the first event");
                if delivery == Event(&3) { Break(()) } else { Continue(()) }
            });
            let handle = handle.unwrap();
            bus.publisher().publish_batch([1, 2, 3, 4]).unwrap();
            assert!(handle.join(LONG));
            let stats = handle.stats();
            assert_eq!((stats.delivered, stats.panics), (delivered, 1), "stops: {stops}");
        }
    }
}

/// A thread that waits for a handler also waits for the closure's destructor.
#[test]
fn a_handler_that_breaks_has_been_dropped_when_it_has_ended() {
    for bus in buses(10) {
        let (owned, dropped) = mpsc::channel();
        let handle = bus.watch_builder().spawn_while(move |_| {
            let _ = &owned;
            Break(())
        });
        let handle = handle.unwrap();
        bus.publisher().publish(1).unwrap();
        assert!(handle.join(LONG));
        assert_dropped(&dropped);
        assert_eq!(bus.flush(LONG), Ok(()));
    }
}
