//! Calls other than a publish from inside a call of the same bus, and calls of another bus.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Barrier, Mutex, mpsc};
use std::thread;
use std::time::Duration;

use eventcast::Broadcaster;
use eventcast::Delivery::{self, Event, Lagged};
use eventcast::OverflowPolicy::WaitFor;
use eventcast::bus::{EndReason, Start};
use eventcast::error::{FlushError, PublishError, TryRecvError, WatchError};
use eventcast::stats::ShutdownReport;
use futures::FutureExt;
use futures::executor::block_on;

use crate::support::{LONG, assert_balanced, available, drain, events, watched};

use super::support::{Holder, assert_settled, calling, inline, inside, options, waits};

/// A watcher that is registered inside a call is offered what is published from then on, nested or
/// not.
#[test]
fn a_nested_watcher_is_offered_what_follows_it() {
    let bus = inline(100);
    let (inner, publisher) = (bus.clone(), bus.publisher());
    let watchers = inside(&bus, move || {
        publisher.publish(11).unwrap();
        let first = inner.watch().unwrap();
        publisher.publish(12).unwrap();
        let second = inner.watch_builder().watch().unwrap();
        publisher.publish(13).unwrap();
        [first, second]
    });
    let [mut first, mut second] = watchers;
    assert_eq!(available(&mut first), [Event(12), Event(13)]);
    assert_eq!(available(&mut second), [Event(13)]);
    bus.publisher().publish(2).unwrap();
    assert_eq!((available(&mut first), available(&mut second)), (vec![Event(2)], vec![Event(2)]));
    assert_eq!((bus.watcher_count(), bus.stats().watchers.len()), (2, 2));
}

/// A nested watcher that starts in the past gets the outer event as well.
#[test]
fn a_nested_watcher_gets_the_past() {
    let bus = Broadcaster::with_options(options(100).history(2)).unwrap();
    let (inner, publisher) = (bus.clone(), bus.publisher());
    let mut watcher = inside(&bus, move || {
        publisher.publish(11).unwrap();
        let watcher = inner.watch_builder().start(Start::Oldest).watch().unwrap();
        publisher.publish(12).unwrap();
        watcher
    });
    assert_eq!(available(&mut watcher), [1, 11, 12].map(Event));
}

/// A nested `Wait` watcher limits the nested events that follow it to the length of its queue.
#[test]
fn a_nested_watcher_that_loses_nothing_limits_what_follows() {
    let bus = inline(100);
    let (inner, publisher) = (bus.clone(), bus.publisher());
    let (mut watcher, results) = inside(&bus, move || {
        let watcher = waits(&inner, 2).watch().unwrap();
        (watcher, [2, 3, 4].map(|event| publisher.publish(event)))
    });
    assert_eq!(results, [Ok(()), Ok(()), Err(PublishError::Full(4))]);
    assert!(bus.publisher().try_publish(5).unwrap_err().is_full());
    assert_eq!(available(&mut watcher), [Event(2), Event(3)]);
    bus.publisher().try_publish(5).unwrap();
    assert_eq!((available(&mut watcher), watcher.stats().dropped.total()), (vec![Event(5)], 0));
}

/// A watcher with `Wait` that a filter registers during the first part of a batch counts for the
/// second part, and for what the filter publishes then. The parts come from a watcher with capacity
/// for the first two events.
#[test]
fn a_nested_watcher_that_loses_nothing_limits_the_rest_of_a_batch() {
    let bus = inline(100);
    let _divides = bus.watch_builder().queue_len(2).overflow(WaitFor(Duration::ZERO)).watch().unwrap();
    let (inner, publisher, (made_tx, made)) = (bus.downgrade(), bus.publisher(), mpsc::channel());
    let _calling = calling(&bus, move |event| match event {
        1 => {
            let bus = inner.upgrade().unwrap();
            made_tx.send(waits(&bus, 1).watch().unwrap()).unwrap();
        }
        3 | 4 => assert!([11, 12].iter().all(|event| publisher.publish(*event).unwrap_err().is_full())),
        _ => {}
    });
    let rest = bus.publisher().try_publish_batch([1, 2, 3, 4]).unwrap_err();
    assert_eq!(rest, PublishError::Full(vec![4]));
    let mut watcher = made.try_recv().unwrap();
    assert_eq!((available(&mut watcher), watcher.stats().dropped.total()), (vec![Event(3)], 0));
}

/// A nested watcher may be dropped before it is registered.
#[test]
fn a_nested_watcher_that_is_dropped_leaves_nothing() {
    let bus = inline::<u64>(100);
    let kept = Arc::new(());
    let (inner, in_filter) = (bus.clone(), kept.clone());
    inside(&bus, move || {
        let filter = move |_: &u64| Arc::strong_count(&in_filter) > 0;
        drop(inner.watch_builder().filter(filter).watch().unwrap());
    });
    assert_eq!((bus.watcher_count(), bus.stats().watchers.len()), (0, 0));
    assert_eq!(Arc::strong_count(&kept), 1, "the filter is gone");
}

/// A handler that is started inside a call handles what is published from then on.
#[test]
fn a_nested_handler_handles_what_follows_it() {
    watched(|| {
        let bus = inline(100);
        let (inner, publisher) = (bus.clone(), bus.publisher());
        let (handled_tx, handled) = mpsc::channel();
        let handle = inside(&bus, move || {
            let handle = inner.watch_builder().spawn(move |delivery| {
                handled_tx.send(delivery.event().copied()).unwrap();
            });
            publisher.publish(2).unwrap();
            handle.unwrap()
        });
        assert_eq!(bus.flush(LONG), Ok(()));
        assert_eq!(handled.try_iter().collect::<Vec<_>>(), [Some(2)]);
        assert!(bus.shutdown().complete);
        assert_eq!(handle.stats().delivered, 1);
    });
}

/// Watchers that are stopped and dropped inside a call are gone when the outer call returns.
#[test]
fn watchers_that_are_stopped_or_dropped_inside_are_gone() {
    watched(|| {
        let bus = inline::<u64>(100);
        let kept = Arc::new(());
        let watch = || {
            let in_filter = kept.clone();
            bus.watch_builder().filter(move |_: &u64| Arc::strong_count(&in_filter) > 0).watch().unwrap()
        };
        let (dropped, mut stopped) = (watch(), watch());
        bus.publisher().publish(0).unwrap();
        let (handle, publisher) = (stopped.handle(), bus.publisher());
        inside(&bus, move || {
            handle.stop();
            drop(dropped);
            publisher.publish(2).unwrap();
        });
        assert_eq!(Arc::strong_count(&kept), 1, "the filters are gone");
        let received = available(&mut stopped);
        assert_eq!(received[0], Event(0));
        assert!(!received.contains(&Event(2)), "{received:?}");
        assert_eq!(stopped.try_recv(), Err(TryRecvError::Ended));
        assert_eq!(stopped.end_reason(), Some(EndReason::Stopped));
        assert_eq!(bus.watcher_count(), 1);
        assert_balanced(&bus.stats());
    });
}

/// A filter may drop its own watcher.
#[test]
fn a_filter_may_drop_its_own_watcher() {
    watched(|| {
        let bus = inline(100);
        let kept = Arc::new(Mutex::new(None));
        let own = kept.clone();
        let watcher = calling(&bus, move |event| {
            if event == 2 {
                drop(own.lock().unwrap().take());
            }
        });
        *kept.lock().unwrap() = Some(watcher);
        let mut other = bus.watch().unwrap();
        bus.publisher().publish_batch([1, 2, 3]).unwrap();
        assert_eq!(available(&mut other), [1, 2, 3].map(Event));
        assert_eq!((bus.watcher_count(), bus.stats().watchers.len(), Arc::strong_count(&kept)), (1, 1, 1));
        assert_balanced(&bus.stats());
    });
}

/// A filter may read another watcher, and what it reads frees capacity for later publishes.
#[test]
fn a_filter_may_read_another_watcher() {
    watched(|| {
        let bus = inline(100);
        let full = Arc::new(Mutex::new(waits(&bus, 2).watch().unwrap()));
        let (reads, (said_tx, said)) = (full.clone(), mpsc::channel());
        let _calling = calling(&bus, move |_| said_tx.send(reads.lock().unwrap().try_recv()).unwrap());
        (1..=10).for_each(|event| bus.publisher().try_publish(event).unwrap());
        let read: Vec<_> = said.try_iter().collect();
        assert!(read.into_iter().eq((1..=10).map(|event| Ok(Event(event)))));
    });
}

/// A call that would wait for itself returns an error immediately.
#[test]
fn a_nested_flush_or_join_does_not_wait() {
    watched(|| {
        let bus = inline::<u64>(100);
        let handle = bus.watch_builder().spawn(|_| ()).unwrap();
        let (inner, joined) = (bus.clone(), handle.clone());
        let results = inside(&bus, move || {
            let flushed = inner.flush_async(LONG).now_or_never().expect("it does not wait");
            (inner.flush(LONG), flushed, joined.join(LONG))
        });
        assert_eq!(results, (Err(FlushError::WouldDeadlock), Err(FlushError::WouldDeadlock), false));
        assert_eq!(bus.flush(LONG), Ok(()));
        assert!(bus.shutdown().complete);
    });
}

/// The statistics and the other getters answer inside a call.
#[test]
fn getters_answer_inside_a_call() {
    watched(|| {
        let bus = inline::<u64>(100);
        let watcher = bus.watch().unwrap();
        let (inner, publisher) = (bus.clone(), bus.publisher());
        let (before, after) = inside(&bus, move || {
            let before = (inner.stats(), inner.watcher_count(), watcher.len(), publisher.is_closed());
            publisher.publish(2).unwrap();
            let stats = inner.stats();
            drop(watcher);
            (before, stats)
        });
        assert_eq!((before.1, before.2, before.3), (2, 1, false));
        assert!(before.0.published() <= 1, "{}", before.0);
        assert!(after.published() <= 2, "{after}");
        assert_settled(&bus.stats(), 2);
    });
}

/// After a nested close everything is refused. What was accepted before it is still offered, and
/// the bus has ended when the outer call returns.
#[test]
fn a_nested_close_ends_the_bus_behind_what_was_accepted() {
    watched(|| {
        let bus = inline(100);
        let mut watcher = bus.watch().unwrap();
        let (inner, publisher) = (bus.clone(), bus.publisher());
        let refused = inside(&bus, move || {
            publisher.publish(2).unwrap();
            inner.close();
            assert!(publisher.is_closed());
            let watch = matches!(inner.watch(), Err(WatchError::Closed));
            let gap = publisher.publish_gap(3) == Err(PublishError::Closed(()));
            (publisher.publish(4), publisher.publish_batch([5, 6]), watch && gap)
        });
        assert_eq!(refused.0, Err(PublishError::Closed(4)));
        assert_eq!((refused.1, refused.2), (Err(PublishError::Closed(vec![5, 6])), true));
        assert_eq!(available(&mut watcher), [Event(1), Event(2)]);
        assert_eq!(watcher.try_recv(), Err(TryRecvError::Ended));
        assert_eq!(watcher.end_reason(), Some(EndReason::Closed));
        assert!(bus.shutdown().complete);
        assert_settled(&bus.stats(), 2);
        assert_eq!(bus.stats().rejected_closed, 3);
    });
}

/// A close in the middle of an outer batch: what was accepted is offered, and the rest is returned.
#[test]
fn a_close_inside_a_batch_returns_the_rest() {
    watched(|| {
        let bus = Broadcaster::with_options(options(100).max_batch(2)).unwrap();
        let inner = bus.clone();
        let mut watcher = calling(&bus, move |event| {
            if event == 2 {
                inner.close();
            }
        });
        assert_eq!(bus.publisher().publish_batch(0..10), Err(PublishError::Closed((4..10).collect())));
        assert_eq!(drain(&mut watcher), [0, 1, 2, 3].map(Event));
        assert_settled(&bus.stats(), 4);
    });
}

/// A nested shutdown, in every form, immediately returns a snapshot. The bus has ended when the
/// outer call returns.
#[test]
fn a_nested_shutdown_returns_at_once_and_ends_the_bus() {
    type Shutdown = fn(&Broadcaster<u64>) -> ShutdownReport;
    let forms: [Shutdown; 5] = [
        Broadcaster::shutdown,
        |bus| bus.shutdown_timeout(LONG),
        |bus| bus.drain(LONG),
        |bus| block_on(bus.shutdown_async(LONG)),
        |bus| block_on(bus.drain_async(LONG)),
    ];
    for shutdown in forms {
        watched(move || {
            let bus = inline(100);
            let mut watcher = bus.watch().unwrap();
            bus.watch_builder().spawn(|_| ()).unwrap();
            let (inner, publisher) = (bus.clone(), bus.publisher());
            let (report, refused) = inside(&bus, move || {
                publisher.publish(2).unwrap();
                (shutdown(&inner), publisher.publish(3))
            });
            assert!(!report.complete);
            assert_eq!(refused, Err(PublishError::Closed(3)));
            assert_eq!(drain(&mut watcher), [Event(1), Event(2)]);
            let report = bus.shutdown();
            assert!(report.complete && report.threads_ended, "{report}");
            assert_settled(&report.bus, 2);
        });
    }
}

/// The last handle may be dropped inside a call.
#[test]
fn the_last_handle_may_be_dropped_inside_a_call() {
    watched(|| {
        let bus = inline(100);
        let publisher = bus.publisher();
        let handle = Arc::new(Mutex::new(None));
        let (owner, inner, (said_tx, said)) = (handle.clone(), bus.publisher(), mpsc::channel());
        let mut watcher = calling(&bus, move |event| {
            if event == 1 {
                inner.publish(2).unwrap();
                drop(owner.lock().unwrap().take());
                said_tx.send(inner.publish(3)).unwrap();
            }
        });
        *handle.lock().unwrap() = Some(bus);
        publisher.publish(1).unwrap();
        assert_eq!(said.try_recv(), Ok(Err(PublishError::Closed(3))));
        assert_eq!(drain(&mut watcher), [Event(1), Event(2)]);
        assert_eq!(Arc::strong_count(&handle), 1, "the filter is gone");
    });
}

/// A filter may publish on another bus without a thread, also through a chain that leads back to
/// the first one.
#[test]
fn a_filter_may_publish_on_another_bus() {
    watched(|| {
        let buses = [inline(100), inline(100)];
        let mut watchers = [0, 1].map(|index: usize| {
            let to = buses[1 - index].publisher();
            calling(&buses[index], move |event| {
                if event < 6 {
                    to.publish(event + 1).unwrap();
                }
            })
        });
        buses[0].publisher().publish(0).unwrap();
        let seen = watchers.each_mut().map(|watcher| events(&available(watcher)));
        assert_eq!(seen, [vec![0, 2, 4, 6], vec![1, 3, 5]]);
    });
}

/// From inside a call, a publish on another bus that another thread occupies returns `Full`,
/// because that thread may wait for this one.
#[test]
fn a_nested_publish_on_an_occupied_bus_returns_full() {
    watched(|| {
        let (bus, other) = (inline(100), inline(100));
        let holder = Holder::start(&other);
        let publisher = other.publisher();
        let refused = inside(&bus, move || {
            [
                publisher.publish(2),
                publisher.try_publish(3),
                publisher.publish_timeout(4, LONG),
                publisher.publish_async(5).now_or_never().expect("it does not wait"),
            ]
        });
        assert_eq!(refused, [2, 3, 4, 5].map(|event| Err(PublishError::Full(event))));
        assert_eq!(other.stats().rejected_full, 4);
        drop(holder.finish());
        let publisher = other.publisher();
        assert_eq!(inside(&bus, move || publisher.publish(6)), Ok(()));
        assert_settled(&other.stats(), 2);
    });
}

/// The other calls that need the lock of an occupied bus return an error inside a call, too.
#[test]
fn other_nested_calls_of_an_occupied_bus_return_an_error() {
    watched(|| {
        let (bus, other) = (inline(100), inline(100));
        let holder = Holder::start(&other);
        let outer = other.clone();
        let (watched, flushed, gap) = inside(&bus, move || {
            (outer.watch().map(drop), outer.flush(LONG), outer.publisher().publish_gap(2))
        });
        assert!(matches!(watched, Err(WatchError::WouldDeadlock)), "{watched:?}");
        assert!(flushed.is_err());
        assert_eq!(gap, Err(PublishError::Full(())));
        drop(holder.finish());
        assert_eq!((other.watcher_count(), other.stats().missed), (0, 0));
        let outer = other.clone();
        let results = inside(&bus, move || (outer.watch().is_ok(), outer.flush(LONG)));
        assert_eq!(results, (true, Ok(())));
    });
}

/// Two threads publish on two buses whose filters publish into each other. Every publish returns,
/// and each accepted event arrives.
#[test]
fn two_buses_that_feed_each_other_do_not_hang() {
    const EVENTS: u64 = if cfg!(miri) { 20 } else { 500 };
    watched(|| {
        let buses = [inline::<u64>(8), inline(8)];
        let accepted = Arc::new([AtomicU64::new(0), AtomicU64::new(0)]);
        let refused = Arc::new([AtomicU64::new(0), AtomicU64::new(0)]);
        let _watchers = [0, 1].map(|index: usize| {
            let to = buses[1 - index].publisher();
            let (accepted, refused) = (accepted.clone(), refused.clone());
            calling(&buses[index], move |event| {
                if event > 0 {
                    let counts = if to.publish(event - 1).is_ok() { &accepted } else { &refused };
                    counts[1 - index].fetch_add(1, Ordering::SeqCst);
                }
            })
        });
        let barrier = Barrier::new(2);
        thread::scope(|scope| {
            for bus in &buses {
                scope.spawn(|| {
                    barrier.wait();
                    (0..EVENTS).for_each(|event| bus.publisher().publish(event % 4).unwrap());
                });
            }
        });
        for (index, bus) in buses.iter().enumerate() {
            let stats = bus.stats();
            assert_settled(&stats, EVENTS + accepted[index].load(Ordering::SeqCst));
            assert_eq!(stats.rejected_full, refused[index].load(Ordering::SeqCst));
            assert!(bus.shutdown().complete);
        }
    });
}

/// A handler runs on a separate thread and is not inside the bus. Calls that would wait for the
/// handler itself are refused there.
#[test]
fn a_handler_is_not_left_waiting_for_itself() {
    watched(|| {
        let bus = inline(10);
        let (inner, (said_tx, said)) = (bus.clone(), mpsc::channel());
        let handler = move |delivery: Delivery<&u64>| {
            if delivery != Event(&0) {
                return;
            }
            let publisher = inner.publisher();
            let refused = [
                publisher.publish(1),
                publisher.publish_timeout(2, LONG),
                block_on(publisher.publish_async(3)),
            ];
            let watches = inner.watch().is_ok();
            said_tx.send((refused, watches, inner.flush(LONG), inner.shutdown().complete)).unwrap();
        };
        let handle = waits(&bus, 1).spawn(handler).unwrap();
        bus.publisher().publish(0).unwrap();
        let refused = [1, 2, 3].map(|event| Err(PublishError::Full(event)));
        let wanted = (refused, true, Err(FlushError::WouldDeadlock), false);
        assert_eq!(said.recv_timeout(LONG), Ok(wanted));
        assert!(bus.shutdown().complete);
        assert!(handle.join(LONG));
        assert_settled(&bus.stats(), 1);
    });
}

/// A handler may publish on its own bus while there is capacity.
#[test]
fn a_handler_may_publish_on_its_own_bus() {
    watched(|| {
        let bus = inline(10);
        let (publisher, (done_tx, done)) = (bus.publisher(), mpsc::channel());
        let handler = move |delivery: Delivery<&u64>| match delivery {
            Event(1000) => done_tx.send(()).unwrap(),
            Event(event) => publisher.publish(event + 1).unwrap(),
            Lagged(lost) => panic!("{lost} events were lost"),
        };
        let handle = waits(&bus, 2).spawn(handler).unwrap();
        bus.publisher().publish(0).unwrap();
        assert_eq!(done.recv_timeout(LONG), Ok(()));
        assert!(bus.shutdown().complete);
        assert_eq!((handle.stats().delivered, handle.stats().panics), (1001, 0));
    });
}
