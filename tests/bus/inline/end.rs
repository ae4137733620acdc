//! Close, shutdown and drop of a bus without a thread. It has always ended when its close returns,
//! except for its handlers.

use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use eventcast::Delivery::{self, Event};
use eventcast::OverflowPolicy::Evict;
use eventcast::bus::EndReason;
use eventcast::error::{PublishError, RecvError, RecvTimeoutError, TryRecvError, WatchError};
use eventcast::{Broadcaster, Publisher, Watcher};
use futures::executor::block_on;
use futures::future::join;
use futures::{FutureExt, StreamExt};

use crate::support::{LONG, assert_balanced, available, drain, turnstile, watched};

use super::support::{assert_settled, inline, options, timed, waits};

/// Readers receive everything that is queued, and then the end, as soon as `close` has returned.
#[test]
fn the_end_is_there_when_close_returns() {
    let bus = inline(3);
    let mut watchers = [bus.watch().unwrap(), waits(&bus, 3).watch().unwrap()];
    bus.publisher().publish_batch([1, 2, 3]).unwrap();
    bus.close();
    for watcher in &mut watchers {
        assert_eq!(available(watcher), [1, 2, 3].map(Event));
        assert_eq!(watcher.try_recv(), Err(TryRecvError::Ended));
        assert_eq!((watcher.recv(), watcher.end_reason()), (Err(RecvError), Some(EndReason::Closed)));
        assert_eq!(watcher.recv_timeout(LONG), Err(RecvTimeoutError::Ended));
        assert!(watcher.recv_batch().is_err());
        assert_eq!(watcher.next().now_or_never(), Some(None));
    }
    assert!(bus.shutdown().complete);
    assert_settled(&bus.stats(), 3);
}

/// After the end every call returns an error, and the publishes return their events.
#[test]
fn after_the_end_everything_is_refused() {
    let bus = inline(3);
    let mut watcher = bus.watch().unwrap();
    let publisher = bus.publisher();
    bus.close();
    assert_eq!(publisher.publish(1), Err(PublishError::Closed(1)));
    assert_eq!(publisher.try_publish(2), Err(PublishError::Closed(2)));
    assert_eq!(publisher.publish_timeout(3, LONG), Err(PublishError::Closed(3)));
    assert_eq!(publisher.publish_batch([4, 5]), Err(PublishError::Closed(vec![4, 5])));
    assert_eq!(publisher.try_publish_batch([6]), Err(PublishError::Closed(vec![6])));
    assert_eq!(block_on(publisher.publish_async(7)), Err(PublishError::Closed(7)));
    assert_eq!(publisher.publish_gap(8), Err(PublishError::Closed(())));
    assert_eq!(publisher.publish_gap(8), Err(PublishError::Closed(())));
    assert_eq!(block_on(publisher.ready()), Err(PublishError::Closed(())));
    assert!(matches!(bus.watch(), Err(WatchError::Closed)));
    assert!(matches!(bus.watch_builder().watch(), Err(WatchError::Closed)));
    assert!(matches!(bus.watch_builder().spawn(|_| ()), Err(WatchError::Closed)));
    assert_eq!((bus.flush(LONG), block_on(bus.flush_async(LONG))), (Ok(()), Ok(())));
    assert_eq!(watcher.try_recv(), Err(TryRecvError::Ended));
    let stats = bus.shutdown().bus;
    assert_eq!((stats.accepted, stats.rejected_closed, stats.rejected_full, stats.missed), (0, 7, 0, 0));
    drop(watcher);
    assert_balanced(&bus.stats());
    assert!(bus.stats().watchers.is_empty());
}

/// An unread watcher does not delay the end, even if its queue is full, because nothing is pending.
#[test]
fn a_full_watcher_does_not_delay_the_end() {
    watched(|| {
        let bus = inline(2);
        let mut full = waits(&bus, 2).watch().unwrap();
        bus.publisher().publish_batch([1, 2]).unwrap();
        let report = bus.shutdown();
        assert!(report.complete && report.threads_ended && report.is_clean(), "{report}");
        assert_eq!((report.bus.watchers[0].queued, report.bus.pending), (2, 0));
        assert_eq!(drain(&mut full), [Event(1), Event(2)]);
    });
}

/// A shutdown waits until the handlers have handled everything. Every call returns the same report.
#[test]
fn a_shutdown_waits_for_handlers() {
    watched(|| {
        let bus = inline(100);
        let (handled_tx, handled) = mpsc::channel();
        let handler = move |delivery: Delivery<&u64>| handled_tx.send(*delivery.event().unwrap()).unwrap();
        let handle = bus.watch_builder().spawn(handler).unwrap();
        let (turnstile, mut pass) = turnstile();
        bus.watch_builder().spawn(move |delivery| pass(delivery.event().copied())).unwrap();
        bus.publisher().publish_batch(1..=10).unwrap();
        assert_eq!(turnstile.entered.recv_timeout(LONG), Ok(Some(1)));
        assert!(!bus.drain(Duration::ZERO).complete);
        let reports: Vec<_> = thread::scope(|scope| {
            let calls: Vec<_> = (0..3).map(|_| scope.spawn(|| bus.shutdown())).collect();
            assert!(calls.iter().all(|call| !call.is_finished()));
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

/// A runner on a thread that the program has started itself.
#[test]
fn a_runner_handles_everything_on_its_own_thread() {
    watched(|| {
        let bus = inline(100);
        let (handled_tx, handled) = mpsc::channel();
        let handler = move |delivery: Delivery<&u64>| {
            handled_tx.send((*delivery.event().unwrap(), thread::current().id())).unwrap();
        };
        let runner = bus.watch_builder().runner(handler).unwrap();
        let thread = thread::spawn(|| {
            runner.run();
            thread::current().id()
        });
        (1..=10).for_each(|event| bus.publisher().publish(event).unwrap());
        assert_eq!(bus.flush(LONG), Ok(()));
        assert_eq!(handled.try_iter().map(|(event, _)| event).sum::<u64>(), 55);
        bus.publisher().publish(11).unwrap();
        assert!(bus.shutdown().complete);
        let id = thread.join().unwrap();
        assert_eq!(handled.into_iter().collect::<Vec<_>>(), [(11, id)]);
    });
}

/// A runner that is awaited on the thread that publishes: the two take turns, also with a queue of
/// one event.
#[test]
fn a_runner_is_awaited_beside_its_publisher() {
    watched(|| {
        let bus = inline(1);
        let (handled_tx, handled) = mpsc::channel();
        let handler = move |delivery: Delivery<&u64>| handled_tx.send(*delivery.event().unwrap()).unwrap();
        let runner = waits(&bus, 1).runner(handler).unwrap();
        let publishing = async {
            for event in 0..500 {
                bus.publisher().publish_async(event).await.unwrap();
            }
            bus.shutdown_async(LONG).await
        };
        let (report, ()) = block_on(join(publishing, runner));
        assert!(report.complete, "{report}");
        assert!(handled.into_iter().eq(0..500));
    });
}

/// A runner that is run after the end, on the thread that ended the bus.
#[test]
fn a_runner_can_be_run_after_the_close() {
    let bus = inline(100);
    let (handled_tx, handled) = mpsc::channel();
    let runner =
        bus.watch_builder().runner(move |delivery| handled_tx.send(delivery.event().copied()).unwrap());
    let runner = runner.unwrap();
    bus.publisher().publish_batch([1, 2]).unwrap();
    bus.close();
    runner.run();
    assert_eq!(handled.into_iter().collect::<Vec<_>>(), [Some(1), Some(2)]);
    assert!(bus.shutdown().complete);
}

/// A shutdown by deadline abandons a handler that does not return, and reports it.
#[test]
fn a_shutdown_by_deadline_abandons_a_handler() {
    watched(|| {
        let (clock, bus) = timed(options(3));
        let (turnstile, mut pass) = turnstile();
        let handle = bus.watch_builder().spawn(move |delivery| pass(delivery.event().copied())).unwrap();
        bus.publisher().publish_batch(1..=5).unwrap();
        assert_eq!(turnstile.entered.recv_timeout(LONG), Ok(Some(1)));
        thread::scope(|scope| {
            let shutdown = scope.spawn(|| bus.shutdown_timeout(Duration::from_secs(5)));
            clock.wait_for_waiters(1);
            clock.advance(Duration::from_secs(5));
            let report = shutdown.join().unwrap();
            assert!(!report.complete && !report.threads_ended, "{report}");
            assert_eq!((report.bus.watchers[0].delivered, report.bus.watchers[0].queued), (0, 3));
        });
        assert!(!handle.join(Duration::ZERO));
        turnstile.go.send(()).unwrap();
        assert!(handle.join(LONG));
        let stats = handle.stats();
        assert_eq!((stats.delivered, stats.dropped.abandoned, stats.dropped.incoming), (1, 2, 2));
        assert_eq!((stats.queued, stats.lag), (0, 0));
        assert!(!bus.shutdown().complete, "it was given up");
        assert_settled(&bus.stats(), 5);
    });
}

/// `drain` abandons nothing, and a later shutdown completes.
#[test]
fn a_drain_abandons_nothing() {
    watched(|| {
        let bus = inline(10);
        let (turnstile, mut pass) = turnstile();
        let handle = bus.watch_builder().spawn(move |delivery| pass(delivery.event().copied())).unwrap();
        bus.publisher().publish_batch([1, 2]).unwrap();
        assert!(!bus.drain(Duration::from_millis(1)).complete);
        assert!(!block_on(bus.drain_async(Duration::from_millis(1))).complete);
        drop(turnstile);
        let report = bus.shutdown_timeout(LONG);
        assert!(report.complete && report.is_clean(), "{report}");
        assert_eq!(handle.stats().delivered, 2);
    });
}

/// Each reader learns why it ended.
#[test]
fn each_watcher_knows_why_it_ended() {
    let bus = inline(1);
    let mut closed = bus.watch().unwrap();
    let mut stopped = bus.watch().unwrap();
    let mut evicted = bus.watch_builder().overflow(Evict).watch().unwrap();
    bus.publisher().publish_batch([1, 2]).unwrap();
    stopped.stop();
    bus.close();
    let ends = [&mut closed, &mut stopped, &mut evicted].map(|watcher: &mut Watcher<u64>| {
        drain(watcher);
        watcher.end_reason().unwrap()
    });
    assert_eq!(ends, [EndReason::Closed, EndReason::Stopped, EndReason::Evicted]);
}

/// The drop of the last handle ends the bus, on whichever thread. Publishers do not keep it open.
#[test]
fn the_drop_of_the_last_handle_ends_the_bus() {
    let bus = inline(10);
    let (publisher, mut watcher) = (bus.publisher(), bus.watch().unwrap());
    publisher.publish(1).unwrap();
    let clone = bus.clone();
    drop(bus);
    publisher.publish(2).unwrap();
    thread::spawn(move || drop(clone)).join().unwrap();
    assert_eq!(publisher.publish(3), Err(PublishError::Closed(3)));
    assert_eq!(available(&mut watcher), [Event(1), Event(2)]);
    assert_eq!(watcher.try_recv(), Err(TryRecvError::Ended));
}

/// A close wakes every reader that sleeps, and every reader's task.
#[test]
fn the_end_wakes_all_readers() {
    watched(|| {
        let (clock, bus) = timed(options(10));
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

/// An event may own the last handle of another bus.
#[test]
fn an_event_may_own_a_bus() {
    watched(|| {
        let outer = inline::<std::sync::Arc<Broadcaster<u64>>>(10);
        let inner = std::sync::Arc::new(inline(10));
        let (publisher, mut watcher) = (inner.publisher(), inner.watch().unwrap());
        publisher.publish(1).unwrap();
        outer.publisher().publish(inner).unwrap();
        assert!(publisher.is_closed(), "nobody watches the outer bus");
        assert_eq!(available(&mut watcher), [Event(1)]);
        assert_eq!(watcher.try_recv(), Err(TryRecvError::Ended));
    });
}

/// An event of the history. At the end of its bus, another thread uses the bus, and the destructor
/// waits for it.
#[derive(Clone)]
struct Kept {
    publisher: Option<Publisher<Kept>>,
    says: mpsc::Sender<bool>,
}

impl Drop for Kept {
    fn drop(&mut self) {
        let Some(publisher) = self.publisher.take() else { return };
        let says = self.says.clone();
        let other = thread::spawn(move || {
            let event = Kept { publisher: None, says: says.clone() };
            let is_stopped = publisher.try_publish(event).is_err_and(|error| error.is_closed());
            says.send(is_stopped).unwrap();
        });
        let _ = other.join();
    }
}

/// The destructors of the history run at the end, and not while the thread that ends the bus is
/// inside it.
#[test]
fn the_destructors_of_the_history_hold_no_lock() {
    for drops in [false, true] {
        watched(move || {
            let bus = Broadcaster::with_options(options(10).history(5)).unwrap();
            let (says, said) = mpsc::channel();
            for _ in 0..3 {
                let event = Kept { publisher: Some(bus.publisher()), says: says.clone() };
                bus.publisher().publish(event).map_err(drop).unwrap();
            }
            drop(says);
            if drops {
                drop(bus);
            } else {
                assert!(bus.shutdown().complete);
            }
            assert_eq!(said.iter().collect::<Vec<_>>(), [true; 3]);
        });
    }
}
