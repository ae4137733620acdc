//! G8, G11: calls that end something or only read state return even while another thread stays
//! inside the bus. Their effects are complete when the other thread's call returns.

use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

use eventcast::Broadcaster;
use eventcast::Delivery::Event;
use eventcast::bus::EndReason;
use eventcast::error::PublishError;

use crate::support::{
    HELD, Holder, LONG, Live, Tracked, assert_balanced, available, drain, inline, turnstile, waits, watched,
};

/// Every call that ends the bus returns even while another thread is inside the bus. The bus has
/// ended once that thread has left the bus.
#[test]
fn the_calls_that_end_the_bus_return_while_the_lock_is_held() {
    type End = fn(Broadcaster<u64>);
    let ends: [(&str, End); 4] = [
        ("close", |bus| {
            bus.close();
            bus.close();
        }),
        ("drop", drop),
        ("drain", |bus| assert!(!bus.drain(Duration::ZERO).complete)),
        ("shutdown", |bus| assert!(!bus.shutdown_timeout(Duration::from_millis(10)).complete)),
    ];
    for (way, end) in ends {
        watched(move || {
            let bus = inline(100);
            let (mut other, publisher) = (bus.watch().unwrap(), bus.publisher());
            let holder = Holder::start(&bus);
            // Dropping the last handle is one of the ways to end the bus, so a second handle exists
            // only for the other ways.
            let kept = (way != "drop").then(|| bus.clone());
            assert!(!publisher.is_closed());
            end(bus);
            assert!(publisher.is_closed(), "{way}");
            let waiting = kept.clone().map(|bus| thread::spawn(move || bus.shutdown()));
            let mut held = holder.finish();
            for watcher in [&mut held, &mut other] {
                assert_eq!(drain(watcher), [Event(HELD)], "{way}");
                assert_eq!(watcher.end_reason(), Some(EndReason::Closed), "{way}");
            }
            assert_eq!(publisher.publish(1), Err(PublishError::Closed(1)), "{way}");
            if let (Some(bus), Some(waiting)) = (kept, waiting) {
                let report = waiting.join().unwrap();
                assert!(report.complete || way == "shutdown", "{way}");
                assert_eq!(report.bus.accepted, 1);
                assert_eq!(bus.shutdown(), report);
                assert_balanced(&report.bus);
            }
        });
    }
}

/// Another thread's publish returns only after the currently running filter has finished, whatever
/// the publish's timeout, so a filter must not wait for that publish. The time spent waiting for
/// the filter does not count towards the timeout.
#[test]
fn a_publish_waits_for_the_filter_that_runs() {
    watched(|| {
        let bus = inline(10);
        let holder = Holder::start(&bus);
        let (publisher, (begins_tx, begins)) = (bus.publisher(), mpsc::channel());
        let other = thread::spawn(move || {
            begins_tx.send(()).unwrap();
            publisher.publish_timeout(2, Duration::ZERO)
        });
        begins.recv_timeout(LONG).unwrap();
        // The yields usually give the other thread enough time to reach the lock. If the thread is
        // late, the filter has already finished.
        (0..1000).for_each(|_| thread::yield_now());
        assert!(!other.is_finished());
        let mut held = holder.finish();
        assert_eq!(other.join().unwrap(), Ok(()));
        assert_eq!(available(&mut held), [Event(HELD), Event(2)]);
    });
}

#[test]
fn a_publish_that_waits_for_the_lock_is_refused_by_the_close() {
    watched(|| {
        let bus = inline(100);
        let mut other = bus.watch().unwrap();
        let holder = Holder::start(&bus);
        let publishing: Vec<_> = (0..4)
            .map(|event| {
                let publisher = bus.publisher();
                thread::spawn(move || publisher.publish(event))
            })
            .collect();
        bus.close();
        let _held = holder.finish();
        let refused: Vec<_> = publishing.into_iter().map(|thread| thread.join().unwrap()).collect();
        assert!(refused.iter().zip(0..).all(|(result, event)| *result == Err(PublishError::Closed(event))));
        assert_eq!(drain(&mut other), [Event(HELD)]);
        assert_eq!(bus.stats().rejected_closed, 4);
    });
}

/// A dropped watcher frees its events immediately, and is removed as soon as the lock is free.
#[test]
fn the_drop_of_a_watcher_returns_while_the_lock_is_held() {
    watched(|| {
        let live = Live::default();
        let bus = inline::<Tracked>(100);
        let (turnstile, mut pass) = turnstile();
        let dropped = bus.watch_builder().name("dropped").watch().unwrap();
        let holds = bus.watch_builder().filter(move |event: &Tracked| {
            if event.number == HELD {
                pass(());
            }
            false
        });
        let _holds = holds.watch().unwrap();
        (1..=5).for_each(|number| bus.publisher().publish(live.event(number)).unwrap());
        assert_eq!(live.count(), 5);
        thread::scope(|scope| {
            let holder = scope.spawn(|| bus.publisher().publish(live.event(HELD)));
            turnstile.wait_for(());
            drop(dropped);
            assert_eq!(bus.watcher_count(), 1);
            assert!(live.count() <= 1, "the queue must be empty");
            drop(turnstile);
            holder.join().unwrap().unwrap();
        });
        assert_eq!(live.count(), 0);
        let stats = bus.stats();
        assert_eq!((stats.watchers.len(), stats.departed_by_name[0].name.as_str()), (1, "dropped"));
        assert_eq!(stats.departed.dropped.stopped, stats.departed.offered);
        assert_balanced(&stats);
    });
}

/// If a full `Wait` watcher ends while another thread holds the lock, the publisher waiting for
/// that watcher can continue as soon as the lock is free.
#[test]
fn a_watcher_that_ends_while_the_lock_is_held_releases_a_publisher() {
    for drops in [false, true] {
        watched(move || {
            let bus = inline(100);
            // Only the first event passes the filter, so the holder's event does not need any
            // capacity.
            let full = waits(&bus, 1).filter(|event: &u64| *event < 10).watch().unwrap();
            bus.publisher().publish(1).unwrap();
            let publisher = bus.publisher();
            let waiting = thread::spawn(move || publisher.publish(2));
            let holder = Holder::start(&bus);
            let kept = if drops {
                drop(full);
                None
            } else {
                full.stop();
                Some(full)
            };
            let mut held = holder.finish();
            assert_eq!(waiting.join().unwrap(), Ok(()));
            assert_eq!(available(&mut held), [Event(HELD), Event(2)]);
            drop(kept);
        });
    }
}

#[test]
fn receives_and_getters_return_while_the_lock_is_held() {
    watched(|| {
        let bus = inline(100);
        let mut watcher = waits(&bus, 100).watch().unwrap();
        bus.publisher().publish_batch(1..=4).unwrap();
        let holder = Holder::start(&bus);
        assert_eq!(bus.stats().watchers.len(), 2);
        assert_eq!(bus.watcher_count(), 2);
        assert!(watcher.len() >= 4 && !bus.publisher().is_closed());
        assert_eq!(watcher.try_recv(), Ok(Event(1)));
        assert_eq!(watcher.recv(), Ok(Event(2)));
        assert_eq!(watcher.try_recv_batch().unwrap().first(), Some(&3));
        assert!(watcher.stats().delivered >= 2);
        drop((bus.clone(), bus.publisher()));
        let mut held = holder.finish();
        assert_eq!(available(&mut held), [Event(HELD)]);
    });
}

#[test]
fn a_flush_and_a_registration_wait_until_the_lock_is_free() {
    watched(|| {
        let bus = inline::<u64>(100);
        let holder = Holder::start(&bus);
        let (flushes, watches) = (bus.clone(), bus.clone());
        let flushing = thread::spawn(move || flushes.flush(LONG));
        let watching = thread::spawn(move || watches.watch().unwrap());
        let _held = holder.finish();
        assert_eq!(flushing.join().unwrap(), Ok(()));
        let mut watcher = watching.join().unwrap();
        bus.publisher().publish(1).unwrap();
        assert_eq!(available(&mut watcher), [Event(1)]);
    });
}

/// Watchers are dropped or stopped, and the bus is closed, while another thread holds the lock. All
/// of these calls take effect as soon as the lock is free.
#[test]
fn all_that_was_asked_while_the_lock_was_held_is_done() {
    watched(|| {
        let bus = inline(100);
        let kept = Arc::new(());
        let watchers: Vec<_> = (0..50)
            .map(|_| {
                let in_filter = kept.clone();
                bus.watch_builder().filter(move |_: &u64| Arc::strong_count(&in_filter) > 0).watch().unwrap()
            })
            .collect();
        let publisher = bus.publisher();
        let holder = Holder::start(&bus);
        thread::scope(|scope| {
            for (index, watcher) in watchers.into_iter().enumerate() {
                scope.spawn(move || if index % 2 == 0 { drop(watcher) } else { watcher.stop() });
            }
            scope.spawn(|| bus.close());
        });
        assert!(publisher.is_closed());
        let mut held = holder.finish();
        assert_eq!(drain(&mut held), [Event(HELD)]);
        assert_eq!(Arc::strong_count(&kept), 1, "the filters must have been dropped");
        assert!(bus.shutdown().complete);
        assert_balanced(&bus.stats());
    });
}

/// A sleeping reader receives an event that is published while the reader is asleep, even if the
/// publisher stays inside the bus. The wake-up may be late, but the event is not lost.
#[test]
fn a_reader_that_sleeps_gets_what_a_held_publish_offered() {
    watched(|| {
        let bus = inline(100);
        let mut watcher = bus.watch().unwrap();
        let reader = thread::spawn(move || watcher.recv());
        let holder = Holder::start(&bus);
        let _held = holder.finish();
        assert_eq!(reader.join().unwrap(), Ok(Event(HELD)));
    });
}
