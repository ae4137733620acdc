//! Futures that are dropped, and turns.
#![allow(unsafe_code, reason = "a waker that does something when it is cloned is unsafe to make")]

use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, mpsc};
use std::task::{Context, Poll, Wake, Waker};
use std::time::{Duration, Instant, SystemTime};

use eventcast::Delivery::{Event, Lagged};
use eventcast::error::{FlushError, PublishError};
use eventcast::testing::FakeClock;
use eventcast::{Broadcaster, BusOptions, Delivery, OverflowPolicy, Watcher};
use futures::{Stream, StreamExt};

use crate::support::{LONG, assert_balanced, bus, hold, until, watched};

use super::Ear;
use super::timer::{Alarm, bus_with_a_busy_handler};

/// One event causes one wake-up: of the task that waits, and of no task that has stopped waiting.
#[test]
fn a_task_is_woken_once_and_only_while_it_waits() {
    let bus = bus::<u64>(16, 16);
    let mut watcher = bus.watch().unwrap();
    let (first, second) = (Ear::new(), Ear::new());
    assert_eq!(first.poll_next(&mut watcher), Poll::Pending);
    // The watcher's task has changed: only the last waker counts.
    assert_eq!(second.poll_next(&mut watcher), Poll::Pending);
    assert!(!first.is_held(), "a waker that was replaced is let go of");
    bus.publisher().publish(1).unwrap();
    second.wait();
    assert_eq!(second.poll_next(&mut watcher), Poll::Ready(Some(Event(1))));
    // Nobody waits now, so further events wake nobody.
    bus.publisher().publish_batch(vec![2, 3]).unwrap();
    bus.flush(LONG).unwrap();
    assert_eq!((first.rings(), second.rings()), (0, 1));
    assert_eq!(second.poll_next(&mut watcher), Poll::Ready(Some(Event(2))));
    assert_eq!(second.poll_next(&mut watcher), Poll::Ready(Some(Event(3))));
    assert_eq!(second.poll_next(&mut watcher), Poll::Pending);
    // A flush wakes nobody either.
    bus.flush(LONG).unwrap();
    assert_eq!(second.rings(), 1);
    bus.close();
    second.wait();
    assert_eq!(second.poll_next(&mut watcher), Poll::Ready(None));
}

/// A receive that is dropped has taken nothing, and keeps no task alive.
#[test]
fn a_receive_that_is_dropped_has_taken_nothing() {
    let bus = bus::<u64>(16, 2);
    let mut watcher = bus.watch().unwrap();
    let ear = Ear::new();
    {
        let mut receiving = pin!(watcher.recv_async());
        assert_eq!(ear.poll(receiving.as_mut()), Poll::Pending);
        bus.publisher().publish_batch(vec![1, 2, 3]).unwrap();
        ear.wait();
    }
    drop(watcher.recv_async());
    assert_eq!(watcher.recv(), Ok(Event(1)));
    assert_eq!(watcher.recv(), Ok(Event(2)));
    {
        let mut receiving = pin!(watcher.recv_async());
        assert_eq!(ear.poll(receiving.as_mut()), Poll::Ready(Ok(Lagged(1))));
    }
    let other = Ear::new();
    {
        let mut receiving = pin!(watcher.recv_async());
        assert_eq!(other.poll(receiving.as_mut()), Poll::Pending);
        assert!(other.is_held());
    }
    assert!(!other.is_held(), "the task is let go of");
    bus.publisher().publish(4).unwrap();
    bus.flush(LONG).unwrap();
    assert_eq!(other.rings(), 0);
    assert_eq!(watcher.try_recv(), Ok(Event(4)));
}

/// A thread and a task may take turns with one watcher.
#[test]
fn waiting_as_a_thread_and_as_a_task_can_alternate() {
    watched(|| {
        let bus = bus::<u64>(16, 16);
        let mut watcher = bus.watch().unwrap();
        for round in 0..200 {
            let ear = Ear::new();
            if round % 2 == 0 {
                assert_eq!(ear.poll_next(&mut watcher), Poll::Pending);
            }
            let publisher = bus.publisher();
            let publishing = std::thread::spawn(move || publisher.publish(round).unwrap());
            if round % 4 < 2 {
                assert_eq!(watcher.recv(), Ok(Event(round)));
            } else {
                assert_eq!(futures::executor::block_on(watcher.next()), Some(Event(round)));
            }
            publishing.join().unwrap();
        }
    });
}

/// A publish that is dropped before it is ready has not happened. Its turn passes to the next
/// publisher in the wait queue.
#[test]
fn a_publish_that_is_dropped_has_not_happened() {
    let bus = bus::<u64>(1, 1);
    let held = hold(&bus);
    let publisher = bus.publisher();
    while publisher.try_publish(0).is_ok() {}
    let refused = bus.stats().rejected_full;
    let (first, second, third) = (Ear::new(), Ear::new(), Ear::new());
    let mut waiting = Box::pin(publisher.publish_async(1));
    let mut next = Box::pin(publisher.publish_async(2));
    let mut last = Box::pin(publisher.publish_async(3));
    assert!(first.poll(waiting.as_mut()).is_pending());
    assert!(second.poll(next.as_mut()).is_pending());
    assert!(third.poll(last.as_mut()).is_pending());
    // A publisher that never had a turn leaves no trace.
    drop(last);
    assert!(!third.is_held());
    drop(held);
    first.wait();
    // The first publisher has its turn and is dropped. The second one is woken although no further
    // entry is taken.
    drop(waiting);
    second.wait();
    while second.poll(next.as_mut()).is_pending() {
        second.wait();
    }
    assert_eq!(bus.stats().rejected_full, refused, "waiting is not a refusal");
    let report = bus.shutdown();
    assert_balanced(&report.bus);
    assert_eq!(third.rings(), 0);
}

/// `ready` takes nobody's turn: a task that only asked for room leaves the room to a task that
/// waits with an event.
#[test]
fn ready_leaves_the_room_to_others() {
    let bus = bus::<u64>(1, 1);
    let held = hold(&bus);
    let publisher = bus.publisher();
    while publisher.try_publish(0).is_ok() {}
    let (looks, waits) = (Ear::new(), Ear::new());
    let mut ready = Box::pin(publisher.ready());
    let mut publishing = Box::pin(publisher.publish_async(1));
    assert!(looks.poll(ready.as_mut()).is_pending());
    assert!(waits.poll(publishing.as_mut()).is_pending());
    drop(held);
    looks.wait();
    // The entry that woke this task may have made room that another publisher has taken since.
    while looks.poll(ready.as_mut()).is_pending() {
        looks.wait();
    }
    waits.wait();
    while waits.poll(publishing.as_mut()).is_pending() {
        waits.wait();
    }
    assert!(bus.shutdown().complete);
}

/// A watcher that is dropped before the dispatcher reaches its registration leaves nothing: no
/// watcher, no filter.
#[test]
fn a_registration_that_is_dropped_leaves_nothing() {
    let bus = bus::<u64>(1, 1);
    let held = hold(&bus);
    while bus.publisher().try_publish(0).is_ok() {}
    let before = bus.stats().watchers.len();
    let alive = Arc::new(());
    let in_filter = alive.clone();
    {
        let builder = bus.watch_builder().name("never").filter(move |_| Arc::strong_count(&in_filter) > 0);
        let _watcher = builder.watch().unwrap();
        assert_eq!(bus.stats().watchers.len(), before + 1);
    }
    assert_eq!(Arc::strong_count(&alive), 1, "the filter is gone");
    assert_eq!(bus.stats().watchers.len(), before);
    drop(held);
    assert!(bus.shutdown().complete);
}

/// A waker that panics harms neither the dispatcher, nor another watcher, nor a task that waits
/// behind it.
#[test]
fn a_waker_that_panics_stops_nothing() {
    #[derive(Default)]
    struct Bomb(AtomicU64);
    impl Wake for Bomb {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::SeqCst);
            panic!("the waker's own fault");
        }
    }
    let gone_off = Arc::new(Bomb::default());
    let bomb = Waker::from(gone_off.clone());
    let mut cx = Context::from_waker(&bomb);
    let bus = bus::<u64>(1, 1);
    let mut fragile = bus.watch().unwrap();
    let mut other = bus.watch().unwrap();
    assert!(fragile.poll_next_unpin(&mut cx).is_pending());
    let ear = Ear::new();
    assert!(ear.poll_next(&mut other).is_pending());
    bus.publisher().publish(1).unwrap();
    ear.wait();
    assert_eq!(other.recv(), Ok(Event(1)));
    assert_eq!(fragile.recv(), Ok(Event(1)));
    assert_eq!(gone_off.0.load(Ordering::SeqCst), 1, "in the dispatcher's hands");

    let held = hold(&bus);
    let publisher = bus.publisher();
    while publisher.try_publish(0).is_ok() {}
    let mut waiting = Box::pin(publisher.publish_async(2));
    assert!(waiting.as_mut().poll(&mut cx).is_pending());
    let mut flushing = Box::pin(bus.flush_async(LONG));
    assert!(flushing.as_mut().poll(&mut cx).is_pending());
    let mut behind = Box::pin(publisher.publish_async(3));
    assert!(ear.poll(behind.as_mut()).is_pending());
    drop(held);
    // The panicking waker is first in the wait queue. Dropping its future passes the turn on.
    until(|| gone_off.0.load(Ordering::SeqCst) > 1);
    drop((waiting, flushing));
    let published = loop {
        match ear.poll(behind.as_mut()) {
            Poll::Ready(published) => break published,
            Poll::Pending => ear.wait(),
        }
    };
    assert_eq!(published, Ok(()), "the dispatcher lives");
    assert!(bus.shutdown().complete);
}

/// On a thread of the bus nothing waits for the bus, not even a task.
#[test]
fn a_task_on_a_thread_of_the_bus_does_not_wait_for_it() {
    watched(|| {
        let bus = Arc::new(bus::<u64>(1, 1));
        let (tx, rx) = mpsc::channel();
        let (go, gate) = mpsc::channel::<()>();
        let inner = bus.clone();
        bus.watch_builder()
            .overflow(OverflowPolicy::Wait)
            .spawn(move |delivery| {
                if delivery != Event(&0) {
                    return;
                }
                gate.recv().unwrap();
                let publisher = inner.publisher();
                let full = futures::executor::block_on(publisher.publish_async(7));
                let ready = futures::executor::block_on(publisher.ready());
                let watching = inner.watch().is_ok();
                let flushed = futures::executor::block_on(inner.flush_async(LONG));
                let report = futures::executor::block_on(inner.shutdown_async(LONG));
                tx.send((full, ready, watching, flushed, report.complete)).unwrap();
            })
            .unwrap();
        let publisher = bus.publisher();
        let mut accepted = 0;
        while accepted < 3 || bus.stats().accepted != accepted - 1 {
            accepted += u64::from(publisher.try_publish(accepted).is_ok());
            std::thread::yield_now();
        }
        go.send(()).unwrap();
        let (full, ready, watching, flushed, complete) = rx.recv_timeout(LONG).unwrap();
        assert_eq!((full, ready), (Err(PublishError::Full(7)), Ok(())));
        assert!(watching, "a registration needs no capacity");
        assert_eq!(flushed, Err(FlushError::WouldDeadlock));
        assert!(!complete);
        assert!(bus.shutdown().complete);
    });
}

/// The deadlines of tasks share one thread. It wakes each task once, and not before the task's
/// deadline. It discards the deadline of a dropped future.
#[test]
fn deadlines_are_kept_one_by_one() {
    let (bus, go) = bus_with_a_busy_handler();
    let mut tasks = [400_000, 60, 120, 61].map(|milliseconds| {
        let timeout = Duration::from_millis(milliseconds);
        let (alarm, mut flush) = (Alarm::new(), Box::pin(bus.flush_async(timeout)));
        let earliest = Instant::now() + timeout;
        let waits = alarm.poll(flush.as_mut()).is_pending();
        (alarm, flush, earliest, waits)
    });
    let [(last, last_flush, ..), others @ ..] = &mut tasks;
    for (alarm, flush, earliest, waits) in others {
        // A task does not wait if the system did not run this thread for as long as the timeout.
        if *waits {
            assert!(alarm.wait() >= *earliest, "the task was woken before its deadline");
        }
        assert!(matches!(alarm.poll(flush.as_mut()), Poll::Ready(Err(_))));
    }
    assert!(!last.was_called() && last.poll(last_flush.as_mut()).is_pending());
    let alarms = tasks.map(|(alarm, ..)| alarm);
    assert!(!alarms[0].is_held(), "the timer keeps a deadline that nothing waits for");
    assert!(alarms.iter().all(|alarm| !alarm.was_called()), "a task was woken twice");
    drop(go);
    assert!(bus.shutdown().complete);
}

/// A shutdown whose future is dropped goes on, and abandons nothing.
#[test]
fn a_shutdown_that_is_dropped_still_closes() {
    let bus = bus::<u64>(4, 1);
    let mut watcher = bus.watch_builder().overflow(OverflowPolicy::Wait).watch().unwrap();
    bus.publisher().publish_batch(vec![1, 2, 3]).unwrap();
    drop(bus.shutdown_async(LONG));
    bus.publisher().publish(4).unwrap();
    let ear = Ear::new();
    assert!(ear.poll(pin!(bus.shutdown_async(LONG))).is_pending());
    assert!(bus.publisher().publish(5).unwrap_err().is_closed());
    assert_eq!(watcher.events().collect::<Vec<_>>(), [1, 2, 3, 4]);
    assert!(bus.shutdown().complete);
}

/// Every future can be sent to another thread, and a watcher can be moved while it is used as a
/// stream.
#[test]
fn futures_are_send() {
    fn send<F: Future + Send>(future: F) -> F {
        future
    }
    fn stream<S: Stream<Item = Delivery<u64>> + Send + Unpin>(_: &S) {}
    let bus = bus::<u64>(4, 4);
    let mut watcher: Watcher<u64> = bus.watch().unwrap();
    stream(&watcher);
    futures::executor::block_on(send(bus.publisher().publish_async(1))).unwrap();
    futures::executor::block_on(send(bus.publisher().ready())).unwrap();
    assert_eq!(futures::executor::block_on(send(watcher.recv_async())), Ok(Event(1)));
    futures::executor::block_on(send(bus.flush_async(LONG))).unwrap();
    let runner = bus.watch_builder().runner(|_| ()).unwrap();
    bus.close();
    futures::executor::block_on(send(runner));
    assert!(futures::executor::block_on(send(bus.shutdown_async(LONG))).complete);
}

/// A turn is not a lock: if the task that has it is not polled, the turn passes to the next one as
/// well.
#[test]
fn a_turn_that_is_not_taken_up_goes_to_the_next() {
    watched(|| {
        let clock = FakeClock::new(SystemTime::UNIX_EPOCH).drive_the_end();
        let options = BusOptions::default().incoming_len(1).queue_len(8);
        let bus = Broadcaster::with_clock(options, clock.clock()).unwrap();
        let held = hold(&bus);
        let publisher = bus.publisher();
        publisher.publish(1).unwrap();
        let ears = [Ear::new(), Ear::new(), Ear::new()];
        let mut waiting: Vec<_> = (2..5).map(|n| Box::pin(publisher.publish_async(n))).collect();
        for (ear, future) in ears.iter().zip(&mut waiting) {
            assert!(ear.poll(future.as_mut()).is_pending());
        }
        let behind = publisher.clone();
        let thread = std::thread::spawn(move || behind.publish_timeout(5, LONG));
        clock.wait_for_waiters(1);
        drop(held);
        // The first two are never polled again, and one of them is even forgotten.
        ears[2].wait();
        std::mem::forget(waiting.remove(0));
        assert!(thread.join().unwrap().is_ok());
        bus.flush(LONG).unwrap();
        assert_eq!(ears[2].poll(waiting[1].as_mut()), Poll::Ready(Ok(())));
        assert_eq!(bus.shutdown().bus.accepted, 5);
    });
}

/// The same while the dispatcher itself waits for a watcher: there is room for one entry, and the
/// first task does not use it.
#[test]
fn a_turn_goes_on_while_the_dispatcher_waits_for_a_watcher() {
    let options = BusOptions::default().incoming_len(2).queue_len(8).max_batch(1);
    let bus = Broadcaster::with_options(options).unwrap();
    let mut held = hold(&bus);
    let publisher = bus.publisher();
    publisher.publish(1).unwrap();
    publisher.publish(2).unwrap();
    let ears = [Ear::new(), Ear::new()];
    let mut waiting: Vec<_> = (3..5).map(|n| Box::pin(publisher.publish_async(n))).collect();
    for (ear, future) in ears.iter().zip(&mut waiting) {
        assert!(ear.poll(future.as_mut()).is_pending());
    }
    // This makes room for one entry: the dispatcher takes an entry and waits again.
    assert!(held.watcher.recv().is_ok());
    ears[1].wait();
    assert_eq!(ears[1].poll(waiting[1].as_mut()), Poll::Ready(Ok(())));
    drop(held);
    assert!(bus.shutdown().complete);
}
