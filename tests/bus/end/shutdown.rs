//! Shutting down, closing and dropping the bus.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::thread;
use std::time::Duration;

use eventcast::Delivery::Event;
use eventcast::OverflowPolicy::{Evict, Wait};
use eventcast::bus::EndReason;
use eventcast::error::{PublishError, RecvError, RecvTimeoutError, TryRecvError, WatchError};
use eventcast::{Broadcaster, BusOptions, Delivery, Watcher};
use futures::executor::block_on;
use futures::{FutureExt, StreamExt};

use crate::support::{
    AtDrop, LONG, Loaded, assert_balanced, assert_settled, available, bus, bus_with, drain, events, hold,
    inline, inline_options, keeping, on_both, stopping_handler, timed, until, waits, watched,
};

/// G3: if a publish returns `Ok`, its event is offered, even during a concurrent shutdown.
#[test]
fn nothing_accepted_is_lost_to_a_shutdown() {
    // A round takes a long time under Miri.
    for round in 0..if cfg!(miri) { 5 } else { 300 } {
        let bus = bus_with(BusOptions::default().incoming_capacity(8).overflow(Wait));
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
                                    assert!(error.is_closed());
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

/// G8: every shutdown returns only after the handlers have handled everything, and all shutdowns
/// return the same report.
#[test]
fn concurrent_shutdowns_all_wait_and_agree() {
    on_both(|options| {
        let bus = bus_with(options);
        let (handled_tx, handled) = mpsc::channel();
        let handler = move |delivery: Delivery<&u64>| handled_tx.send(*delivery.event().unwrap()).unwrap();
        let handle = bus.watch_builder().spawn(handler).unwrap();
        let (turnstile, _) = stopping_handler(bus.watch_builder());
        bus.publisher().publish_batch(1..=10).unwrap();
        turnstile.wait_for(Some(1));
        assert!(!bus.drain(Duration::ZERO).complete);
        let reports: Vec<_> = thread::scope(|scope| {
            let calls: Vec<_> = (0..3).map(|_| scope.spawn(|| bus.shutdown())).collect();
            assert!(
                calls.iter().all(|call| !call.is_finished()),
                "a handler is still processing its first event"
            );
            drop(turnstile);
            calls.into_iter().map(|call| call.join().unwrap()).collect()
        });
        assert!(reports[0].complete && reports[0].threads_ended, "{}", reports[0]);
        assert!(reports.iter().all(|report| *report == reports[0]));
        assert_eq!(bus.shutdown(), reports[0]);
        assert!(handled.into_iter().eq(1..=10));
        assert_eq!(handle.stats().delivered, 10);
        assert_settled(&bus.stats(), 10);
    });
}

/// After the bus has ended, every call returns an error, and publish errors return their events to
/// the caller.
#[test]
fn after_the_end_everything_is_refused() {
    on_both(|options| {
        let bus = bus_with(options);
        let mut watcher = bus.watch().unwrap();
        let publisher = bus.publisher();
        publisher.publish(0).unwrap();
        assert!(!publisher.is_closed());
        bus.shutdown();
        assert!(publisher.is_closed());
        assert_eq!(publisher.publish(1), Err(PublishError::Closed(1)));
        assert_eq!(publisher.try_publish(2), Err(PublishError::Closed(2)));
        assert_eq!(publisher.publish_timeout(3, LONG), Err(PublishError::Closed(3)));
        assert_eq!(publisher.publish_batch([4, 5]), Err(PublishError::Closed(vec![4, 5])));
        assert_eq!(publisher.try_publish_batch([6]), Err(PublishError::Closed(vec![6])));
        assert_eq!(block_on(publisher.publish_async(7)), Err(PublishError::Closed(7)));
        assert_eq!(publisher.publish_gap(8), Err(PublishError::Closed(())));
        assert_eq!(block_on(publisher.ready()), Err(PublishError::Closed(())));
        assert!(matches!(bus.watch(), Err(WatchError::Closed)));
        assert!(matches!(bus.watch_builder().watch(), Err(WatchError::Closed)));
        assert!(matches!(bus.watch_builder().spawn(|_| ()), Err(WatchError::Closed)));
        assert_eq!((bus.flush(LONG), block_on(bus.flush_async(LONG))), (Ok(()), Ok(())));
        assert_eq!(watcher.recv(), Ok(Event(0)));
        assert_eq!(watcher.recv(), Err(RecvError));
        assert_eq!(watcher.try_recv(), Err(TryRecvError::Ended));
        assert_eq!(watcher.recv_timeout(LONG), Err(RecvTimeoutError::Ended));
        assert!(watcher.recv_batch().is_err());
        assert_eq!(block_on(watcher.next()), None);
        let stats = bus.stats();
        assert_eq!((stats.accepted, stats.rejected_closed, stats.rejected_full, stats.missed), (1, 7, 0, 0));
        drop(watcher);
        assert_balanced(&bus.stats());
        assert!(bus.stats().watchers.is_empty());
    });
}

/// On an inline bus, as soon as `close` has returned, readers receive all queued events, and then
/// see that the bus has ended.
#[test]
fn the_end_is_there_when_close_returns() {
    let bus = inline(3);
    let mut watchers = [bus.watch().unwrap(), waits(&bus, 3).watch().unwrap()];
    bus.publisher().publish_batch([1, 2, 3]).unwrap();
    bus.close();
    for watcher in &mut watchers {
        assert_eq!(available(watcher), [1, 2, 3].map(Event));
        assert_eq!(
            (watcher.try_recv(), watcher.end_reason()),
            (Err(TryRecvError::Ended), Some(EndReason::Closed))
        );
        assert_eq!(watcher.next().now_or_never(), Some(None));
    }
    assert!(bus.shutdown().complete);
    assert_settled(&bus.stats(), 3);
}

#[test]
fn each_watcher_knows_why_it_ended() {
    on_both(|options| {
        let bus = bus_with(options.queue_capacity(1));
        let mut closed = bus.watch().unwrap();
        let mut stopped = bus.watch().unwrap();
        let mut evicted = bus.watch_builder().overflow(Evict).watch().unwrap();
        bus.publisher().publish_batch([1, 2]).unwrap();
        bus.flush(LONG).unwrap();
        stopped.stop();
        bus.close();
        let ends = [&mut closed, &mut stopped, &mut evicted].map(|watcher: &mut Watcher<u64>| {
            drain(watcher);
            watcher.end_reason().unwrap()
        });
        assert_eq!(ends, [EndReason::Closed, EndReason::Stopped, EndReason::Evicted]);
    });
}

/// Dropping one of several clones does not close the bus, and a publisher does not keep the bus
/// open. The bus closes when the last handle is dropped.
#[test]
fn the_last_clone_closes_the_bus_on_whichever_thread() {
    on_both(|options| {
        let bus = bus_with(options);
        let (publisher, mut watcher) = (bus.publisher(), bus.watch().unwrap());
        publisher.publish(1).unwrap();
        let clones: Vec<_> = (0..8).map(|_| bus.clone()).collect();
        drop(bus.clone());
        drop(bus);
        assert!(!publisher.is_closed());
        publisher.publish(2).unwrap();
        let threads = clones.into_iter().map(|clone| thread::spawn(move || drop(clone)));
        threads.collect::<Vec<_>>().into_iter().for_each(|thread| thread.join().unwrap());
        assert!(publisher.is_closed());
        assert_eq!(publisher.publish(3), Err(PublishError::Closed(3)));
        assert_eq!(drain(&mut watcher), [Event(1), Event(2)]);
        assert_eq!(watcher.try_recv(), Err(TryRecvError::Ended));
    });
}

/// Closing the bus wakes every sleeping reader, whether it is a thread or a task.
#[test]
fn the_end_wakes_all_readers() {
    on_both(|options| {
        let (clock, bus) = timed::<u64>(options);
        let readers: Vec<_> = (1..=3)
            .map(|nth| {
                let mut watcher = bus.watch().unwrap();
                let reader = thread::spawn(move || watcher.recv_timeout(LONG));
                clock.wait_for_waiters(nth);
                reader
            })
            .collect();
        let mut watcher = bus.watch().unwrap();
        let task = thread::spawn(move || block_on(watcher.recv_async()));
        bus.close();
        for reader in readers {
            assert_eq!(reader.join().unwrap(), Err(RecvTimeoutError::Ended));
        }
        assert_eq!(task.join().unwrap(), Err(RecvError));
    });
}

/// If an event owns an inner bus, dropping the last copy of that event closes the inner bus, even
/// on the outer bus's dispatcher. The drop does not wait for any other thread, because the inner
/// bus's dispatcher may be blocked.
#[test]
fn an_event_may_own_a_bus() {
    on_both(|options| {
        let outer = bus_with::<Arc<Broadcaster<u64>>>(options);
        let inner = Arc::new(bus::<u64>(10, 10));
        let (publisher, mut watcher) = (inner.publisher(), inner.watch().unwrap());
        let held = hold(&inner);
        outer.publisher().publish(inner).unwrap();
        outer.flush(LONG).unwrap();
        assert!(publisher.is_closed(), "the outer bus has no watcher");
        assert!(outer.shutdown().complete);
        drop(held);
        assert_eq!(events(&drain(&mut watcher)), [u64::MAX - 1, u64::MAX]);
    });
}

/// Every reader sees the end of the bus before any user-supplied destructor runs, because such a
/// destructor may wait for a reader.
#[test]
fn a_destructor_at_the_end_delays_no_reader() {
    on_both(|options| {
        let bus = bus_with::<u64>(options);
        let (ended, sees_the_end) = mpsc::channel();
        let waits = AtDrop(move || assert!(sees_the_end.recv().is_ok()));
        let first = bus.watch_builder().filter(keeping(waits)).watch().unwrap();
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

/// The last handle is often dropped while a panic in user code unwinds. The bus still ends as
/// usual.
#[test]
fn a_bus_that_is_dropped_by_a_panic_ends() {
    on_both(|options| {
        let bus = bus_with(options.history(2));
        let (publisher, mut watcher) = (bus.publisher(), bus.watch().unwrap());
        let panicked = thread::spawn(move || {
            bus.publisher().publish(1).unwrap();
            panic!("as a failed assertion would");
        });
        assert!(panicked.join().is_err());
        assert!(publisher.try_publish(2).unwrap_err().is_closed());
        assert_eq!(drain(&mut watcher), [Event(1)]);
    });
}

/// When an inline bus ends, the destructors of the events in its history run after the ending
/// thread has left the bus. Each of these destructors waits for another thread that uses the bus.
#[test]
fn the_destructors_of_the_history_hold_no_lock() {
    for drops in [false, true] {
        watched(move || {
            let bus = bus_with(inline_options(10).history(5));
            let (said_tx, said) = mpsc::channel();
            for number in 0..3 {
                let (publisher, said_tx) = (bus.publisher(), said_tx.clone());
                let event = Loaded::with(number, move || {
                    let (publisher, said_tx) = (publisher.clone(), said_tx.clone());
                    let publish = move || publisher.try_publish(Loaded::plain(9)).unwrap_err().is_closed();
                    said_tx.send(thread::spawn(publish).join().unwrap()).unwrap();
                });
                bus.publisher().publish(event).unwrap();
            }
            drop(said_tx);
            if drops {
                drop(bus);
            } else {
                assert!(bus.shutdown().complete);
            }
            assert_eq!(said.iter().collect::<Vec<_>>(), [true; 3]);
        });
    }
}

/// Dropping the bus closes it and does not wait for any thread, even if an unread watcher is on the
/// same stack.
#[test]
fn dropping_the_bus_does_not_wait() {
    let bus = bus(100, 1);
    let mut held = hold(&bus);
    let mut other = bus.watch_builder().queue_capacity(10).watch().unwrap();
    let publisher = bus.publisher();
    publisher.publish(1).unwrap();
    drop(bus);
    assert!(publisher.publish(2).unwrap_err().is_closed());
    // The dispatcher's thread still offers the accepted events.
    assert_eq!(drain(&mut held.watcher), [Event(u64::MAX - 1), Event(u64::MAX), Event(1)]);
    assert_eq!(events(&drain(&mut other)), [1]);
}

/// If a test panics while it holds a `Wait` watcher, the test fails instead of hanging.
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

/// When a shutdown returns, the threads of the dispatcher and of all handlers have ended, including
/// the threads of handlers that ended earlier. The last thing that a thread does is drop the values
/// that it owns. The destructors in this test are slow, so a thread that was not joined would still
/// be running them.
#[test]
fn a_shutdown_joins_the_threads_of_the_bus() {
    static BEGUN: AtomicUsize = AtomicUsize::new(0);
    static ENDED: AtomicUsize = AtomicUsize::new(0);
    struct OfThread;
    impl Drop for OfThread {
        fn drop(&mut self) {
            (0..50).for_each(|_| thread::yield_now());
            ENDED.fetch_add(1, Ordering::SeqCst);
        }
    }
    thread_local!(static MARK: OfThread = {
        BEGUN.fetch_add(1, Ordering::SeqCst);
        OfThread
    });
    let mark = || MARK.with(|_| true);
    for round in 0..if cfg!(miri) { 2 } else { 100 } {
        let bus = Broadcaster::<u32>::new().unwrap();
        let early = bus.watch_builder().spawn(move |_| assert!(mark())).unwrap();
        bus.watch_builder().filter(move |_| mark()).spawn(move |_| assert!(mark())).unwrap();
        bus.publisher().publish(1).unwrap();
        early.stop();
        let report = match round % 3 {
            0 => bus.shutdown(),
            1 => bus.shutdown_timeout(LONG),
            _ => bus.drain(LONG),
        };
        assert!(report.threads_ended);
        assert_eq!(ENDED.load(Ordering::SeqCst), BEGUN.load(Ordering::SeqCst), "round {round}");
        assert!(
            BEGUN.load(Ordering::SeqCst) >= 2 * (round + 1),
            "the dispatcher's and the handler's threads must have begun their destructors"
        );
    }
}

/// Events that are only kept in the history do not make a shutdown incomplete, however long their
/// destructors take. The report shows that the dispatcher's thread is still running, and the next
/// shutdown joins that thread.
#[test]
fn kept_events_with_slow_destructors_leave_a_shutdown_complete() {
    #[derive(Clone)]
    struct Held(Arc<Mutex<()>>);
    impl Drop for Held {
        fn drop(&mut self) {
            drop(self.0.lock());
        }
    }
    let bus = bus_with(BusOptions::default().history(10));
    let lock = Arc::new(Mutex::new(()));
    bus.publisher().publish(Held(lock.clone())).unwrap();
    bus.flush(LONG).unwrap();
    let held = lock.lock().unwrap();
    until(|| bus.drain(Duration::from_millis(1)).complete);
    let report = bus.shutdown_timeout(Duration::ZERO);
    assert!(report.complete && report.is_clean() && !report.threads_ended);
    drop(held);
    assert!(bus.shutdown().threads_ended);
    assert_eq!(Arc::strong_count(&lock), 1);
}
