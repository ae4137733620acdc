//! Models of publishers on an inline bus that wait for capacity in the queue of a watcher with
//! `Wait`. The publishers race with the watcher's reader, with each other, and with everything that
//! can end the wait.
//!
//! The set-up is not explored. Unless a model states otherwise, the queue is full at the end of the
//! set-up.

use std::pin::Pin;
use std::task::{Context, Waker};
use std::time::{Duration, SystemTime};

use eventcast::error::PublishError;
use eventcast::testing::{Exploration, FakeClock, Payload, begin, block_on, finish};
use eventcast::{Broadcaster, BusOptions, Delivery, OverflowPolicy, Publisher, Watcher};
use eventcast_loom_tests::{explore, inline_bus, numbers, spawn};
use loom::sync::Arc;
use loom::sync::atomic::{AtomicUsize, Ordering};
use loom::thread::JoinHandle;

type Task = Pin<Box<dyn Future<Output = bool>>>;

/// Returns a bus and its watcher, whose queue has a capacity of one and holds event 0.
fn full_bus() -> (Broadcaster<Payload>, Watcher<Payload>) {
    let bus = inline_bus(1, OverflowPolicy::Wait);
    let watcher = bus.watch().unwrap();
    bus.publisher().try_publish(Payload::new(0)).unwrap();
    (bus, watcher)
}

/// Spawns a thread that publishes an event, waits for capacity if the queue is full, and returns
/// whether the event was accepted.
fn waiting(publisher: Publisher<Payload>, number: u32) -> JoinHandle<bool> {
    spawn(move || match publisher.publish(Payload::new(number)) {
        Ok(()) => true,
        Err(PublishError::Closed(event)) => {
            assert_eq!(event.number(), number);
            false
        }
        Err(error) => panic!("{error}"),
    })
}

/// Spawns a thread like [`waiting`], during a set-up that is not explored. When this function
/// returns, the thread is already waiting.
fn waits(publisher: Publisher<Payload>, number: u32) -> JoinHandle<bool> {
    let waiting = waiting(publisher, number);
    // Only the new thread can run now.
    loom::thread::yield_now();
    waiting
}

/// Returns a task that publishes an event. The task has already begun to wait, with a waker that
/// does nothing.
fn waiting_task(publisher: Publisher<Payload>, number: u32) -> Task {
    let mut task: Task = Box::pin(async move { publisher.publish_async(Payload::new(number)).await.is_ok() });
    assert!(task.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    task
}

/// Waits for the next event and returns its number.
fn next(watcher: &mut Watcher<Payload>) -> u32 {
    match watcher.recv() {
        Ok(Delivery::Event(event)) => event.number(),
        other => panic!("{other:?}"),
    }
}

/// A publisher begins to wait while the reader frees the capacity.
fn a_publisher_against_the_reader() {
    explore(Exploration::default().after_set_up(), || {
        let (bus, mut watcher) = full_bus();
        begin();
        let waiting = waiting(bus.publisher(), 1);
        assert_eq!([next(&mut watcher), next(&mut watcher)], [0, 1]);
        assert!(waiting.join().unwrap());
    });
}

/// A task begins to wait while the reader frees the capacity.
fn a_task_against_the_reader() {
    explore(Exploration::default().after_set_up(), || {
        let (bus, mut watcher) = full_bus();
        let publisher = bus.publisher();
        begin();
        let waiting = spawn(move || block_on(publisher.publish_async(Payload::new(1))).is_ok());
        assert_eq!([next(&mut watcher), next(&mut watcher)], [0, 1]);
        assert!(waiting.join().unwrap());
    });
}

/// Two publishers begin to wait, and the reader frees the only slot three times. Both publishers
/// continue.
fn two_publishers_against_the_reader() {
    explore(Exploration::default().after_set_up().first(30_000), || {
        let (bus, mut watcher) = full_bus();
        begin();
        let all = [1, 2].map(|number| waiting(bus.publisher(), number));
        let mut seen = [0; 3].map(|_| next(&mut watcher));
        seen.sort_unstable();
        assert_eq!(seen, [0, 1, 2]);
        for waiting in all {
            assert!(waiting.join().unwrap());
        }
    });
}

/// Two publishers are already waiting, and the reader frees the only slot three times. Both
/// publishers continue, in the order in which they began to wait.
fn two_publishers_in_turn_against_the_reader() {
    explore(Exploration::default().after_set_up(), || {
        let (bus, mut watcher) = full_bus();
        let all = [1, 2].map(|number| waits(bus.publisher(), number));
        begin();
        assert_eq!([0; 3].map(|_| next(&mut watcher)), [0, 1, 2]);
        for waiting in all {
            assert!(waiting.join().unwrap());
        }
    });
}

/// Two publishers are already waiting, and the reader frees two slots together. The publisher that
/// is woken passes its turn on to the other publisher.
fn two_publishers_against_a_reader_of_a_batch() {
    explore(Exploration::default().after_set_up(), || {
        // A batch reaches a watcher with `Wait` in slices of a quarter of the queue.
        let bus = inline_bus(8, OverflowPolicy::Wait);
        let mut watcher = bus.watch().unwrap();
        bus.publisher().try_publish_batch((0..8).map(Payload::new)).unwrap();
        let all = [8, 9].map(|number| waits(bus.publisher(), number));
        begin();
        assert_eq!(watcher.recv_batch().unwrap().len(), 2);
        // The next call gives back the slots and does not wait.
        assert_eq!(watcher.try_recv_batch().unwrap().len(), 2);
        for waiting in all {
            assert!(waiting.join().unwrap());
        }
    });
}

/// A publisher begins to wait while another publisher makes a single attempt and the reader frees
/// the slot. The attempt may clear the waiting publisher's request, but the waiting publisher still
/// continues.
fn an_attempt_against_a_publisher_that_waits() {
    explore(Exploration::default().after_set_up(), || {
        let (bus, mut watcher) = full_bus();
        begin();
        let waiting = waiting(bus.publisher(), 1);
        let tried = bus.publisher().try_publish(Payload::new(2)).is_ok();
        let mut seen = vec![next(&mut watcher), next(&mut watcher)];
        if tried {
            seen.push(next(&mut watcher));
        }
        assert!(waiting.join().unwrap());
        seen.sort_unstable();
        assert_eq!(seen, if tried { vec![0, 1, 2] } else { vec![0, 1] });
    });
}

/// The first event in a batch is accepted, and the second event waits for the reader to free
/// capacity.
fn a_batch_against_the_reader() {
    explore(Exploration::default().after_set_up(), || {
        let bus = inline_bus(2, OverflowPolicy::Wait);
        let mut watcher = bus.watch().unwrap();
        let publisher = bus.publisher();
        publisher.try_publish(Payload::new(0)).unwrap();
        begin();
        let publishing = spawn(move || publisher.publish_batch([1, 2].map(Payload::new)).is_ok());
        assert_eq!([0; 3].map(|_| next(&mut watcher)), [0, 1, 2]);
        assert!(publishing.join().unwrap());
    });
}

/// A batch waits for the reader, and a filter publishes another event from inside the publish call.
/// Every accepted event reaches the watcher, and no event is lost.
fn a_batch_with_a_nested_event_against_the_reader() {
    explore(Exploration::default().after_set_up(), || {
        let bus = inline_bus(2, OverflowPolicy::Wait);
        let publisher = bus.publisher();
        let filter = move |event: &Payload| {
            if event.number() == 1 {
                // If the queue holds both events, the queue has no capacity for the filter's event.
                let _ = publisher.try_publish(Payload::new(10));
            }
            true
        };
        let mut watcher = bus.watch_builder().filter(filter).watch().unwrap();
        let publisher = bus.publisher();
        begin();
        let publishing = spawn(move || publisher.publish_batch([1, 2, 3].map(Payload::new)).is_ok());
        let mut seen = [0; 3].map(|_| next(&mut watcher)).to_vec();
        assert!(publishing.join().unwrap());
        finish();
        bus.close();
        let (rest, lost) = numbers(&mut watcher);
        seen.extend(rest);
        let stats = watcher.stats();
        assert_eq!((lost, stats.dropped.total(), bus.stats().accepted), (0, 0, seen.len() as u64));
        seen.retain(|number| *number != 10);
        assert_eq!(seen, [1, 2, 3]);
    });
}

/// A task waits first and is woken but not polled, while a thread waits second. The task does not
/// block the thread.
fn a_task_that_is_not_polled_before_a_publisher() {
    explore(Exploration::default().after_set_up(), || {
        let (bus, mut watcher) = full_bus();
        let task = waiting_task(bus.publisher(), 2);
        begin();
        let waiting = waiting(bus.publisher(), 1);
        assert_eq!([next(&mut watcher), next(&mut watcher)], [0, 1]);
        assert!(waiting.join().unwrap());
        finish();
        drop(task);
    });
}

/// A task waits first and is dropped, while a thread waits second.
fn a_task_that_is_dropped_before_a_publisher() {
    explore(Exploration::default().after_set_up(), || {
        let (bus, mut watcher) = full_bus();
        let task = waiting_task(bus.publisher(), 2);
        begin();
        let waiting = waiting(bus.publisher(), 1);
        assert_eq!(next(&mut watcher), 0);
        drop(task);
        assert_eq!(next(&mut watcher), 1);
        assert!(waiting.join().unwrap());
    });
}

/// A task waits in `ready` first, and does not use the capacity. A thread waits second.
fn a_task_that_is_ready_before_a_publisher() {
    explore(Exploration::default().after_set_up(), || {
        let (bus, mut watcher) = full_bus();
        let publisher = bus.publisher();
        begin();
        let waiting = waiting(bus.publisher(), 1);
        let being_ready = spawn(move || block_on(publisher.ready()).is_ok());
        assert_eq!([next(&mut watcher), next(&mut watcher)], [0, 1]);
        assert!(waiting.join().unwrap());
        assert!(being_ready.join().unwrap());
    });
}

/// A publisher with a deadline waits first, followed by a task that is not polled and by a thread.
/// The publisher is given its turn just as its deadline expires and does not use the turn, so the
/// turn passes to the thread.
fn a_deadline_before_a_task_that_is_not_polled() {
    explore(Exploration::default().after_set_up(), || {
        let clock = FakeClock::new(SystemTime::UNIX_EPOCH);
        let options = BusOptions::default().queue_capacity(1).overflow(OverflowPolicy::Wait).inline(true);
        let bus = Broadcaster::with_clock(options, clock.clock()).unwrap();
        let mut watcher = bus.watch().unwrap();
        let publisher = bus.publisher();
        publisher.try_publish(Payload::new(0)).unwrap();
        let hasty = spawn(move || publisher.publish_timeout(Payload::new(1), Duration::from_secs(1)).is_ok());
        loom::thread::yield_now();
        let task = waiting_task(bus.publisher(), 2);
        let patient = waits(bus.publisher(), 3);
        begin();
        clock.advance(Duration::from_secs(1));
        assert_eq!(next(&mut watcher), 0);
        while next(&mut watcher) != 3 {}
        hasty.join().unwrap();
        assert!(patient.join().unwrap());
        finish();
        drop(task);
    });
}

/// Two publishers wait for two watchers, each of which accepts only one publisher's events. The
/// reader of one watcher frees capacity, and the other watcher is not read. The publisher that can
/// continue does so, even if it began to wait second.
fn a_topic_against_another_topic() {
    explore(Exploration::default().after_set_up(), || {
        let bus = inline_bus(1, OverflowPolicy::Wait);
        let [mut odd, mut even] = [1, 0].map(|rest| {
            let filter = move |event: &Payload| event.number() % 2 == rest;
            bus.watch_builder().filter(filter).watch().unwrap()
        });
        bus.publisher().try_publish(Payload::new(3)).unwrap();
        bus.publisher().try_publish(Payload::new(4)).unwrap();
        let all = [1, 2].map(|number| waits(bus.publisher(), number));
        begin();
        assert_eq!([next(&mut even), next(&mut even)], [4, 2]);
        finish();
        assert_eq!([next(&mut odd), next(&mut odd)], [3, 1]);
        for waiting in all {
            assert!(waiting.join().unwrap());
        }
    });
}

/// A publisher waits for one watcher. Another watcher is also full and is never read, but its
/// filter rejects the event. The first watcher's reader frees the only slot, another event fills
/// the slot, and the reader frees the slot again.
fn a_publisher_beside_another_topic_against_the_reader() {
    explore(Exploration::default().after_set_up(), || {
        let bus = inline_bus(1, OverflowPolicy::Wait);
        let mut all = bus.watch().unwrap();
        let is_even = |event: &Payload| event.number() % 2 == 0;
        let even = bus.watch_builder().filter(is_even).watch().unwrap();
        bus.publisher().try_publish(Payload::new(0)).unwrap();
        begin();
        let waiting = waiting(bus.publisher(), 1);
        assert_eq!(next(&mut all), 0);
        let tried = bus.publisher().try_publish(Payload::new(3)).is_ok();
        let mut seen = [next(&mut all)].to_vec();
        if tried {
            seen.push(next(&mut all));
        }
        assert!(waiting.join().unwrap());
        seen.sort_unstable();
        assert_eq!(seen, if tried { vec![1, 3] } else { vec![1] });
        drop(even);
    });
}

/// A publisher waits for a watcher whose filter accepts the event, while the reader frees capacity.
/// The filter is called once for the event, regardless of the number of attempts.
fn a_filter_of_a_full_watcher_is_asked_once() {
    explore(Exploration::default().after_set_up(), || {
        let bus = inline_bus(1, OverflowPolicy::Wait);
        let asked = Arc::new(AtomicUsize::new(0));
        let counted = asked.clone();
        // Relaxed: the bus's lock orders the calls to the filter.
        let filter = move |_: &Payload| counted.fetch_add(1, Ordering::Relaxed) < 9;
        let mut watcher = bus.watch_builder().filter(filter).watch().unwrap();
        bus.publisher().try_publish(Payload::new(0)).unwrap();
        begin();
        let waiting = waiting(bus.publisher(), 1);
        assert_eq!([next(&mut watcher), next(&mut watcher)], [0, 1]);
        assert!(waiting.join().unwrap());
        assert_eq!(asked.load(Ordering::Relaxed), 2);
    });
}

/// A publisher begins to wait while another thread stops the full watcher. The publisher continues.
fn a_publisher_against_a_stop() {
    explore(Exploration::default().after_set_up(), || {
        let (bus, watcher) = full_bus();
        begin();
        let waiting = waiting(bus.publisher(), 1);
        watcher.stop();
        assert!(waiting.join().unwrap());
    });
}

/// A publisher begins to wait while another thread drops the full watcher. The publisher continues.
fn a_publisher_against_a_drop() {
    explore(Exploration::default().after_set_up(), || {
        let (bus, watcher) = full_bus();
        begin();
        let waiting = waiting(bus.publisher(), 1);
        drop(watcher);
        assert!(waiting.join().unwrap());
        assert_eq!(bus.stats().departed.dropped.stopped, 1);
    });
}

/// Two publishers are already waiting when another thread drops the full watcher. Both publishers
/// continue.
fn two_publishers_against_a_drop() {
    explore(Exploration::default().after_set_up(), || {
        let (bus, watcher) = full_bus();
        let all = [1, 2].map(|number| waits(bus.publisher(), number));
        begin();
        drop(watcher);
        for waiting in all {
            assert!(waiting.join().unwrap());
        }
    });
}

/// A publisher begins to wait while the bus is being closed, and its event is returned.
fn a_publisher_against_close() {
    explore(Exploration::default().after_set_up(), || {
        let (bus, mut watcher) = full_bus();
        begin();
        let waiting = waiting(bus.publisher(), 1);
        bus.close();
        assert!(!waiting.join().unwrap());
        assert_eq!(numbers(&mut watcher), (vec![0], 0));
    });
}

/// A publisher begins to wait for a watcher with `WaitFor`, and continues when the watcher's time
/// limit has expired.
fn a_publisher_against_a_limit() {
    explore(Exploration::default().after_set_up(), || {
        let clock = FakeClock::new(SystemTime::UNIX_EPOCH);
        let policy = OverflowPolicy::WaitFor(Duration::from_secs(1));
        let options = BusOptions::default().queue_capacity(1).overflow(policy).inline(true);
        let bus = Broadcaster::with_clock(options, clock.clock()).unwrap();
        let watcher = bus.watch().unwrap();
        bus.publisher().try_publish(Payload::new(0)).unwrap();
        begin();
        let waiting = waiting(bus.publisher(), 1);
        clock.wait_for_waiters(1);
        clock.advance(Duration::from_secs(1));
        assert!(waiting.join().unwrap());
        assert_eq!(watcher.stats().dropped.timed_out, 1);
    });
}

models! {
    a_publisher_against_the_reader,
    a_task_against_the_reader,
    two_publishers_against_the_reader,
    two_publishers_in_turn_against_the_reader,
    two_publishers_against_a_reader_of_a_batch,
    an_attempt_against_a_publisher_that_waits,
    a_batch_against_the_reader,
    a_batch_with_a_nested_event_against_the_reader,
    a_task_that_is_not_polled_before_a_publisher,
    a_task_that_is_dropped_before_a_publisher,
    a_task_that_is_ready_before_a_publisher,
    a_deadline_before_a_task_that_is_not_polled,
    a_topic_against_another_topic,
    a_publisher_beside_another_topic_against_the_reader,
    a_filter_of_a_full_watcher_is_asked_once,
    a_publisher_against_a_stop,
    a_publisher_against_a_drop,
    two_publishers_against_a_drop,
    a_publisher_against_close,
    a_publisher_against_a_limit,
}
