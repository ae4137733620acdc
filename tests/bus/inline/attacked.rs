//! Faults that an attack on the bus without a thread has found.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::task::{Context, Wake, Waker};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use eventcast::Delivery::Event;
use eventcast::error::PublishError;
use eventcast::{Broadcaster, OverflowPolicy, Publisher, Watcher};

use crate::support::{LONG, available, until, watched};

use super::support::{assert_settled, inline, options, publish_and_wait, timed, waits};

const SECOND: Duration = Duration::from_secs(1);
const LIMIT: Duration = Duration::from_secs(10);

/// Two watchers with a queue of one event each, both full: one with the event 2, which accepts even
/// events, and one with the event 1, which accepts odd ones.
fn full_topics(bus: &Broadcaster<u64>) -> (Watcher<u64>, Watcher<u64>) {
    let even = waits(bus, 1).filter(|event| event % 2 == 0).watch().unwrap();
    let odd = waits(bus, 1).filter(|event| event % 2 == 1).watch().unwrap();
    bus.publisher().try_publish_batch([2, 1]).unwrap();
    (even, odd)
}

/// A publisher waits for the first topic. The second topic gets capacity, so the publisher that
/// waits behind the first one continues.
#[test]
fn a_publisher_that_waits_for_one_topic_does_not_delay_another_topic() {
    watched(|| {
        let (clock, bus) = timed(options(1));
        let (mut even, mut odd) = full_topics(&bus);
        let first = publish_and_wait(&clock, bus.publisher(), 4, 1);
        let second = publish_and_wait(&clock, bus.publisher(), 3, 2);
        assert_eq!(odd.try_recv(), Ok(Event(1)));
        assert_eq!(second.join().unwrap(), Ok(()));
        assert_eq!(odd.try_recv(), Ok(Event(3)));
        assert_eq!(even.try_recv(), Ok(Event(2)));
        assert_eq!(first.join().unwrap(), Ok(()));
        assert_settled(&bus.stats(), 4);
    });
}

/// The same, with a publisher in front that gives up.
#[test]
fn a_publisher_that_gives_up_leaves_its_turn_to_another_topic() {
    watched(|| {
        let (clock, bus) = timed(options(1));
        let (even, mut odd) = full_topics(&bus);
        let publisher = bus.publisher();
        let first = thread::spawn(move || publisher.publish_timeout(4, SECOND));
        clock.wait_for_waiters(1);
        let second = publish_and_wait(&clock, bus.publisher(), 3, 2);
        assert_eq!(odd.try_recv(), Ok(Event(1)));
        clock.advance(SECOND);
        assert_eq!(first.join().unwrap(), Err(PublishError::Full(4)));
        assert_eq!(second.join().unwrap(), Ok(()));
        drop(even);
        assert_eq!(available(&mut odd), [Event(3)]);
    });
}

/// Publishes an event when it is dropped, and notes what came of it.
struct PublishesAtDrop(Publisher<u64>, Said);

/// The result of the publish.
type Said = Arc<Mutex<Option<Result<(), PublishError<u64>>>>>;

impl Drop for PublishesAtDrop {
    fn drop(&mut self) {
        *self.1.lock().unwrap() = Some(self.0.try_publish(3));
    }
}

/// Publishes the event 3 from inside the call that removes a watcher, and returns the result.
fn publish_from_a_destructor(bus: &Broadcaster<u64>) -> Result<(), PublishError<u64>> {
    let result = Arc::default();
    let publishes = PublishesAtDrop(bus.publisher(), Arc::clone(&result));
    let keeps = move |_: &u64| {
        let _ = &publishes;
        true
    };
    drop(bus.watch_builder().filter(keeps).watch().unwrap());
    let result = result.lock().unwrap().take();
    result.expect("the filter is dropped with its watcher")
}

/// A watcher has capacity, and an event from a destructor takes it. From then on the limit runs
/// anew.
#[test]
fn the_limit_runs_anew_when_a_nested_event_takes_the_capacity() {
    watched(|| {
        let (clock, bus) = timed(options(1));
        let mut slow = bus.watch_builder().overflow(OverflowPolicy::WaitFor(LIMIT)).watch().unwrap();
        let publisher = bus.publisher();
        publisher.try_publish(1).unwrap();
        assert_eq!(publisher.try_publish(2), Err(PublishError::Full(2)));
        clock.advance(LIMIT / 2);
        assert_eq!(slow.try_recv(), Ok(Event(1)));
        assert_eq!(publish_from_a_destructor(&bus), Ok(()));
        clock.advance(LIMIT / 2);
        assert_eq!(publisher.try_publish(4), Err(PublishError::Full(4)), "full for half the limit");
        assert_eq!(available(&mut slow), [Event(3)]);
    });
}

/// A watcher that has been full for its limit loses every event, also one that a destructor
/// publishes.
#[test]
fn a_watcher_beyond_its_limit_refuses_no_nested_event() {
    watched(|| {
        let (clock, bus) = timed(options(1));
        let slow = bus.watch_builder().overflow(OverflowPolicy::WaitFor(LIMIT)).watch().unwrap();
        let publisher = bus.publisher();
        publisher.try_publish(1).unwrap();
        assert_eq!(publisher.try_publish(2), Err(PublishError::Full(2)));
        clock.advance(LIMIT);
        assert_eq!(publisher.try_publish(2), Ok(()));
        assert_eq!(publish_from_a_destructor(&bus), Ok(()));
        assert_eq!(slow.stats().dropped.timed_out, 2);
    });
}

/// Joins a thread when it is dropped, after it has told the thread to publish a last time.
struct JoinsAtDrop(Option<(mpsc::Sender<()>, JoinHandle<()>)>);

impl Drop for JoinsAtDrop {
    fn drop(&mut self) {
        let Some((go, thread)) = self.0.take() else { return };
        drop(go);
        thread.join().unwrap();
    }
}

/// The destructor of a filter waits for a thread that publishes.
#[test]
fn the_destructor_of_a_filter_may_join_a_thread_that_publishes() {
    for closes in [false, true] {
        watched(move || {
            let bus = inline::<u64>(10);
            let (publisher, (go_tx, go)) = (bus.publisher(), mpsc::channel());
            let thread = thread::spawn(move || {
                let _: Result<(), _> = go.recv();
                assert_eq!(publisher.publish(1).is_ok(), !closes);
            });
            let joins = JoinsAtDrop(Some((go_tx, thread)));
            let keeps = move |_: &u64| {
                let _ = &joins;
                true
            };
            let watcher = bus.watch_builder().filter(keeps).watch().unwrap();
            if closes {
                bus.close();
            }
            drop(watcher);
        });
    }
}

/// A waker that publishes, and notes that it was called.
struct Publishes(Publisher<u64>, AtomicBool);

impl Wake for Publishes {
    fn wake(self: Arc<Self>) {
        if !self.1.swap(true, Ordering::Relaxed) {
            let _ = self.0.publish(3);
            let _ = self.0.publish(4);
        }
    }
}

/// The waker of a task that waits to publish runs on the thread of the reader. It must not wait for
/// capacity that only this reader frees.
#[test]
fn a_waker_on_the_thread_of_a_reader_does_not_wait_for_that_reader() {
    watched(|| {
        let bus = inline(1);
        let mut watcher = waits(&bus, 1).watch().unwrap();
        bus.publisher().try_publish(1).unwrap();
        let publisher = bus.publisher();
        let mut publishing = Box::pin(publisher.publish_async(2));
        let waker = Waker::from(Arc::new(Publishes(bus.publisher(), AtomicBool::new(false))));
        assert!(publishing.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
        assert_eq!(watcher.try_recv(), Ok(Event(1)));
        assert_eq!(watcher.recv_timeout(LONG), Ok(Event(3)));
        drop(publishing);
        assert_eq!(bus.stats().rejected_full, 1);
    });
}

/// A batch and an event wait. A place for one event is of use to the one that waits behind the
/// batch, too.
#[test]
fn a_batch_that_waits_does_not_delay_an_event_for_which_there_is_capacity() {
    watched(|| {
        let (clock, bus) = timed(options(8));
        let mut watcher = waits(&bus, 8).watch().unwrap();
        bus.publisher().publish_batch(0..8).unwrap();
        let publisher = bus.publisher();
        let batch = thread::spawn(move || publisher.publish_batch(10..18));
        // The batch takes the place that comes free, and waits again.
        assert_eq!(watcher.recv(), Ok(Event(0)));
        until(|| bus.stats().accepted == 9);
        let waiting = publish_and_wait(&clock, bus.publisher(), 8, 1);
        let mut received = 1;
        while !waiting.is_finished() {
            assert!(watcher.recv().is_ok());
            received += 1;
            // As long as both wait, each place that the reader frees is taken.
            until(|| waiting.is_finished() || bus.stats().accepted == 8 + received);
        }
        waiting.join().unwrap().unwrap();
        bus.close();
        let _ = batch.join().unwrap();
    });
}

/// A filter closes the bus at the first event of a batch that is accepted event by event. The other
/// events come back.
#[test]
fn a_close_between_the_parts_of_a_batch_returns_the_rest() {
    watched(|| {
        let bus = inline(10);
        // Its queue has one place, so that the batch is accepted in parts of one event.
        let parts = waits(&bus, 1).filter(|_| false).watch().unwrap();
        let closes = bus.clone();
        let filter = move |_: &u64| {
            closes.close();
            true
        };
        let mut watcher = bus.watch_builder().filter(filter).watch().unwrap();
        let error = bus.publisher().publish_batch([1, 2, 3]).unwrap_err();
        assert_eq!(error, PublishError::Closed(vec![2, 3]));
        assert_eq!(available(&mut watcher), [Event(1)]);
        assert_settled(&bus.stats(), 1);
        drop(parts);
    });
}
