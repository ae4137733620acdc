//! Calls other than publish calls from inside a call of the same bus, and calls of another bus.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Barrier, Mutex, mpsc};
use std::thread;
use std::time::Duration;

use eventcast::Delivery::{Event, Lagged};
use eventcast::OverflowPolicy::WaitFor;
use eventcast::bus::{EndReason, Start};
use eventcast::error::{FlushError, PublishError, TryRecvError, WatchError};
use eventcast::stats::ShutdownReport;
use eventcast::{Broadcaster, Delivery};
use futures::FutureExt;
use futures::executor::block_on;

use crate::support::{
    Holder, LONG, assert_balanced, assert_settled, available, bus_with, calling, drain, events, inline,
    inline_options, inside, waits, watched,
};

/// A filter closes the bus in the middle of a batch. The accepted events are offered, and the rest
/// are returned. A batch is accepted piece by piece, or event by event if a watcher has a queue of
/// one event.
#[test]
fn a_close_inside_a_batch_returns_the_rest() {
    for (divides, accepted) in [(false, 4), (true, 3)] {
        watched(move || {
            let bus = bus_with(inline_options(100).max_batch(2));
            let _divides = divides.then(|| waits(&bus, 1).filter(|_| false).watch().unwrap());
            let inner = bus.clone();
            let mut watcher = calling(&bus, move |event| {
                if event == 2 {
                    inner.close();
                }
            });
            let rest = (accepted..10).collect();
            assert_eq!(bus.publisher().publish_batch(0..10), Err(PublishError::Closed(rest)));
            assert_eq!(drain(&mut watcher), (0..accepted).map(Event).collect::<Vec<_>>());
            assert_settled(&bus.stats(), accepted);
        });
    }
}

/// If a watcher is registered inside a call, it is offered all later events, nested or not. If the
/// watcher starts from the history, it also receives the outer event.
#[test]
fn a_nested_watcher_is_offered_what_follows_it() {
    let bus = bus_with(inline_options(100).history(2));
    let (inner, publisher) = (bus.clone(), bus.publisher());
    let [mut first, mut past, mut second] = inside(&bus, move || {
        publisher.publish(11).unwrap();
        let first = inner.watch().unwrap();
        let past = inner.watch_builder().start(Start::Oldest).watch().unwrap();
        publisher.publish(12).unwrap();
        let second = inner.watch().unwrap();
        publisher.publish(13).unwrap();
        [first, past, second]
    });
    assert_eq!(available(&mut past), [1, 11, 12, 13].map(Event));
    drop(past);
    assert_eq!(available(&mut first), [Event(12), Event(13)]);
    assert_eq!(available(&mut second), [Event(13)]);
    bus.publisher().publish(2).unwrap();
    assert_eq!((available(&mut first), available(&mut second)), (vec![Event(2)], vec![Event(2)]));
    assert_eq!((bus.watcher_count(), bus.stats().watchers.len()), (2, 2));
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

/// If a filter registers a `Wait` watcher during the first part of a batch, that watcher limits the
/// second part, and the events that the filter publishes during the second part. The batch is split
/// by a watcher with capacity for the first two events.
#[test]
fn a_nested_watcher_that_loses_nothing_limits_the_rest_of_a_batch() {
    let bus = inline(100);
    let _divides = bus.watch_builder().queue_capacity(2).overflow(WaitFor(Duration::ZERO)).watch().unwrap();
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

/// If a handler is started inside a call, it handles the events published after it was started.
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

/// Watchers that are stopped and dropped inside a call are removed by the time the outer call
/// returns.
#[test]
fn watchers_that_are_stopped_or_dropped_inside_are_gone() {
    watched(|| {
        let bus = inline::<u64>(100);
        let kept = Arc::new(());
        let watch = || {
            let in_filter = kept.clone();
            bus.watch_builder().filter(move |_: &u64| Arc::strong_count(&in_filter) > 0).watch().unwrap()
        };
        let (dropped, mut stopped, own) = (watch(), watch(), bus.clone());
        bus.publisher().publish(0).unwrap();
        let (handle, publisher) = (stopped.handle(), bus.publisher());
        inside(&bus, move || {
            handle.stop();
            drop(dropped);
            // One watcher is dropped before it is registered.
            drop(own.watch().unwrap());
            publisher.publish(2).unwrap();
        });
        assert_eq!(Arc::strong_count(&kept), 1, "the filters must have been dropped");
        let received = available(&mut stopped);
        assert_eq!(received[0], Event(0));
        assert!(!received.contains(&Event(2)), "{received:?}");
        assert_eq!(stopped.try_recv(), Err(TryRecvError::Ended));
        assert_eq!(stopped.end_reason(), Some(EndReason::Stopped));
        assert_eq!(bus.watcher_count(), 1);
        assert_balanced(&bus.stats());
    });
}

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

/// A filter may read another watcher, and the reads free capacity for later publishes.
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

/// After a nested close, all further events, gaps and registrations are refused. Events accepted
/// before the close are still offered, and the bus has ended when the outer call returns.
#[test]
fn a_nested_close_ends_the_bus_after_what_was_accepted() {
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

/// Every form of nested shutdown immediately returns a snapshot. The bus has ended when the outer
/// call returns.
#[test]
fn a_nested_shutdown_returns_immediately_and_ends_the_bus() {
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
        assert_eq!(Arc::strong_count(&handle), 1, "the filter must have been dropped");
    });
}

/// A filter may publish on another inline bus, even through a chain of buses that leads back to the
/// first bus.
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

/// Two threads publish on two buses whose filters publish to each other. Every publish returns, and
/// each accepted event arrives.
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

/// If a call of another bus is made from inside a call, and another thread occupies that bus, the
/// inner call returns an error, because that thread may be waiting for the calling thread.
#[test]
fn nested_calls_of_an_occupied_bus_return_an_error() {
    watched(|| {
        let (bus, other) = (inline(100), inline(100));
        let holder = Holder::start(&other);
        let (outer, publisher) = (other.clone(), other.publisher());
        let (refused, gap, watched, flushed) = inside(&bus, move || {
            let refused = [
                publisher.publish(2),
                publisher.try_publish(3),
                publisher.publish_timeout(4, LONG),
                publisher.publish_async(5).now_or_never().expect("the publish must not wait"),
            ];
            (refused, publisher.publish_gap(2), outer.watch().map(drop), outer.flush(LONG))
        });
        assert_eq!(refused, [2, 3, 4, 5].map(|event| Err(PublishError::Full(event))));
        assert_eq!((gap, other.stats().rejected_full), (Err(PublishError::Full(())), 4));
        assert!(matches!(watched, Err(WatchError::WouldDeadlock)), "{watched:?}");
        assert!(flushed.is_err());
        drop(holder.finish());
        assert_eq!((other.watcher_count(), other.stats().missed), (0, 0));
        let outer = other.clone();
        let results =
            inside(&bus, move || (outer.publisher().publish(6), outer.watch().is_ok(), outer.flush(LONG)));
        assert_eq!(results, (Ok(()), true, Ok(())));
        assert_settled(&other.stats(), 2);
    });
}

/// If a call would wait for itself, it immediately returns an error. The getters still work.
#[test]
fn nested_flushes_joins_and_getters_do_not_wait() {
    watched(|| {
        let bus = inline::<u64>(100);
        let handle = bus.watch_builder().spawn(|_| ()).unwrap();
        let watcher = bus.watch().unwrap();
        let (inner, joined, publisher) = (bus.clone(), handle.clone(), bus.publisher());
        let (waits, answers, published) = inside(&bus, move || {
            let flushed = inner.flush_async(LONG).now_or_never().expect("the flush must not wait");
            let answers = (inner.watcher_count(), watcher.len(), publisher.is_closed());
            let before = inner.stats().published();
            publisher.publish(2).unwrap();
            let published = [before, inner.stats().published()];
            drop(watcher);
            ((inner.flush(LONG), flushed, joined.join(LONG)), answers, published)
        });
        assert_eq!(waits, (Err(FlushError::WouldDeadlock), Err(FlushError::WouldDeadlock), false));
        assert_eq!(answers, (3, 1, false));
        assert!(published[0] <= 1 && published[1] <= 2, "{published:?}");
        assert_eq!(bus.flush(LONG), Ok(()));
        assert_settled(&bus.stats(), 2);
        assert!(bus.shutdown().complete);
    });
}
