//! The number of watchers, and threads and tasks that wait for watchers.

use std::pin::pin;
use std::sync::mpsc;
use std::task::Poll;
use std::thread;
use std::time::Duration;

use eventcast::Delivery::Event;
use eventcast::testing::FakeClock;
use eventcast::{Broadcaster, BusOptions};

use crate::support::{
    Ear, LONG, bus_with, calling, drain, inline, on_both, timed, turnstile, waker_calling, watched,
};

// ── the number of watchers ──

#[test]
fn watchers_count_until_they_are_dropped_or_their_handlers_end() {
    on_both(|options| {
        let bus = bus_with::<u64>(options);
        assert_eq!(bus.watcher_count(), 0);
        let (watcher, stopped) = (bus.watch().unwrap(), bus.watch().unwrap());
        let handler = bus.watch_builder().spawn(|_| ()).unwrap();
        let runner = bus.watch_builder().runner(|_| ()).unwrap();
        drop(bus.watch_builder().name("kept").spawn(|_| ()).unwrap());
        assert_eq!(bus.watcher_count(), 5);
        stopped.stop();
        assert_eq!(bus.watcher_count(), 5, "its events can still be read");
        drop(stopped);
        assert_eq!(bus.watcher_count(), 4);
        handler.stop();
        assert!(handler.join(LONG));
        assert_eq!(bus.watcher_count(), 3);
        drop(runner);
        assert_eq!(bus.watcher_count(), 2);
        // The report still lists a handler that has ended with the bus.
        let report = bus.shutdown();
        assert!(report.bus.watchers.iter().any(|watcher| watcher.name == "kept"), "{report}");
        assert_eq!(bus.watcher_count(), 1, "queued events can still be read");
        drop(watcher);
        assert_eq!(bus.watcher_count(), 0);
        // A registration after the end of the bus does not count.
        assert!(bus.watch().is_err());
        assert_eq!(bus.watcher_count(), 0);
    });
}

/// A registration is refused once the bus is closed, even if the bus has not ended yet.
#[test]
fn a_refused_registration_does_not_count() {
    watched(|| {
        let bus = bus_with::<u64>(BusOptions::default());
        let (held, pass) = turnstile();
        let watcher = calling(&bus, pass);
        bus.publisher().publish(1).unwrap();
        held.wait_for(1);
        bus.close();
        assert!(bus.watch().is_err());
        assert_eq!(bus.watcher_count(), 1);
        drop(watcher);
        assert_eq!(bus.watcher_count(), 0);
        drop(held);
        assert!(bus.shutdown().complete);
    });
}

#[test]
fn a_producer_sees_whether_the_bus_has_watchers() {
    on_both(|options| {
        let bus = bus_with::<u64>(options);
        let publisher = bus.publisher();
        let mut created = 0;
        let mut produce = || {
            if publisher.has_watchers() {
                created += 1;
                publisher.publish(created).unwrap();
            }
        };
        produce();
        let mut watcher = bus.watch().unwrap();
        produce();
        assert_eq!(watcher.recv(), Ok(Event(1)));
        drop(watcher);
        produce();
        let runner = bus.watch_builder().runner(|_| ()).unwrap();
        produce();
        drop(runner);
        assert!(!publisher.has_watchers());
        assert_eq!(bus.stats().published(), 2);
    });
}

/// Threads register and drop watchers, and each thread always sees its own watcher. At the end,
/// only the watchers that are left count.
#[test]
fn the_number_is_right_after_watchers_came_and_went() {
    on_both(|options| {
        let bus = bus_with::<u64>(options);
        let left: Vec<_> = thread::scope(|scope| {
            let churn = || {
                for _ in 0..200 {
                    let watcher = bus.watch().unwrap();
                    assert!(bus.watcher_count() >= 1);
                    drop(watcher);
                }
                bus.watch().unwrap()
            };
            let threads = [(); 3].map(|()| scope.spawn(churn));
            threads.map(|thread| thread.join().unwrap()).into()
        });
        assert_eq!((bus.watcher_count(), bus.stats().watchers.len()), (3, 3));
        drop(left);
        assert_eq!(bus.watcher_count(), 0);
    });
}

// ── threads that wait ──

#[test]
fn a_thread_waits_for_the_first_watcher_and_for_the_last_drop() {
    on_both(|options| {
        let (clock, bus) = timed::<u64>(options);
        let waits = bus.clone();
        let producer = thread::spawn(move || {
            assert!(waits.wait_watchers(1.., Duration::MAX));
            waits.publisher().publish(7).unwrap();
            assert!(waits.wait_watchers(..=0, Duration::MAX));
            waits.watcher_count()
        });
        clock.wait_for_waiters(1);
        let (mut first, second) = (bus.watch().unwrap(), bus.watch_builder().spawn(|_| ()).unwrap());
        assert_eq!(first.recv(), Ok(Event(7)), "published after the wait");
        drop(first);
        second.stop();
        assert_eq!(producer.join().unwrap(), 0);
    });
}

#[test]
fn a_number_that_is_within_the_range_ends_the_wait_immediately() {
    on_both(|options| {
        let bus = bus_with::<u64>(options);
        assert!(bus.wait_watchers(..=0, Duration::ZERO));
        assert!(!bus.wait_watchers(1.., Duration::ZERO));
        let _watchers = [bus.watch().unwrap(), bus.watch().unwrap()];
        assert!(bus.wait_watchers(2..=2, Duration::ZERO));
        assert!(bus.wait_watchers(.., Duration::ZERO));
        assert!(!bus.wait_watchers(3.., Duration::ZERO));
        assert!(!bus.wait_watchers(..2, Duration::ZERO));
    });
}

/// The timeout is measured by the bus's clock, even if the clock does not drive the end.
#[test]
fn a_wait_ends_at_its_timeout() {
    on_both(|options| {
        let clock = FakeClock::new(std::time::SystemTime::UNIX_EPOCH);
        let bus = Broadcaster::<u64>::with_clock(options, clock.clock()).unwrap();
        let waits = bus.clone();
        let waiting = thread::spawn(move || waits.wait_watchers(2.., LONG));
        clock.wait_for_waiters(1);
        // One watcher is not enough.
        let _watcher = bus.watch().unwrap();
        clock.advance(LONG);
        assert!(!waiting.join().unwrap());
    });
}

/// Once the bus has ended, no watcher can register, so a thread no longer waits for one.
#[test]
fn a_wait_for_a_first_watcher_ends_with_the_bus() {
    on_both(|options| {
        let (clock, bus) = timed::<u64>(options);
        let waits = bus.clone();
        let waiting = thread::spawn(move || waits.wait_watchers(1.., Duration::MAX));
        clock.wait_for_waiters(1);
        assert!(bus.shutdown().complete);
        assert!(!waiting.join().unwrap());
        assert!(!bus.wait_watchers(1.., Duration::MAX));
    });
}

#[test]
fn a_wait_for_the_last_drop_outlasts_the_bus() {
    on_both(|options| {
        let (clock, bus) = timed::<u64>(options);
        let mut watcher = bus.watch().unwrap();
        bus.publisher().publish(1).unwrap();
        assert!(bus.shutdown().complete);
        assert!(!bus.wait_watchers(2.., Duration::MAX), "no watcher can register");
        let waits = bus.clone();
        let waiting = thread::spawn(move || waits.wait_watchers(..=0, Duration::MAX));
        clock.wait_for_waiters(1);
        assert_eq!(drain(&mut watcher), [Event(1)]);
        drop(watcher);
        assert!(waiting.join().unwrap());
    });
}

// ── tasks that wait ──

#[test]
fn a_task_is_woken_by_the_first_watcher_and_by_the_last_drop() {
    on_both(|options| {
        let (bus, ear) = (bus_with::<u64>(options), Ear::new());
        let mut first = pin!(bus.wait_watchers_async(1..));
        assert_eq!(ear.poll(first.as_mut()), Poll::Pending);
        let watchers = [bus.watch().unwrap(), bus.watch().unwrap()];
        assert_eq!(ear.poll(first), Poll::Ready(true));
        let mut last = pin!(bus.wait_watchers_async(..=0));
        assert_eq!(ear.poll(last.as_mut()), Poll::Pending);
        let [one, other] = watchers;
        drop(one);
        assert_eq!(ear.poll(last.as_mut()), Poll::Pending);
        let rings = ear.rings();
        // Events do not wake the task.
        bus.publisher().publish_batch([1, 2, 3]).unwrap();
        bus.flush(LONG).unwrap();
        assert_eq!(ear.rings(), rings);
        drop(other);
        assert_eq!((ear.poll(last), ear.rings()), (Poll::Ready(true), rings + 1));
        assert!(!ear.is_held());
    });
}

#[test]
fn a_task_that_waits_for_a_first_watcher_is_woken_by_the_end() {
    on_both(|options| {
        let (bus, ear) = (bus_with::<u64>(options), Ear::new());
        let mut waiting = pin!(bus.wait_watchers_async(1..));
        assert_eq!(ear.poll(waiting.as_mut()), Poll::Pending);
        let mut dropped = Box::pin(bus.wait_watchers_async(1..));
        assert_eq!(ear.poll(dropped.as_mut()), Poll::Pending);
        drop(dropped);
        assert!(bus.shutdown().complete);
        assert!(!ear.finish(waiting));
        assert_eq!(ear.rings(), 1, "the dropped future is not woken");
    });
}

/// A handler's progress wakes the threads that wait for a flush, but not those that wait for
/// watchers.
#[test]
fn handled_events_do_not_wake_a_task_that_waits_for_watchers() {
    on_both(|options| {
        let (bus, ear) = (bus_with::<u64>(options), Ear::new());
        let handle = bus.watch_builder().spawn(|_| ()).unwrap();
        let mut waiting = pin!(bus.wait_watchers_async(2..));
        assert_eq!(ear.poll(waiting.as_mut()), Poll::Pending);
        for event in 0..10 {
            bus.publisher().publish(event).unwrap();
            bus.flush(LONG).unwrap();
        }
        assert_eq!((handle.stats().delivered, ear.rings()), (10, 0));
    });
}

// ── calls on the bus's own threads ──

#[test]
fn a_wait_on_a_thread_of_the_bus_does_not_wait() {
    on_both(|options| {
        let bus = bus_with::<u64>(options);
        let ((tx, answers), weak) = (mpsc::channel(), bus.downgrade());
        let ask = move || {
            let bus = weak.upgrade().unwrap();
            let of_the_task = futures::executor::block_on(bus.wait_watchers_async(3..));
            let is_last = bus.wait_watchers(..=0, Duration::MAX);
            tx.send((is_last, of_the_task, bus.wait_watchers(2.., Duration::MAX))).unwrap();
        };
        let (in_filter, in_handler) = (ask.clone(), ask);
        let _watcher = calling(&bus, move |_| in_filter());
        let _handle = bus.watch_builder().spawn(move |_| in_handler()).unwrap();
        bus.publisher().publish(1).unwrap();
        for _ in 0..2 {
            assert_eq!(answers.recv_timeout(LONG), Ok((false, false, true)));
        }
    });
}

/// A waker is user code that may take a lock held by another publisher, so an inline bus calls it
/// after the call has released the bus's lock.
#[test]
fn a_registration_and_a_drop_in_a_filter_wake_after_the_call() {
    watched(|| {
        let bus = inline::<u64>(10);
        let (weak, (tx, woken)) = (bus.downgrade(), mpsc::channel());
        let mut kept = Vec::new();
        let _watcher = calling(&bus, move |event| {
            kept.clear();
            kept.extend((event == 1).then(|| weak.watch().unwrap()));
        });
        for (event, count) in [(1, 2), (2, 1)] {
            let (other, tx) = (bus.clone(), tx.clone());
            let waker = waker_calling(move || {
                // Another thread can take the lock while the waker runs.
                let publishing = thread::spawn(move || other.publisher().try_publish(event).is_ok());
                tx.send(publishing.join().unwrap()).unwrap();
            });
            let mut waiting = pin!(bus.wait_watchers_async(count..=count));
            assert_eq!(crate::support::poll(waiting.as_mut(), &waker), Poll::Pending);
            bus.publisher().publish(event).unwrap();
            assert_eq!(woken.recv_timeout(LONG), Ok(true));
            assert_eq!(crate::support::poll(waiting, &waker), Poll::Ready(true));
        }
    });
}
