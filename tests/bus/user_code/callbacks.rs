//! Handlers, filters, hooks and destructors that call back into the bus, and buses that use each
//! other.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{self, Sender};
use std::thread;

use eventcast::Delivery::Event;
use eventcast::error::{FlushError, PublishError};
use eventcast::{Broadcaster, BusOptions, Delivery};
use futures::executor::block_on;

use crate::support::{
    At, AtDrop, Caller, LONG, assert_balanced, available, bus, bus_with, drain, events, keeping, on_both,
    waits, watched,
};

/// D27, in a handler: a call that would wait for itself returns an error instead, both on a thread
/// and in a task.
#[test]
fn a_handler_that_calls_back_is_not_left_waiting_for_itself() {
    on_both(|options| {
        let is_inline = options == BusOptions::default().inline(true);
        let bus = bus_with(options.incoming_capacity(1).queue_capacity(1));
        let (inner, (tx, rx), (go, gate)) = (bus.clone(), mpsc::channel(), mpsc::channel::<()>());
        let handler = move |delivery: Delivery<&u64>| {
            if delivery != Event(&0) {
                return;
            }
            gate.recv().unwrap();
            let publisher = inner.publisher();
            // The handler's queue is full, and if the bus has a dispatcher, so is the incoming
            // queue.
            let refused = [
                publisher.publish(7).unwrap_err().is_full(),
                publisher.publish_timeout(7, LONG).unwrap_err().is_full(),
                publisher.publish_batch([7, 8]).unwrap_err().is_full(),
                block_on(publisher.publish_async(7)) == Err(PublishError::Full(7)),
                block_on(publisher.ready()) == Ok(()),
                inner.watch().is_ok(),
                inner.flush(LONG) == Err(FlushError::WouldDeadlock),
                block_on(inner.flush_async(LONG)) == Err(FlushError::WouldDeadlock),
            ];
            let complete = [inner.shutdown().complete, block_on(inner.shutdown_async(LONG)).complete];
            tx.send((refused, complete)).unwrap();
        };
        let handle = waits(&bus, 1).spawn(handler).unwrap();
        let publisher = bus.publisher();
        publisher.publish(0).unwrap();
        // Publish until the dispatcher waits: the handler has one event, the dispatcher holds at
        // least one, and one event that it has not taken fills the incoming queue.
        let mut accepted = 1;
        while !is_inline && (accepted < 3 || bus.stats().accepted != accepted - 1) {
            accepted += u64::from(publisher.try_publish(1).is_ok());
            thread::yield_now();
        }
        go.send(()).unwrap();
        let (refused, complete) = rx.recv_timeout(LONG).unwrap();
        assert_eq!((refused, complete), ([true; 8], [false; 2]), "a handler cannot wait for its own end");
        assert!(bus.shutdown().complete);
        assert!(handle.join(LONG));
        assert_eq!(handle.stats().delivered, accepted);
    });
}

/// Returns a value that, when it is dropped, calls back into the bus and reports its name and the
/// results of the calls.
fn farewell(
    bus: &Broadcaster<u64>,
    says: &Sender<(&'static str, Result<(), FlushError>, bool)>,
    name: &'static str,
) -> AtDrop<impl FnMut() + Send + use<>> {
    let (bus, says) = (bus.clone(), says.clone());
    AtDrop(move || {
        let flush = bus.flush(LONG);
        let reports = [bus.shutdown(), bus.shutdown_timeout(LONG)];
        let _ = says.send((name, flush, reports.iter().any(|report| report.complete)));
    })
}

/// The end of the bus drops filters and hooks on the dispatcher's thread, and a handler on the
/// handler's own thread. Their destructors call back without waiting for themselves, and no other
/// thread waits forever.
#[test]
fn destructors_that_call_back_are_not_left_waiting() {
    on_both(|options| {
        let bus = bus_with::<u64>(options);
        let (says, said) = mpsc::channel();
        let (in_hook, in_handler) = (farewell(&bus, &says, "hook"), farewell(&bus, &says, "handler"));
        let hook = move |_, _: &[u64]| {
            let _ = &in_hook;
        };
        let handler = move |_: Delivery<&u64>| {
            let _ = &in_handler;
        };
        let in_filter = keeping(farewell(&bus, &says, "filter"));
        let watcher = bus.watch_builder().filter(in_filter).on_drop(hook).watch().unwrap();
        bus.watch_builder().spawn(handler).unwrap();
        bus.publisher().publish(1).unwrap();
        assert!(bus.shutdown().complete);
        let mut answers: Vec<_> = said.try_iter().collect();
        answers.sort_by_key(|(of, ..)| *of);
        let answer = |of| (of, Err(FlushError::WouldDeadlock), false);
        assert_eq!(answers, ["filter", "handler", "hook"].map(answer));
        drop(watcher);
    });
}

/// All calls that end the bus wait for a runner that is dropped without having run to completion.
/// If the handler owns a value, the value's destructor must not wait together with these calls.
#[test]
fn a_runner_that_is_dropped_and_calls_back_is_not_left_waiting() {
    on_both(|options| {
        let bus = bus_with(options);
        let (says, said) = mpsc::channel();
        let in_runner = farewell(&bus, &says, "runner");
        let handler = move |_: Delivery<&u64>| {
            let _ = &in_runner;
        };
        drop(bus.watch_builder().runner(handler).unwrap());
        assert_eq!(said.recv(), Ok(("runner", Err(FlushError::WouldDeadlock), false)));
        assert!(bus.shutdown().complete);
    });
}

/// A shutdown from a filter, a hook, a `Clone` or a `Drop` inside the bus closes the bus and does
/// not wait for itself. The bus ends all the same.
#[test]
fn a_shutdown_from_inside_the_bus_closes_it_and_continues() {
    on_both(|options| {
        for at in [At::Filter, At::Hook, At::Clone, At::Drop] {
            let bus = bus_with::<Caller>(options.clone());
            let ((said_tx, said), own) = (mpsc::channel(), bus.clone());
            let mut watcher = Caller::watch(&bus);
            let events = Caller::three(at, move || said_tx.send(own.shutdown().complete).unwrap());
            bus.publisher().publish_batch(events).map_err(drop).unwrap();
            assert_eq!(said.recv_timeout(LONG), Ok(false), "{at:?}");
            assert!(bus.publisher().is_closed(), "{at:?}");
            assert!(bus.shutdown().complete, "{at:?}");
            assert_eq!(drain(&mut watcher).len(), 2, "{at:?}: expected one event and a gap of two");
            assert_balanced(&bus.stats());
        }
    });
}

/// Tests D27 on the dispatcher's own thread, in a filter and in a hook.
#[test]
fn a_filter_and_a_hook_that_call_back_are_not_left_waiting() {
    let bus = bus::<u64>(1, 1);
    let (tx, rx) = mpsc::channel();
    let call = |what: &'static str| {
        let (bus, tx) = (bus.clone(), tx.clone());
        move || {
            let flush = bus.flush(LONG);
            let mut waited = Ok(());
            while waited.is_ok() {
                waited = bus.publisher().publish(1);
            }
            let _ = tx.send((what, flush, waited.unwrap_err().is_full()));
        }
    };
    let (in_filter, in_hook) = (call("filter"), call("hook"));
    let watcher = bus
        .watch_builder()
        .filter(move |n| {
            if *n == 0 {
                in_filter();
            }
            true
        })
        .on_drop(move |_, lost| {
            if lost.contains(&2) {
                in_hook();
            }
        })
        .watch()
        .unwrap();
    bus.publisher().publish(0).unwrap();
    assert_eq!(rx.recv_timeout(LONG), Ok(("filter", Err(FlushError::WouldDeadlock), true)));
    bus.publisher().publish(2).unwrap();
    assert_eq!(rx.recv_timeout(LONG), Ok(("hook", Err(FlushError::WouldDeadlock), true)));
    assert!(bus.shutdown().complete);
    assert_balanced(&bus.stats());
    drop(watcher);
}

/// The report of a loss is itself an event that the full watcher loses, which causes another
/// report. This hook stops after a thousand reports, all of which stem from one loss.
#[test]
fn a_hook_that_publishes_on_its_own_bus_feeds_itself() {
    const REPORTS: u64 = 1_000;
    let bus = bus(100, 1);
    let (tx, rx) = mpsc::channel();
    let (publisher, mut reports) = (bus.publisher(), 0);
    let hook = move |_, _: &[u64]| {
        if reports < REPORTS {
            reports += 1;
            publisher.publish(reports).unwrap();
        } else {
            tx.send(()).unwrap();
        }
    };
    let watcher = bus.watch_builder().on_drop(hook).watch().unwrap();
    bus.publisher().publish_batch(vec![0, 0]).unwrap();
    assert_eq!(rx.recv_timeout(LONG), Ok(()));
    assert!(bus.shutdown().complete);
    assert_eq!((bus.stats().published(), watcher.stats().dropped.incoming), (2 + REPORTS, 1 + REPORTS));
}

/// Tests the remedy documented by `WatchBuilder::on_drop`, in which the watcher's own filter
/// refuses the reports.
#[test]
fn a_hook_whose_reports_the_filter_stops_feeds_nothing() {
    const REPORT: u64 = 1_000;
    let bus = bus(100, 1);
    let mut reports = bus.watch_builder().queue_capacity(100).filter(|n| *n >= REPORT).watch().unwrap();
    let publisher = bus.publisher();
    let watcher = bus
        .watch_builder()
        .filter(|n| *n < REPORT)
        .on_drop(move |_, lost| publisher.publish(REPORT + lost.len() as u64).unwrap())
        .watch()
        .unwrap();
    bus.publisher().publish_batch(vec![1, 2, 3, 4, 5]).unwrap();
    // The first flush waits for the losses, and the second for the reports about them.
    bus.flush(LONG).unwrap();
    bus.flush(LONG).unwrap();
    let reported: Vec<_> = events(&available(&mut reports)).iter().map(|report| report - REPORT).collect();
    assert_eq!((reported.iter().sum::<u64>(), watcher.stats().dropped.incoming), (4, 4));
    assert_eq!(bus.stats().published(), 5 + reported.len() as u64);
}

#[test]
fn a_handler_may_wait_for_another_bus() {
    on_both(|options| {
        let outer = bus_with::<u64>(options);
        let inner = bus::<u64>(1, 1);
        let mut seen = inner.watch_builder().queue_capacity(10).watch().unwrap();
        let to = inner.clone();
        outer
            .watch_builder()
            .spawn(move |delivery| {
                if let Event(n) = delivery {
                    to.publisher().publish(*n).unwrap();
                    to.flush(LONG).unwrap();
                }
            })
            .unwrap();
        outer.publisher().publish_batch(vec![1, 2, 3]).unwrap();
        assert!(outer.shutdown().complete);
        assert_eq!(events(&available(&mut seen)), [1, 2, 3]);
    });
}

/// Handlers of two buses publish on each other's bus until both are shut down, one of them from
/// within the other's handler. A full queue refuses events immediately on its own bus's threads, so
/// no thread waits for itself.
#[test]
fn two_buses_that_feed_each_other_can_be_shut_down() {
    watched(|| {
        let buses = [bus::<u64>(4, 4), bus::<u64>(4, 4)];
        let both_moved = Arc::new(AtomicU64::new(0));
        let handles: Vec<_> = (0..2)
            .map(|from| {
                let to = buses[1 - from].publisher();
                let moved = both_moved.clone();
                let handler = move |delivery: Delivery<&u64>| {
                    if let Event(n) = delivery {
                        moved.fetch_add(1, Ordering::SeqCst);
                        let _ = to.try_publish(n + 1);
                        let _ = to.try_publish(n + 1);
                    }
                };
                buses[from].watch_builder().spawn(handler).unwrap()
            })
            .collect();
        buses[0].publisher().publish(0).unwrap();
        while both_moved.load(Ordering::SeqCst) < 10_000 {
            thread::yield_now();
        }
        // A handler of the second bus shuts down the first bus. The handler may wait for the first
        // bus, because the handler belongs to another bus.
        let (other, done) = (buses[0].clone(), Arc::new(AtomicBool::new(false)));
        let said = done.clone();
        buses[1]
            .watch_builder()
            .spawn(move |_| {
                if !said.load(Ordering::SeqCst) {
                    said.store(other.shutdown().complete, Ordering::SeqCst);
                }
            })
            .unwrap();
        while !done.load(Ordering::SeqCst) {
            let _ = buses[1].publisher().try_publish(0);
            thread::yield_now();
        }
        assert!(buses.iter().all(|bus| bus.shutdown().complete));
        assert!(handles.iter().all(|handle| handle.join(LONG)));
        for bus in &buses {
            assert_balanced(&bus.stats());
        }
    });
}
