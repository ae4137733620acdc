//! Full queues with the `Wait` policy: an event is accepted if every `Wait` watcher has capacity,
//! and is refused otherwise.

use std::sync::atomic::Ordering;
use std::sync::mpsc;
use std::task::Waker;

use eventcast::Broadcaster;
use eventcast::Delivery::{Event, Lagged};
use eventcast::OverflowPolicy::{DropIncoming, Wait};
use eventcast::error::{PublishError, TryRecvError};
use futures::FutureExt;

use crate::support::{assert_settled, available, even, inline, inline_options, poll, waits};

/// If an event does not fit, it is returned to the publisher. The event is not offered to any
/// watcher, and no filter is called for the event.
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

/// Among several `Wait` watchers, the fullest one decides whether an event is accepted.
#[test]
fn all_watchers_that_lose_nothing_must_have_capacity() {
    let bus = inline(100);
    let mut watchers = [3, 1, 2].map(|queue_capacity| waits(&bus, queue_capacity).watch().unwrap());
    let publisher = bus.publisher();
    publisher.try_publish(1).unwrap();
    assert!(publisher.try_publish(2).unwrap_err().is_full());
    assert_eq!(watchers[1].try_recv(), Ok(Event(1)));
    publisher.try_publish(2).unwrap();
    assert_eq!(watchers[1].try_recv(), Ok(Event(2)));
    assert!(publisher.try_publish(3).unwrap_err().is_full(), "the third watcher has two events");
    assert_eq!(watchers[2].try_recv(), Ok(Event(1)));
    publisher.try_publish(3).unwrap();
    assert_eq!(available(&mut watchers[0]), [1, 2, 3].map(Event));
}

/// If a `Wait` watcher is full, a watcher with a lossy policy loses only events that the bus
/// accepts.
#[test]
fn other_policies_lose_only_what_was_accepted() {
    let bus = inline(100);
    let mut loses = bus.watch_builder().queue_capacity(1).overflow(DropIncoming).watch().unwrap();
    let _full = waits(&bus, 3).watch().unwrap();
    let refused = (0..10).filter(|event| bus.publisher().try_publish(*event).is_err()).count();
    assert_eq!(refused, 7);
    assert_eq!(available(&mut loses), [Event(0), Lagged(2)]);
}

/// Events that the reader has borrowed take up capacity until the reader's next call.
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

/// If a batch does not fit as a whole, the part at its beginning that fits is accepted for all
/// watchers alike.
#[test]
fn the_front_of_a_batch_that_fits_is_accepted() {
    for max_batch in [1, 2, 3, 256] {
        let bus = Broadcaster::with_options(inline_options(100).max_batch(max_batch)).unwrap();
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

/// A batch without events is accepted even if a watcher is full.
#[test]
fn an_empty_batch_needs_no_capacity() {
    let bus = inline(1);
    let _full = waits(&bus, 1).watch().unwrap();
    bus.publisher().publish(1).unwrap();
    assert_eq!(bus.publisher().try_publish_batch([]), Ok(()));
    assert_eq!(bus.publisher().publish_batch([]), Ok(()));
    assert_settled(&bus.stats(), 1);
}

/// A gap does not need capacity, and its place is after the queued events.
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
    publisher.publish_async(7).now_or_never().expect("the publish must not wait").unwrap();
    assert_eq!(publisher.try_publish(4), Err(PublishError::Full(4)));
    publisher.try_publish(9).unwrap();
    assert_eq!(available(&mut other), [2, 3, 5, 7, 9].map(Event));
    assert_eq!((even.stats().filtered, even.stats().offered), (4, 1));
    assert_eq!(available(&mut even), [Event(2)]);
    publisher.try_publish(4).unwrap();
    assert_eq!(available(&mut even), [Event(4)]);
    assert_settled(&bus.stats(), 6);
}

/// A full watcher delays only the events that its filter accepts, even within a batch.
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

/// If a full watcher's filter refuses the events of a batch, the batch is accepted event by event,
/// without moving the remaining events in memory. The time is therefore linear in the length of the
/// batch rather than quadratic.
#[test]
fn a_batch_that_is_accepted_event_by_event_stays_in_its_memory() {
    let bus = inline(100);
    let (asked_tx, asked) = mpsc::channel();
    let filter = move |event: &u64| {
        asked_tx.send(&raw const *event as usize).unwrap();
        event % 2 == 0
    };
    let _full = bus.watch_builder().queue_capacity(1).overflow(Wait).filter(filter).watch().unwrap();
    bus.publisher().publish(2).unwrap();
    assert_eq!(asked.try_iter().count(), 1);
    bus.publisher().try_publish_batch([1, 3, 5, 7, 9]).unwrap();
    let places: Vec<_> = asked.try_iter().collect();
    assert_eq!(places, [0, 1, 2, 3, 4].map(|i| places[0] + i * size_of::<u64>()));
}

/// Each publish call runs the filter once for its event, even if the call waits and is polled
/// several times.
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
    assert_eq!(asked_since(), 1, "each call runs the filter for its own event");
    assert_eq!(even.try_recv(), Ok(Event(2)));
    assert!(poll(publishing.as_mut(), Waker::noop()).is_ready());
    assert_eq!(asked_since(), 0, "the filter already ran when the publish began");
    assert_eq!(available(&mut even), [Event(4)]);
    assert_eq!((even.stats().offered, even.stats().filtered), (2, 0));
}

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

/// If a reader takes events from the middle of a batch, it frees capacity event by event.
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
