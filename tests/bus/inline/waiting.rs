//! Publishers that wait for capacity, threads and tasks.

use std::sync::{Arc, mpsc};
use std::task::Poll;
use std::thread;
use std::time::Duration;

use eventcast::Delivery::Event;
use eventcast::error::PublishError;
use eventcast::{Broadcaster, Delivery};
use futures::executor::block_on;
use futures::future::join;
use futures::{FutureExt, StreamExt};

use crate::support::{LONG, available, drain, reporting_waker, turnstile, until, watched};

use super::support::{assert_settled, inline, options, poll, publish_and_wait, timed, waits};

/// A thread that publishes waits for a reader on another thread, event by event.
#[test]
fn a_publisher_continues_when_a_reader_frees_capacity() {
    const EVENTS: u64 = if cfg!(miri) { 100 } else { 5_000 };
    for queue_len in [1, 2, 7] {
        watched(move || {
            let bus = inline(queue_len);
            let mut watcher = waits(&bus, queue_len).watch().unwrap();
            let mut batches = waits(&bus, queue_len).watch().unwrap();
            let readers = [
                thread::spawn(move || watcher.events().collect::<Vec<_>>()),
                thread::spawn(move || {
                    let mut seen = Vec::new();
                    while let Ok(batch) = batches.recv_batch() {
                        assert!(batch.len() <= queue_len);
                        seen.extend(batch);
                    }
                    seen
                }),
            ];
            (0..EVENTS).for_each(|event| bus.publisher().publish(event).unwrap());
            bus.close();
            for reader in readers {
                assert!(reader.join().unwrap().into_iter().eq(0..EVENTS));
            }
            assert_settled(&bus.stats(), EVENTS);
        });
    }
}

/// A batch that is larger than the queue arrives complete, and in order.
#[test]
fn a_batch_larger_than_the_queue_arrives_in_order() {
    for queue_len in [1, 4, 100] {
        watched(move || {
            let bus = inline(queue_len);
            let mut watcher = waits(&bus, queue_len).watch().unwrap();
            let reader = thread::spawn(move || (watcher.events().collect::<Vec<_>>(), watcher.stats()));
            bus.publisher().publish_batch(0..1000).unwrap();
            bus.close();
            let (events, stats) = reader.join().unwrap();
            assert!(events.into_iter().eq(0..1000));
            assert!(stats.high_water <= queue_len as u64, "{stats}");
        });
    }
}

/// Batches of several threads into a small queue: each thread's events stay in order, and none is
/// lost.
#[test]
fn batches_of_several_threads_keep_their_order() {
    const EVENTS: u64 = if cfg!(miri) { 50 } else { 1_000 };
    watched(|| {
        let bus = inline(4);
        let mut watcher = waits(&bus, 4).watch().unwrap();
        let reader = thread::spawn(move || watcher.events().collect::<Vec<(u64, u64)>>());
        thread::scope(|scope| {
            for id in 0..4 {
                let publisher = bus.publisher();
                scope.spawn(move || match id {
                    0 => (0..EVENTS).for_each(|number| publisher.publish((id, number)).unwrap()),
                    1 => (0..EVENTS)
                        .for_each(|number| block_on(publisher.publish_async((id, number))).unwrap()),
                    _ => publisher.publish_batch((0..EVENTS).map(|number| (id, number))).unwrap(),
                });
            }
        });
        bus.close();
        let seen = reader.join().unwrap();
        for id in 0..4 {
            let of_one = seen.iter().filter(|event| event.0 == id).map(|event| event.1);
            assert!(of_one.eq(0..EVENTS), "thread {id}");
        }
    });
}

/// A publish with a timeout gets its event back when time is up, and is accepted if there is
/// capacity before.
#[test]
fn a_publish_with_a_timeout_waits_until_then() {
    watched(|| {
        const SECOND: Duration = Duration::from_secs(1);
        let (clock, bus) = timed(options(1));
        let mut watcher = waits(&bus, 1).watch().unwrap();
        bus.publisher().publish(1).unwrap();
        assert_eq!(bus.publisher().publish_timeout(2, Duration::ZERO), Err(PublishError::Full(2)));
        let publisher = bus.publisher();
        let waiting = thread::spawn(move || publisher.publish_timeout(3, SECOND));
        clock.wait_for_waiters(1);
        clock.advance(SECOND);
        assert_eq!(waiting.join().unwrap(), Err(PublishError::Full(3)));
        assert_eq!(bus.stats().rejected_full, 2);
        let waiting = publish_and_wait(&clock, bus.publisher(), 4, 1);
        assert_eq!(watcher.try_recv(), Ok(Event(1)));
        assert_eq!(waiting.join().unwrap(), Ok(()));
        assert_eq!(available(&mut watcher), [Event(4)]);
        assert_settled(&bus.stats(), 2);
    });
}

/// A publisher that waits holds no lock: every other call returns.
#[test]
fn a_publisher_that_waits_delays_no_other_call() {
    watched(|| {
        let (clock, bus) = timed(options(8));
        let mut full = waits(&bus, 1).watch().unwrap();
        bus.publisher().publish(1).unwrap();
        let waiting = publish_and_wait(&clock, bus.publisher(), 2, 1);
        let mut late = bus.watch().unwrap();
        assert!(bus.publisher().try_publish(3).unwrap_err().is_full());
        assert_eq!(bus.flush(LONG), Ok(()));
        assert_eq!((bus.stats().accepted, bus.stats().pending, bus.watcher_count()), (1, 0, 2));
        bus.publisher().publish_gap(4).unwrap();
        assert_eq!(full.try_recv(), Ok(Event(1)));
        assert_eq!(waiting.join().unwrap(), Ok(()));
        // The gap was published while the event waited, so it is before the event.
        let wanted = [Delivery::Lagged(4), Event(2)];
        assert_eq!((available(&mut full), available(&mut late)), (wanted.to_vec(), wanted.to_vec()));
    });
}

/// Waiting threads are woken in the order in which they began to wait.
#[test]
fn threads_that_wait_have_their_turns_in_order() {
    watched(|| {
        let (clock, bus) = timed(options(1));
        let mut watcher = waits(&bus, 1).watch().unwrap();
        bus.publisher().publish(0).unwrap();
        let waiting: Vec<_> =
            (1..=5).map(|event| publish_and_wait(&clock, bus.publisher(), event, event as usize)).collect();
        for (event, thread) in (0..).zip(waiting) {
            assert_eq!(watcher.try_recv(), Ok(Event(event)));
            // A reader that is faster than this thread's call may give a second one its turn, too.
            assert_eq!(thread.join().unwrap(), Ok(()));
        }
        assert_eq!(watcher.try_recv(), Ok(Event(5)));
    });
}

/// Reading several events frees capacity for as many publishers: each publisher that succeeds wakes
/// the next.
#[test]
fn all_publishers_that_fit_are_woken() {
    watched(|| {
        let (clock, bus) = timed(options(8));
        let mut watcher = waits(&bus, 8).watch().unwrap();
        bus.publisher().publish_batch(0..8).unwrap();
        let publisher = bus.publisher();
        let batch = thread::spawn(move || publisher.publish_batch([100, 101, 102]));
        let threads: Vec<_> =
            (1..=4).map(|nth| publish_and_wait(&clock, bus.publisher(), 200, nth)).collect();
        (0..8).for_each(|event| assert_eq!(watcher.try_recv(), Ok(Event(event))));
        assert_eq!(batch.join().unwrap(), Ok(()));
        for thread in threads {
            assert_eq!(thread.join().unwrap(), Ok(()));
        }
        assert!(bus.publisher().try_publish(300).is_ok(), "seven of eight are taken");
        assert_eq!(watcher.len(), 8);
    });
}

/// A task waits without a thread: it is woken when a reader frees capacity, and not before.
#[test]
fn a_task_is_woken_when_there_is_capacity() {
    let bus = inline(1);
    let mut watcher = waits(&bus, 1).watch().unwrap();
    let publisher = bus.publisher();
    publisher.publish(1).unwrap();
    let (waker, woken) = reporting_waker();
    let mut publishing = Box::pin(publisher.publish_async(2));
    assert!(poll(publishing.as_mut(), &waker).is_pending());
    assert!(publisher.try_publish(3).is_err());
    assert!(woken.try_recv().is_err());
    assert_eq!(watcher.try_recv(), Ok(Event(1)));
    assert_eq!(woken.try_recv(), Ok(thread::current().id()), "the reader wakes the task");
    assert_eq!(poll(publishing.as_mut(), &waker), Poll::Ready(Ok(())));
    assert_eq!(available(&mut watcher), [Event(2)]);
}

/// A woken task that is not polled delays neither a task nor a thread that began to wait later.
#[test]
fn a_woken_task_that_is_not_polled_delays_no_other_publisher() {
    watched(|| {
        let (clock, bus) = timed(options(1));
        let mut watcher = waits(&bus, 1).watch().unwrap();
        let publisher = bus.publisher();
        publisher.publish(1).unwrap();
        let (idle, _idle_woken) = reporting_waker();
        let mut never = Box::pin(publisher.publish_async(100));
        assert!(poll(never.as_mut(), &idle).is_pending());
        let (waker, woken) = reporting_waker();
        let mut task = Box::pin(publisher.publish_async(2));
        assert!(poll(task.as_mut(), &waker).is_pending());
        assert_eq!(watcher.recv(), Ok(Event(1)));
        woken.recv_timeout(LONG).expect("the second task is not woken");
        assert_eq!(poll(task.as_mut(), &waker), Poll::Ready(Ok(())));
        let thread = publish_and_wait(&clock, publisher.clone(), 3, 1);
        assert_eq!(watcher.recv(), Ok(Event(2)));
        assert_eq!(thread.join().unwrap(), Ok(()));
        assert_eq!(watcher.recv(), Ok(Event(3)));
        assert_eq!(poll(never.as_mut(), &idle), Poll::Ready(Ok(())));
    });
}

/// A publish that is dropped before it is ready has not happened, and its turn passes on.
#[test]
fn the_turn_of_a_dropped_task_passes_on() {
    let bus = inline(1);
    let mut watcher = waits(&bus, 1).watch().unwrap();
    let publisher = bus.publisher();
    publisher.publish(1).unwrap();
    let ((first, first_woken), (second, second_woken)) = (reporting_waker(), reporting_waker());
    let mut dropped = Box::pin(publisher.publish_async(2));
    let mut kept = Box::pin(publisher.publish_async(3));
    assert!(poll(dropped.as_mut(), &first).is_pending());
    assert!(poll(kept.as_mut(), &second).is_pending());
    assert_eq!(watcher.try_recv(), Ok(Event(1)));
    first_woken.recv_timeout(LONG).expect("the first task is not woken");
    drop(dropped);
    second_woken.recv_timeout(LONG).expect("the turn was lost");
    assert_eq!(poll(kept.as_mut(), &second), Poll::Ready(Ok(())));
    assert_eq!(available(&mut watcher), [Event(3)]);
    assert_settled(&bus.stats(), 2);
    assert_eq!(bus.stats().published(), 2);
}

/// `ready` waits for capacity, and takes none.
#[test]
fn ready_waits_for_capacity() {
    let bus = inline(1);
    let mut watcher = waits(&bus, 1).watch().unwrap();
    let publisher = bus.publisher();
    assert_eq!(publisher.ready().now_or_never(), Some(Ok(())));
    publisher.publish(1).unwrap();
    let (waker, woken) = reporting_waker();
    let mut ready = Box::pin(publisher.ready());
    assert!(poll(ready.as_mut(), &waker).is_pending());
    assert_eq!(watcher.try_recv(), Ok(Event(1)));
    woken.recv_timeout(LONG).expect("the task is not woken");
    assert_eq!(poll(ready.as_mut(), &waker), Poll::Ready(Ok(())));
    assert_eq!(publisher.ready().now_or_never(), Some(Ok(())), "the first one took nothing");
    publisher.try_publish(2).unwrap();
    assert_eq!(available(&mut watcher), [Event(2)]);
}

/// Publishers with `ready` and `try_publish`, beside others that wait with their events: nothing is
/// lost, and all of them finish.
#[test]
fn ready_and_waiting_publishers_lose_nothing() {
    const EVENTS: u64 = if cfg!(miri) { 20 } else { 300 };
    watched(|| {
        let bus = inline(1);
        let mut watcher = waits(&bus, 1).watch().unwrap();
        let reader = thread::spawn(move || watcher.events().count());
        thread::scope(|scope| {
            for id in 0..6 {
                let publisher = bus.publisher();
                scope.spawn(move || {
                    block_on(async {
                        for event in 0..EVENTS {
                            if id % 2 == 0 {
                                publisher.publish_async(event).await.unwrap();
                                continue;
                            }
                            while publisher.try_publish(event).is_err() {
                                publisher.ready().await.unwrap();
                            }
                        }
                    });
                });
            }
        });
        bus.close();
        assert_eq!(reader.join().unwrap() as u64, 6 * EVENTS);
    });
}

/// One thread runs a publishing task and a reading task.
#[test]
fn tasks_of_one_thread_wait_for_each_other() {
    watched(|| {
        let bus = inline(1);
        let watcher = waits(&bus, 1).watch().unwrap();
        let publishing = async {
            for event in 0..1000 {
                bus.publisher().publish_async(event).await.unwrap();
            }
            bus.close();
        };
        let (seen, ()) = block_on(join(watcher.collect::<Vec<_>>(), publishing));
        assert!(seen.into_iter().eq((0..1000).map(Event)));
    });
}

/// A watcher that stops or goes lets the publishers that wait for it continue, threads and tasks.
#[test]
fn a_watcher_that_ends_lets_waiting_publishers_continue() {
    for drops in [false, true] {
        watched(move || {
            let (clock, bus) = timed(options(8));
            let full = waits(&bus, 1).watch().unwrap();
            let mut other = bus.watch().unwrap();
            let publisher = bus.publisher();
            publisher.publish(1).unwrap();
            let (waker, woken) = reporting_waker();
            let mut task = Box::pin(publisher.publish_async(2));
            assert!(poll(task.as_mut(), &waker).is_pending());
            let threads: Vec<_> =
                (1..=3).map(|nth| publish_and_wait(&clock, publisher.clone(), 3, nth)).collect();
            let stopped = if drops {
                drop(full);
                None
            } else {
                full.stop();
                Some(full)
            };
            for thread in threads {
                assert_eq!(thread.join().unwrap(), Ok(()));
            }
            woken.recv_timeout(LONG).expect("the task is not woken");
            assert_eq!(poll(task.as_mut(), &waker), Poll::Ready(Ok(())));
            assert_eq!(available(&mut other), [1, 3, 3, 3, 2].map(Event));
            assert_eq!(stopped.map(|mut watcher| drain(&mut watcher)), (!drops).then(|| vec![Event(1)]));
        });
    }
}

/// Closing the bus ends every wait for capacity, and each publisher has its event back.
#[test]
fn closing_ends_every_wait() {
    watched(|| {
        let (clock, bus) = timed(options(8));
        let mut full = waits(&bus, 2).watch().unwrap();
        let publisher = bus.publisher();
        let (waker, woken) = reporting_waker();
        let batch = {
            let publisher = bus.publisher();
            thread::spawn(move || publisher.publish_batch(0..5))
        };
        until(|| bus.stats().accepted == 2);
        let thread = publish_and_wait(&clock, bus.publisher(), 10, 1);
        let mut task = Box::pin(publisher.publish_async(11));
        let mut ready = Box::pin(publisher.ready());
        assert!(poll(task.as_mut(), &waker).is_pending());
        assert!(poll(ready.as_mut(), &waker).is_pending());
        bus.close();
        assert_eq!(thread.join().unwrap(), Err(PublishError::Closed(10)));
        assert_eq!(batch.join().unwrap(), Err(PublishError::Closed(vec![2, 3, 4])));
        woken.recv_timeout(LONG).expect("the tasks are not woken");
        assert_eq!(poll(task.as_mut(), &waker), Poll::Ready(Err(PublishError::Closed(11))));
        assert_eq!(poll(ready.as_mut(), &waker), Poll::Ready(Err(PublishError::Closed(()))));
        assert_eq!(drain(&mut full), [Event(0), Event(1)]);
        assert_eq!((bus.stats().rejected_closed, bus.stats().rejected_full), (5, 0));
    });
}

/// Dropping the last handle ends the waits too, on whichever thread.
#[test]
fn the_drop_of_the_last_handle_ends_every_wait() {
    watched(|| {
        let (clock, bus) = timed(options(8));
        let _full = waits(&bus, 1).watch().unwrap();
        bus.publisher().publish(1).unwrap();
        let waiting = publish_and_wait(&clock, bus.publisher(), 2, 1);
        thread::spawn(move || drop(bus)).join().unwrap();
        assert_eq!(waiting.join().unwrap(), Err(PublishError::Closed(2)));
    });
}

/// A handler frees capacity as it handles its events.
#[test]
fn a_publisher_waits_for_a_handler() {
    watched(|| {
        let bus = inline(1);
        let (tx, handled) = mpsc::channel();
        waits(&bus, 1)
            .spawn(move |delivery| tx.send(*delivery.event().expect("nothing is lost")).unwrap())
            .unwrap();
        (0..500).for_each(|event| bus.publisher().publish(event).unwrap());
        bus.publisher().publish_batch(500..1000).unwrap();
        assert!(bus.shutdown().complete);
        assert!(handled.into_iter().eq(0..1000));
    });
}

/// A reader that takes events inside a batch frees capacity event by event.
#[test]
fn a_reader_in_the_middle_of_a_batch_frees_capacity() {
    let bus = inline(4);
    let mut watcher = waits(&bus, 4).watch().unwrap();
    bus.publisher().publish_batch(0..4).unwrap();
    for event in 0..20 {
        assert!(bus.publisher().try_publish(100).is_err());
        assert_eq!(watcher.try_recv(), Ok(Event(event)));
        bus.publisher().try_publish(event + 4).unwrap();
    }
}

/// A publisher waits for a reader no longer than the reader lives.
#[test]
fn a_publisher_outlives_the_watchers_that_it_waits_for() {
    const WATCHERS: usize = if cfg!(miri) { 20 } else { 500 };
    watched(|| {
        let bus: Arc<Broadcaster<u64>> = Arc::new(inline(1));
        let publisher = bus.publisher();
        let publishing = thread::spawn(move || (0..).find_map(|event| publisher.publish(event).err()));
        for round in 0..WATCHERS {
            let mut watcher = waits(&bus, 1 + round % 3).watch().unwrap();
            let first = watcher.recv_timeout(LONG).unwrap().event().unwrap();
            if round % 2 == 0 {
                assert_eq!(watcher.recv_timeout(LONG), Ok(Event(first + 1)));
                watcher.stop();
            }
        }
        bus.close();
        assert!(publishing.join().unwrap().unwrap().is_closed());
        assert!(bus.stats().watchers.is_empty());
    });
}

/// A handler that ends with a panic lets the publisher that waits for it continue.
#[test]
fn a_handler_that_ends_lets_a_publisher_continue() {
    watched(|| {
        let (clock, bus) = timed(options(10));
        let (turnstile, mut pass) = turnstile();
        let handler = move |delivery: Delivery<&u64>| {
            pass(delivery.event().copied());
            panic!("the handler ends here");
        };
        let handle = waits(&bus, 1).stop_on_panic(true).spawn(handler).unwrap();
        let mut other = bus.watch().unwrap();
        bus.publisher().publish(1).unwrap();
        assert_eq!(turnstile.entered.recv_timeout(LONG), Ok(Some(1)));
        let waiting = publish_and_wait(&clock, bus.publisher(), 2, 1);
        drop(turnstile);
        assert_eq!(waiting.join().unwrap(), Ok(()));
        assert!(handle.join(LONG));
        assert_eq!(available(&mut other), [Event(1), Event(2)]);
        assert!(bus.shutdown().complete);
    });
}
