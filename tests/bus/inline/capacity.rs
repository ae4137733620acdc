//! Full queues with the policy `Wait`: an event is accepted if every such watcher has capacity, and
//! refused otherwise.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, mpsc};
use std::task::{Poll, Waker};
use std::time::Duration;

use eventcast::Delivery::{Event, Lagged};
use eventcast::OverflowPolicy::{DropIncoming, DropOldest, Evict, Wait, WaitFor};
use eventcast::error::{PublishError, TryRecvError};
use eventcast::{Broadcaster, Watcher};
use futures::FutureExt;

use crate::support::{LONG, Live, Tracked, available, reporting_waker, watched};

use super::support::{assert_settled, inline, options, poll, publish_and_wait, timed, waits};

/// An event that does not fit is returned, is offered to no watcher, and no filter is asked about
/// it.
#[test]
fn an_event_that_does_not_fit_is_returned_and_offered_to_no_watcher() {
    let bus = inline(100);
    let (asked_tx, asked) = mpsc::channel();
    let filter = move |event: &u64| asked_tx.send(*event).is_ok();
    let mut before = bus.watch_builder().filter(filter).watch().unwrap();
    let mut full = waits(&bus, 2).watch().unwrap();
    let mut after = bus.watch().unwrap();
    let publisher = bus.publisher();
    publisher.try_publish(1).unwrap();
    publisher.try_publish(2).unwrap();
    for _ in 0..3 {
        assert_eq!(publisher.try_publish(3), Err(PublishError::Full(3)));
    }
    assert_eq!(bus.stats().rejected_full, 3);
    assert_settled(&bus.stats(), 2);
    assert_eq!(asked.try_iter().collect::<Vec<_>>(), [1, 2]);
    for watcher in [&mut before, &mut after] {
        assert_eq!(available(watcher), [Event(1), Event(2)]);
    }
    assert_eq!(full.try_recv(), Ok(Event(1)));
    publisher.try_publish(4).unwrap();
    assert!(publisher.try_publish(5).unwrap_err().is_full());
    for watcher in [&mut before, &mut after] {
        assert_eq!(available(watcher), [Event(4)]);
    }
    assert_eq!(available(&mut full), [Event(2), Event(4)]);
    assert_settled(&bus.stats(), 3);
}

/// The fullest of several `Wait` watchers decides.
#[test]
fn all_watchers_that_lose_nothing_must_have_capacity() {
    let bus = inline(100);
    let mut watchers = [3, 1, 2].map(|queue_len| waits(&bus, queue_len).watch().unwrap());
    let publisher = bus.publisher();
    publisher.try_publish(1).unwrap();
    assert!(publisher.try_publish(2).unwrap_err().is_full());
    assert_eq!(watchers[1].try_recv(), Ok(Event(1)));
    publisher.try_publish(2).unwrap();
    assert_eq!(watchers[1].try_recv(), Ok(Event(2)));
    assert!(publisher.try_publish(3).unwrap_err().is_full(), "the third watcher has two");
    assert_eq!(watchers[2].try_recv(), Ok(Event(1)));
    publisher.try_publish(3).unwrap();
    assert_eq!(available(&mut watchers[0]), [1, 2, 3].map(Event));
}

/// A watcher whose policy loses events loses them beside a full `Wait` watcher only for what the
/// bus accepts.
#[test]
fn other_policies_lose_only_what_was_accepted() {
    let bus = inline(100);
    let mut loses = bus.watch_builder().queue_len(1).overflow(DropIncoming).watch().unwrap();
    let _full = waits(&bus, 3).watch().unwrap();
    let refused = (0..10).filter(|event| bus.publisher().try_publish(*event).is_err()).count();
    assert_eq!(refused, 7);
    assert_eq!(available(&mut loses), [Event(0), Lagged(2)]);
}

/// Events that the reader borrows take capacity, until its next call.
#[test]
fn a_borrowed_batch_takes_capacity() {
    let bus = inline(1);
    let mut watcher = waits(&bus, 1).watch().unwrap();
    bus.publisher().publish(1).unwrap();
    assert_eq!(*watcher.try_recv_batch().unwrap(), [1]);
    assert!(bus.publisher().try_publish(2).unwrap_err().is_full());
    assert_eq!(watcher.try_recv(), Err(TryRecvError::Empty));
    bus.publisher().try_publish(2).unwrap();
    assert_eq!(available(&mut watcher), [Event(2)]);
}

/// A batch that does not fit is accepted as far as it fits, for all watchers alike.
#[test]
fn the_front_of_a_batch_that_fits_is_accepted() {
    for max_batch in [1, 2, 3, 256] {
        let bus = Broadcaster::with_options(options(100).max_batch(max_batch)).unwrap();
        let mut full = waits(&bus, 4).watch().unwrap();
        let mut other = bus.watch().unwrap();
        let rest = bus.publisher().try_publish_batch(0..10).unwrap_err();
        assert!(rest.is_full());
        assert_eq!(rest.into_inner(), [4, 5, 6, 7, 8, 9], "pieces of {max_batch}");
        assert_eq!(bus.stats().rejected_full, 6);
        assert_settled(&bus.stats(), 4);
        assert_eq!(available(&mut other), [0, 1, 2, 3].map(Event));
        assert_eq!([full.try_recv(), full.try_recv()], [Ok(Event(0)), Ok(Event(1))]);
        let rest = bus.publisher().try_publish_batch(4..10).unwrap_err();
        assert_eq!(rest.into_inner(), [6, 7, 8, 9], "pieces of {max_batch}");
        assert_eq!(available(&mut full), [2, 3, 4, 5].map(Event));
        assert_eq!(available(&mut other), [4, 5].map(Event));
    }
}

/// A batch without events is accepted even by a full watcher.
#[test]
fn an_empty_batch_needs_no_capacity() {
    let bus = inline(1);
    let _full = waits(&bus, 1).watch().unwrap();
    bus.publisher().publish(1).unwrap();
    assert_eq!(bus.publisher().try_publish_batch([]), Ok(()));
    assert_eq!(bus.publisher().publish_batch([]), Ok(()));
    assert_settled(&bus.stats(), 1);
}

/// A gap needs no capacity, and its place is after the queued events.
#[test]
fn a_gap_needs_no_capacity() {
    let bus = inline(1);
    let mut full = waits(&bus, 1).watch().unwrap();
    bus.publisher().publish(1).unwrap();
    bus.publisher().publish_gap(2).unwrap();
    bus.publisher().publish_gap(3).unwrap();
    assert_eq!(full.try_recv(), Ok(Event(1)));
    bus.publisher().try_publish(7).unwrap();
    assert_eq!(available(&mut full), [Lagged(5), Event(7)]);
    assert_eq!((full.stats().missed, bus.stats().rejected_full), (5, 0));
}

/// A registration needs no capacity of others, and neither does a flush.
#[test]
fn watch_and_flush_do_not_wait_for_a_full_watcher() {
    watched(|| {
        let bus = inline(1);
        let _full = waits(&bus, 1).watch().unwrap();
        bus.publisher().publish(1).unwrap();
        let mut others = [bus.watch().unwrap(), waits(&bus, 5).watch().unwrap()];
        assert_eq!(bus.flush(LONG), Ok(()));
        assert!(bus.publisher().try_publish(2).is_err());
        assert!(others.iter_mut().all(|other| other.try_recv() == Err(TryRecvError::Empty)));
    });
}

/// A watcher that has been stopped or dropped needs no capacity any more.
#[test]
fn a_stopped_watcher_needs_no_capacity() {
    for drops in [false, true] {
        let bus = inline(100);
        let full = waits(&bus, 1).watch().unwrap();
        let mut other = bus.watch().unwrap();
        bus.publisher().publish(1).unwrap();
        assert!(bus.publisher().try_publish(2).unwrap_err().is_full());
        let kept = if drops {
            drop(full);
            None
        } else {
            full.stop();
            Some(full)
        };
        bus.publisher().try_publish(2).unwrap();
        assert_eq!(available(&mut other), [Event(1), Event(2)]);
        if let Some(mut stopped) = kept {
            assert_eq!(available(&mut stopped), [Event(1)]);
            assert_eq!(stopped.try_recv(), Err(TryRecvError::Ended));
        }
        assert_settled(&bus.stats(), 2);
    }
}

/// Registers a `Wait` watcher with a queue of one event, whose filter accepts even numbers, and
/// returns the number of times that the filter was asked.
fn even(bus: &Broadcaster<u64>) -> (Watcher<u64>, Arc<AtomicU64>) {
    let asked = Arc::new(AtomicU64::new(0));
    let count = asked.clone();
    let filter = move |event: &u64| {
        count.fetch_add(1, Ordering::SeqCst);
        event % 2 == 0
    };
    (bus.watch_builder().queue_len(1).overflow(Wait).filter(filter).watch().unwrap(), asked)
}

/// A full watcher delays only the events that its filter accepts, so topics on one bus do not delay
/// each other.
#[test]
fn a_full_watcher_does_not_refuse_what_its_filter_refuses() {
    let bus = inline(100);
    let (mut even, _) = even(&bus);
    let mut other = bus.watch().unwrap();
    let publisher = bus.publisher();
    publisher.try_publish(2).unwrap();
    publisher.try_publish(3).unwrap();
    publisher.publish(5).unwrap();
    publisher.publish_async(7).now_or_never().expect("it does not wait").unwrap();
    assert_eq!(publisher.try_publish(4), Err(PublishError::Full(4)));
    publisher.try_publish(9).unwrap();
    assert_eq!(available(&mut other), [2, 3, 5, 7, 9].map(Event));
    assert_eq!((even.stats().filtered, even.stats().offered), (4, 1));
    assert_eq!(available(&mut even), [Event(2)]);
    publisher.try_publish(4).unwrap();
    assert_eq!(available(&mut even), [Event(4)]);
    assert_settled(&bus.stats(), 6);
}

/// The same within a batch.
#[test]
fn a_batch_is_accepted_up_to_the_first_event_that_a_full_watcher_wants() {
    let bus = inline(100);
    let (mut even, _) = even(&bus);
    let mut other = bus.watch().unwrap();
    let rest = bus.publisher().try_publish_batch([1, 2, 3, 5, 4, 7, 6]).unwrap_err();
    assert_eq!(rest.into_inner(), [4, 7, 6]);
    assert_eq!(available(&mut other), [1, 2, 3, 5].map(Event));
    assert_eq!(available(&mut even), [Event(2)]);
    assert_settled(&bus.stats(), 4);
}

/// A batch that a full watcher's filter refuses is accepted event by event, and the events that
/// follow stay where they are: the time grows with the length of the batch, not with its square.
#[test]
fn a_batch_that_is_accepted_event_by_event_stays_in_its_memory() {
    let bus = inline(100);
    let (asked_tx, asked) = mpsc::channel();
    let filter = move |event: &u64| {
        asked_tx.send(&raw const *event as usize).unwrap();
        event % 2 == 0
    };
    let _full = bus.watch_builder().queue_len(1).overflow(Wait).filter(filter).watch().unwrap();
    bus.publisher().publish(2).unwrap();
    assert_eq!(asked.try_iter().count(), 1);
    bus.publisher().try_publish_batch([1, 3, 5, 7, 9]).unwrap();
    let places: Vec<_> = asked.try_iter().collect();
    assert_eq!(places, [0, 1, 2, 3, 4].map(|i| places[0] + i * size_of::<u64>()));
}

/// Each call asks the filter once about its event, even if it waits and is polled several times.
#[test]
fn a_filter_is_asked_once_for_an_event_that_waits() {
    let bus = inline(100);
    let (mut even, asked) = even(&bus);
    let mut asked_since = {
        let mut last = 0;
        move || {
            let now = asked.load(Ordering::SeqCst);
            now - std::mem::replace(&mut last, now)
        }
    };
    let publisher = bus.publisher();
    publisher.publish(2).unwrap();
    assert_eq!(asked_since(), 1);
    let mut publishing = Box::pin(publisher.publish_async(4));
    for _ in 0..3 {
        assert!(poll(publishing.as_mut(), Waker::noop()).is_pending());
    }
    assert_eq!(asked_since(), 1);
    assert!(publisher.try_publish(6).unwrap_err().is_full());
    assert_eq!(asked_since(), 1, "each call asks for its own event");
    assert_eq!(even.try_recv(), Ok(Event(2)));
    assert!(poll(publishing.as_mut(), Waker::noop()).is_ready());
    assert_eq!(asked_since(), 0, "it was asked when the publish began");
    assert_eq!(available(&mut even), [Event(4)]);
    assert_eq!((even.stats().offered, even.stats().filtered), (2, 0));
}

/// A publisher whose event still has no capacity when its turn comes passes the turn on to one
/// whose event has.
#[test]
fn a_publisher_that_cannot_use_its_turn_passes_it_on() {
    watched(|| {
        let (clock, bus) = timed(options(100));
        let (mut even, _) = even(&bus);
        let mut all = waits(&bus, 1).watch().unwrap();
        bus.publisher().publish(2).unwrap();
        // Both watchers are full. The first publisher needs both, and the others only one of them.
        let first = publish_and_wait(&clock, bus.publisher(), 4, 1);
        let second = publish_and_wait(&clock, bus.publisher(), 3, 2);
        let third = publish_and_wait(&clock, bus.publisher(), 5, 3);
        assert_eq!(all.recv(), Ok(Event(2)));
        // The turn is passed on to both, so either may be first.
        let received = [all.recv(), all.recv()];
        assert!(received.contains(&Ok(Event(3))) && received.contains(&Ok(Event(5))), "{received:?}");
        assert_eq!([second.join().unwrap(), third.join().unwrap()], [Ok(()), Ok(())]);
        assert_eq!(even.try_recv(), Ok(Event(2)));
        assert_eq!(first.join().unwrap(), Ok(()));
        assert_eq!((available(&mut all), available(&mut even)), (vec![Event(4)], vec![Event(4)]));
    });
}

/// A watcher that goes lets every publisher continue whose event then fits.
#[test]
fn a_watcher_that_ends_wakes_all_publishers() {
    for drops in [false, true] {
        watched(move || {
            let (clock, bus) = timed(options(100));
            let (mut even, _) = even(&bus);
            let all = waits(&bus, 1).watch().unwrap();
            bus.publisher().publish(2).unwrap();
            let first = publish_and_wait(&clock, bus.publisher(), 4, 1);
            let others = [2, 3].map(|nth| publish_and_wait(&clock, bus.publisher(), 3, nth));
            if drops {
                drop(all);
            } else {
                all.stop();
            }
            for other in others {
                assert_eq!(other.join().unwrap(), Ok(()));
            }
            assert_eq!(even.try_recv(), Ok(Event(2)));
            assert_eq!(first.join().unwrap(), Ok(()));
            assert_settled(&bus.stats(), 4);
        });
    }
}

/// The same for tasks.
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
    second_woken.try_recv().expect("the second task is not woken");
    assert_eq!(poll(second.as_mut(), &second_waker), Poll::Ready(Ok(())));
    assert_eq!([all.try_recv(), even.try_recv()], [Ok(Event(3)), Ok(Event(2))]);
    first_woken.try_recv().expect("the first task is not woken");
    assert_eq!(poll(first.as_mut(), &first_waker), Poll::Ready(Ok(())));
}

/// A filter that has state sees each accepted event once, in order.
#[test]
fn a_filter_sees_each_accepted_event_once() {
    let bus = inline(100);
    let mut seen = Vec::new();
    let (seen_tx, seen_rx) = mpsc::channel();
    let filter = move |event: &u64| {
        seen.push(*event);
        seen_tx.send(seen.clone()).unwrap();
        seen.len() % 2 == 1
    };
    let mut every_other = waits(&bus, 4).filter(filter).watch().unwrap();
    for event in 0..8 {
        bus.publisher().try_publish(event).unwrap();
    }
    assert_eq!(seen_rx.try_iter().last().unwrap(), [0, 1, 2, 3, 4, 5, 6, 7]);
    assert_eq!(available(&mut every_other), [0, 2, 4, 6].map(Event));
}

/// G5: however much is published, the queues bound the events that are alive.
#[test]
fn what_lives_is_bounded_by_the_queues() {
    const MAX_BATCH: u64 = 8;
    const QUEUE: u64 = 6;
    let live = Live::default();
    let bus = Broadcaster::with_options(options(QUEUE as usize).max_batch(MAX_BATCH as usize)).unwrap();
    let mut watchers: Vec<_> = [DropIncoming, DropOldest, WaitFor(Duration::ZERO), Evict]
        .map(|policy| bus.watch_builder().overflow(policy).watch().unwrap())
        .into();
    watchers.push(bus.watch_builder().filter(|event: &Tracked| event.number % 2 == 0).watch().unwrap());
    let mut wait = waits(&bus, QUEUE as usize).watch().unwrap();
    for round in 0..100 {
        let batch = (0..MAX_BATCH).map(|number| live.event(round * MAX_BATCH + number));
        let refused =
            bus.publisher().try_publish_batch(batch).map_or_else(|error| error.into_inner().len(), |()| 0);
        assert_eq!(refused as u64, if round == 0 { MAX_BATCH - QUEUE } else { MAX_BATCH - 1 });
        // Each queue, and two batches for each watcher.
        let bound = (QUEUE + 2 * MAX_BATCH) * 6;
        assert!(live.count() <= i64::try_from(bound).unwrap(), "{} events live", live.count());
        assert!(wait.try_recv().is_ok());
    }
    assert!(bus.shutdown().complete);
    drop((watchers, wait));
    assert_eq!(live.count(), 0);
}
