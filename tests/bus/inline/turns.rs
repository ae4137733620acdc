//! Publishers that wait for watchers, and their turns. A watcher of a topic delays only the events
//! of that topic.

use std::sync::mpsc;
use std::task::Poll;
use std::thread;
use std::time::Duration;

use eventcast::Delivery::{Event, Lagged};
use eventcast::OverflowPolicy::{Wait, WaitFor};
use eventcast::error::PublishError;
use eventcast::{Broadcaster, Delivery, Watcher};

use crate::support::{
    Ear, LONG, assert_settled, available, drain, even, events, inline, inline_options, poll,
    publish_and_wait, reporting_waker, timed, turnstile, until, waits, watched,
};

/// When a watcher ends, every publisher whose event then fits continues, whether the publisher is a
/// thread or a task. This holds for the `Wait` policy, and for `WaitFor` before its limit.
#[test]
fn a_watcher_that_ends_lets_waiting_publishers_continue() {
    for (policy, drops) in [(Wait, false), (Wait, true), (WaitFor(LONG), true)] {
        watched(move || {
            let (clock, bus) = timed(inline_options(100));
            let (mut even, _) = even(&bus);
            let full = bus.watch_builder().queue_capacity(1).overflow(policy).watch().unwrap();
            let mut other = bus.watch().unwrap();
            let publisher = bus.publisher();
            publisher.publish(2).unwrap();
            let (mut task, ear) = (Box::pin(publisher.publish_async(5)), Ear::new());
            assert!(ear.poll(task.as_mut()).is_pending());
            // The timer also counts as a waiter if it is keeping a limit.
            let nth = usize::from(policy != Wait);
            clock.wait_for_waiters(nth);
            let first = publish_and_wait(&clock, publisher.clone(), 4, nth + 1);
            let others = [2, 3].map(|n| publish_and_wait(&clock, publisher.clone(), 3, nth + n));
            let stopped = if drops {
                drop(full);
                None
            } else {
                full.stop();
                Some(full)
            };
            for other in others {
                assert_eq!(other.join().unwrap(), Ok(()), "{policy}, drops: {drops}");
            }
            ear.wait();
            assert_eq!(ear.poll(task.as_mut()), Poll::Ready(Ok(())));
            assert_eq!(even.try_recv(), Ok(Event(2)));
            assert_eq!(first.join().unwrap(), Ok(()));
            assert_settled(&bus.stats(), 5);
            let mut received = events(&available(&mut other));
            received.sort_unstable();
            assert_eq!(received, [2, 3, 3, 4, 5]);
            assert_eq!(stopped.map(|mut watcher| drain(&mut watcher)), (!drops).then(|| vec![Event(2)]));
        });
    }
}

/// If there is still no capacity for a publisher's event at its turn, the publisher passes the turn
/// on to a publisher whose event fits.
#[test]
fn a_publisher_that_cannot_use_its_turn_passes_it_on() {
    watched(|| {
        let (clock, bus) = timed(inline_options(100));
        let (mut even, _) = even(&bus);
        let mut all = waits(&bus, 1).watch().unwrap();
        bus.publisher().publish(2).unwrap();
        // Both watchers are full. The first publisher needs capacity in both, and the others in
        // only one.
        let first = publish_and_wait(&clock, bus.publisher(), 4, 1);
        let second = publish_and_wait(&clock, bus.publisher(), 3, 2);
        let third = publish_and_wait(&clock, bus.publisher(), 5, 3);
        assert_eq!(all.recv(), Ok(Event(2)));
        // The turn is passed on to both of the other publishers, so either may be first.
        let received = [all.recv(), all.recv()];
        assert!(received.contains(&Ok(Event(3))) && received.contains(&Ok(Event(5))), "{received:?}");
        assert_eq!([second.join().unwrap(), third.join().unwrap()], [Ok(()), Ok(())]);
        assert_eq!(even.try_recv(), Ok(Event(2)));
        assert_eq!(first.join().unwrap(), Ok(()));
        assert_eq!((available(&mut all), available(&mut even)), (vec![Event(4)], vec![Event(4)]));
    });
}

/// A task also passes on a turn that it cannot use.
#[test]
fn a_task_that_cannot_use_its_turn_passes_it_on() {
    let bus = inline(100);
    let (mut even, _) = even(&bus);
    let mut all = waits(&bus, 1).watch().unwrap();
    let publisher = bus.publisher();
    publisher.publish(2).unwrap();
    let ((first_waker, first_woken), (second_waker, second_woken)) = (reporting_waker(), reporting_waker());
    let mut first = Box::pin(publisher.publish_async(4));
    let mut second = Box::pin(publisher.publish_async(3));
    assert!(poll(first.as_mut(), &first_waker).is_pending());
    assert!(poll(second.as_mut(), &second_waker).is_pending());
    assert_eq!(all.try_recv(), Ok(Event(2)));
    if first_woken.try_recv().is_ok() {
        assert!(poll(first.as_mut(), &first_waker).is_pending(), "the other watcher is full");
    }
    second_woken.try_recv().expect("the second task must be woken");
    assert_eq!(poll(second.as_mut(), &second_waker), Poll::Ready(Ok(())));
    assert_eq!([all.try_recv(), even.try_recv()], [Ok(Event(3)), Ok(Event(2))]);
    first_woken.try_recv().expect("the first task must be woken");
    assert_eq!(poll(first.as_mut(), &first_waker), Poll::Ready(Ok(())));
}

/// Returns two watchers, each with a full queue of one event. The first accepts even events and
/// holds event 2, and the second accepts odd events and holds event 1.
fn full_topics(bus: &Broadcaster<u64>) -> (Watcher<u64>, Watcher<u64>) {
    let even = waits(bus, 1).filter(|event| event % 2 == 0).watch().unwrap();
    let odd = waits(bus, 1).filter(|event| event % 2 == 1).watch().unwrap();
    bus.publisher().try_publish_batch([2, 1]).unwrap();
    (even, odd)
}

/// A publisher is waiting for the first topic. The second topic gets capacity, so the publisher
/// waiting behind the first publisher continues.
#[test]
fn a_publisher_that_waits_for_one_topic_does_not_delay_another_topic() {
    watched(|| {
        let (clock, bus) = timed(inline_options(1));
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

/// The publisher at the front may also be a publisher whose timeout has expired.
#[test]
fn a_publisher_whose_time_is_up_leaves_its_turn_to_another_topic() {
    watched(|| {
        let (clock, bus) = timed(inline_options(1));
        let (even, mut odd) = full_topics(&bus);
        let publisher = bus.publisher();
        let first = thread::spawn(move || publisher.publish_timeout(4, Duration::from_secs(1)));
        clock.wait_for_waiters(1);
        let second = publish_and_wait(&clock, bus.publisher(), 3, 2);
        assert_eq!(odd.try_recv(), Ok(Event(1)));
        clock.advance(Duration::from_secs(1));
        assert_eq!(first.join().unwrap(), Err(PublishError::Full(4)));
        assert_eq!(second.join().unwrap(), Ok(()));
        drop(even);
        assert_eq!(available(&mut odd), [Event(3)]);
    });
}

/// A batch and an event are waiting. When a slot becomes free, the event waiting behind the batch
/// can also continue.
#[test]
fn a_batch_that_waits_does_not_delay_an_event_for_which_there_is_capacity() {
    watched(|| {
        let (clock, bus) = timed(inline_options(8));
        let mut watcher = waits(&bus, 8).watch().unwrap();
        bus.publisher().publish_batch(0..8).unwrap();
        let publisher = bus.publisher();
        let batch = thread::spawn(move || publisher.publish_batch(10..18));
        // The batch takes the slot that becomes free, and waits again.
        assert_eq!(watcher.recv(), Ok(Event(0)));
        until(|| bus.stats().accepted == 9);
        let waiting = publish_and_wait(&clock, bus.publisher(), 8, 1);
        let mut received = 1;
        while !waiting.is_finished() {
            assert!(watcher.recv().is_ok());
            received += 1;
            // As long as both publishers wait, each slot that the reader frees is taken.
            until(|| waiting.is_finished() || bus.stats().accepted == 8 + received);
        }
        waiting.join().unwrap().unwrap();
        bus.close();
        let _ = batch.join().unwrap();
    });
}

/// A waiting publisher does not hold a lock, so every other call returns.
#[test]
fn a_publisher_that_waits_delays_no_other_call() {
    watched(|| {
        let (clock, bus) = timed(inline_options(8));
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
        // The gap was published while the event waited, so it precedes the event.
        let wanted = [Lagged(4), Event(2)];
        assert_eq!((available(&mut full), available(&mut late)), (wanted.to_vec(), wanted.to_vec()));
    });
}

/// Reading several events frees capacity for the same number of publishers: each publisher that
/// succeeds wakes the next.
#[test]
fn all_publishers_that_fit_are_woken() {
    watched(|| {
        let (clock, bus) = timed(inline_options(8));
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

#[test]
fn a_publisher_waits_for_a_handler() {
    watched(|| {
        let bus = inline(1);
        let (tx, handled) = mpsc::channel();
        waits(&bus, 1)
            .spawn(move |delivery| tx.send(*delivery.event().expect("unexpected loss")).unwrap())
            .unwrap();
        (0..500).for_each(|event| bus.publisher().publish(event).unwrap());
        bus.publisher().publish_batch(500..1000).unwrap();
        assert!(bus.shutdown().complete);
        assert!(handled.into_iter().eq(0..1000));
    });
}

/// A publisher stops waiting for a reader when the reader is dropped.
#[test]
fn a_publisher_outlives_the_watchers_that_it_waits_for() {
    const WATCHERS: usize = if cfg!(miri) { 20 } else { 500 };
    watched(|| {
        let bus = inline(1);
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

#[test]
fn a_handler_that_ends_lets_a_publisher_continue() {
    watched(|| {
        let (clock, bus) = timed(inline_options(10));
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

/// Waiting threads are woken in the order in which they began to wait.
#[test]
fn threads_that_wait_have_their_turns_in_order() {
    watched(|| {
        let (clock, bus) = timed(inline_options(1));
        let mut watcher = waits(&bus, 1).watch().unwrap();
        bus.publisher().publish(0).unwrap();
        let waiting: Vec<_> =
            (1..=5).map(|event| publish_and_wait(&clock, bus.publisher(), event, event as usize)).collect();
        for (event, thread) in (0..).zip(waiting) {
            assert_eq!(watcher.try_recv(), Ok(Event(event)));
            assert_eq!(thread.join().unwrap(), Ok(()));
        }
        assert_eq!(watcher.try_recv(), Ok(Event(5)));
    });
}
