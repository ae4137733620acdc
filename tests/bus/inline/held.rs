//! G11: while another thread is inside the bus, and stays there, the calls that end something or
//! only look return. What they asked for is done when that thread's call returns.

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use eventcast::Delivery::Event;
use eventcast::bus::EndReason;
use eventcast::error::{PublishError, TryRecvError};

use crate::support::{LONG, Live, Tracked, assert_balanced, available, drain, watched};

use super::support::{HELD, Holder, inline, waits};

#[test]
fn close_returns_while_the_lock_is_held() {
    watched(|| {
        let bus = inline(100);
        let mut other = bus.watch().unwrap();
        let holder = Holder::start(&bus);
        bus.close();
        bus.close();
        assert!(bus.publisher().is_closed());
        let mut held = holder.finish();
        for watcher in [&mut held, &mut other] {
            assert_eq!(available(watcher), [Event(HELD)]);
            assert_eq!(watcher.try_recv(), Err(TryRecvError::Ended));
            assert_eq!(watcher.end_reason(), Some(EndReason::Closed));
        }
        assert_eq!(bus.publisher().publish(1), Err(PublishError::Closed(1)));
        assert!(bus.shutdown().complete);
    });
}

/// A publish that waits for the lock when the bus is closed is refused or accepted, and never left
/// waiting.
#[test]
fn a_publish_that_waits_for_the_lock_learns_of_the_close() {
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

#[test]
fn stop_returns_while_the_lock_is_held() {
    watched(|| {
        let bus = inline(100);
        let kept = Arc::new(());
        let in_filter = kept.clone();
        let filter = move |_: &u64| Arc::strong_count(&in_filter) > 0;
        let mut stopped = bus.watch_builder().filter(filter).watch().unwrap();
        bus.publisher().publish(1).unwrap();
        let holder = Holder::start(&bus);
        stopped.stop();
        stopped.handle().stop();
        assert_eq!(stopped.try_recv(), Ok(Event(1)));
        let held = holder.finish();
        assert_eq!(Arc::strong_count(&kept), 1, "the filter is gone");
        bus.publisher().publish(2).unwrap();
        assert!(!drain(&mut stopped).contains(&Event(2)));
        assert_eq!(stopped.end_reason(), Some(EndReason::Stopped));
        assert_eq!(held.len(), 2);
        assert_balanced(&bus.stats());
    });
}

/// A dropped watcher frees its events immediately, and is removed when the lock is free.
#[test]
fn the_drop_of_a_watcher_returns_while_the_lock_is_held() {
    watched(|| {
        let live = Live::default();
        let bus = inline::<Tracked>(100);
        let (entered_tx, entered) = std::sync::mpsc::channel();
        let (go, gate) = std::sync::mpsc::channel::<()>();
        let dropped = bus.watch_builder().name("dropped").watch().unwrap();
        let holds = bus.watch_builder().filter(move |event: &Tracked| {
            if event.number == HELD {
                let _ = entered_tx.send(());
                let _ = gate.recv();
            }
            false
        });
        let _holds = holds.watch().unwrap();
        (1..=5).for_each(|number| bus.publisher().publish(live.event(number)).unwrap());
        assert_eq!(live.count(), 5);
        thread::scope(|scope| {
            let holder = scope.spawn(|| bus.publisher().publish(live.event(HELD)));
            entered.recv_timeout(LONG).unwrap();
            drop(dropped);
            assert_eq!(bus.watcher_count(), 1);
            assert!(live.count() <= 1, "its queue is empty");
            drop(go);
            holder.join().unwrap().unwrap();
        });
        assert_eq!(live.count(), 0);
        let stats = bus.stats();
        assert_eq!((stats.watchers.len(), stats.departed_by_name[0].name.as_str()), (1, "dropped"));
        assert_eq!(stats.departed.dropped.stopped, stats.departed.offered);
        assert_balanced(&stats);
    });
}

/// A full `Wait` watcher that goes while the lock is held lets the publisher that waits for it
/// continue as soon as the lock is free.
#[test]
fn a_watcher_that_ends_while_the_lock_is_held_releases_a_publisher() {
    for drops in [false, true] {
        watched(move || {
            let bus = inline(100);
            // Only the first event passes, so that the holder needs no capacity.
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

/// The last handle is dropped on another thread, and the bus has ended when the holder returns.
#[test]
fn the_drop_of_the_last_handle_returns_while_the_lock_is_held() {
    watched(|| {
        let bus = inline(100);
        let mut other = bus.watch().unwrap();
        let publisher = bus.publisher();
        let holder = Holder::start(&bus);
        let clone = bus.clone();
        drop(bus);
        assert!(!publisher.is_closed());
        drop(clone);
        assert!(publisher.is_closed());
        let mut held = holder.finish();
        for watcher in [&mut held, &mut other] {
            assert_eq!(available(watcher), [Event(HELD)]);
            assert_eq!(watcher.try_recv(), Err(TryRecvError::Ended));
        }
    });
}

/// A shutdown waits for the end and not for the lock: with a deadline it returns.
#[test]
fn a_drain_returns_while_the_lock_is_held() {
    watched(|| {
        let bus = inline(100);
        let mut other = bus.watch().unwrap();
        let holder = Holder::start(&bus);
        assert!(!bus.drain(Duration::ZERO).complete);
        assert!(bus.publisher().is_closed());
        let waiting = {
            let bus = bus.clone();
            thread::spawn(move || bus.shutdown())
        };
        let _held = holder.finish();
        assert!(waiting.join().unwrap().complete);
        assert!(bus.shutdown().complete);
        assert_eq!(drain(&mut other), [Event(HELD)]);
    });
}

/// The same for a shutdown that abandons what is left.
#[test]
fn a_shutdown_by_deadline_returns_while_the_lock_is_held() {
    watched(|| {
        let bus = inline(100);
        let holder = Holder::start(&bus);
        assert!(!bus.shutdown_timeout(Duration::from_millis(10)).complete);
        let _held = holder.finish();
        let report = bus.shutdown();
        assert_balanced(&report.bus);
        assert_eq!(report.bus.accepted, 1);
    });
}

/// Receives and getters return what there is without waiting.
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

/// A flush and a registration wait for the lock. They return when it is free.
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

/// Watchers that are dropped and stopped, and a close, all while the lock is held: everything is
/// done when the lock is free.
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
        assert_eq!(Arc::strong_count(&kept), 1, "the filters are gone");
        assert!(bus.shutdown().complete);
        assert_balanced(&bus.stats());
    });
}

/// A reader that sleeps gets an event that was published while it slept, even if the publisher
/// stays inside the bus: the wake-up may be late, but the event is not lost.
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
