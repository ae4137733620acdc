//! Publishing from inside a call of the same bus.

use std::sync::mpsc;

use eventcast::Delivery::{Event, Lagged};
use eventcast::OverflowPolicy::{DropIncoming, WaitFor};
use eventcast::bus::Start;
use eventcast::error::PublishError;
use eventcast::{Broadcaster, Delivery};
use futures::FutureExt;

use crate::support::{
    LONG, assert_settled, available, calling, inline, inline_options, inside, timed, waits, watched,
};

/// If a filter publishes an event, that event is offered to every watcher after the outer event,
/// and before the outer publish returns.
#[test]
fn what_a_filter_publishes_follows_its_event() {
    let bus = inline(100);
    let publisher = bus.publisher();
    let mut before = bus.watch().unwrap();
    let mut calling = calling(&bus, move |event| {
        if event < 10 {
            publisher.publish(10 * event).unwrap();
            publisher.publish(10 * event + 1).unwrap();
        }
    });
    let mut after = bus.watch().unwrap();
    for event in 1..10 {
        bus.publisher().publish(event).unwrap();
        for watcher in [&mut before, &mut calling, &mut after] {
            assert_eq!(available(watcher), [event, 10 * event, 10 * event + 1].map(Event));
        }
        assert_settled(&bus.stats(), 3 * event);
    }
}

/// If an event is published while a nested event is being offered, it follows everything published
/// before it.
#[test]
fn nested_events_keep_the_order_in_which_they_were_published() {
    let bus = inline(100);
    let publisher = bus.publisher();
    let mut calling = calling(&bus, move |event| match event {
        1 => publisher.publish_batch([11, 12]).unwrap(),
        11 => publisher.publish(111).unwrap(),
        12 => publisher.publish(121).unwrap(),
        _ => {}
    });
    bus.publisher().publish_batch([1, 2]).unwrap();
    bus.publisher().publish(3).unwrap();
    assert_eq!(available(&mut calling), [1, 2, 11, 12, 111, 121, 3].map(Event));
}

#[test]
fn every_kind_of_publish_can_be_nested() {
    let bus = inline(100);
    let mut watcher = bus.watch().unwrap();
    let publisher = bus.publisher();
    let accepted = inside(&bus, move || {
        [
            publisher.publish(2).is_ok(),
            publisher.try_publish(3).is_ok(),
            publisher.publish_timeout(4, LONG).is_ok(),
            publisher.publish_batch([5, 6]).is_ok(),
            publisher.try_publish_batch([7, 8]).is_ok(),
            publisher.publish_async(9).now_or_never().is_some_and(|result| result.is_ok()),
            publisher.publish_gap(10).is_ok(),
            publisher.publish(20).is_ok(),
            publisher.publish_gap(3).is_ok(),
            publisher.ready().now_or_never().is_some_and(|result| result.is_ok()),
        ]
    });
    assert_eq!(accepted, [true; 10]);
    let wanted = [(1..=9).map(Event).collect(), vec![Lagged(10), Event(20), Lagged(3)]].concat();
    assert_eq!(available(&mut watcher), wanted);
    assert_eq!(watcher.position(), Some(23));
    assert_settled(&bus.stats(), 10);
}

/// If a filter publishes for each event, the chain of events still ends. One outermost call accepts
/// at most `incoming_capacity` nested entries and refuses the next entry. The next outermost call
/// accepts the same number of entries again.
#[test]
fn a_filter_that_publishes_for_each_event_ends() {
    watched(|| {
        let bus = Broadcaster::with_options(inline_options(1000).incoming_capacity(8)).unwrap();
        let (publisher, (refused_tx, refused)) = (bus.publisher(), mpsc::channel());
        let mut watcher = calling(&bus, move |event| {
            if let Err(error) = publisher.publish(event + 1) {
                refused_tx.send(error).unwrap();
            }
        });
        for round in 1..=3 {
            bus.publisher().publish(100 * round).unwrap();
            let wanted: Vec<_> = (0..=8).map(|n| Event(100 * round + n)).collect();
            assert_eq!(available(&mut watcher), wanted);
            assert_eq!(refused.try_iter().collect::<Vec<_>>(), [PublishError::Full(100 * round + 9)]);
            assert_eq!(bus.stats().rejected_full, round);
            assert_settled(&bus.stats(), 9 * round);
        }
    });
}

/// If a hook reports each loss as an event, and the full queue loses that event too, the chain of
/// events still ends.
#[test]
fn a_hook_that_publishes_for_each_loss_ends() {
    watched(|| {
        let bus =
            Broadcaster::with_options(inline_options(1).incoming_capacity(8).overflow(DropIncoming)).unwrap();
        let publisher = bus.publisher();
        let (lost_tx, lost) = mpsc::channel();
        let hook = move |_, events: &[u64]| {
            lost_tx.send(events.to_vec()).unwrap();
            let _ = publisher.publish(100 + events[0]);
        };
        let mut watcher = bus.watch_builder().on_drop(hook).watch().unwrap();
        bus.publisher().publish(1).unwrap();
        bus.publisher().publish(2).unwrap();
        let wanted: Vec<_> = (0..=8).map(|n| 100 * n + 2).collect();
        assert_eq!(lost.try_iter().flatten().collect::<Vec<_>>(), wanted);
        assert_eq!((bus.stats().accepted, bus.stats().rejected_full), (10, 1));
        assert_eq!(available(&mut watcher), [Event(1), Lagged(9)]);
    });
}

#[test]
fn a_nested_batch_takes_an_entry_for_each_piece() {
    let bus = Broadcaster::with_options(inline_options(100).incoming_capacity(3).max_batch(4)).unwrap();
    let mut watcher = bus.watch().unwrap();
    let publisher = bus.publisher();
    let results = inside(&bus, move || {
        let fits = publisher.publish_batch(10..18);
        let gap = publisher.publish_gap(5);
        (fits, gap, publisher.publish(20), publisher.publish_batch([30]), publisher.publish_gap(6))
    });
    let full = (Err(PublishError::Full(20)), Err(PublishError::Full(vec![30])), Err(PublishError::Full(())));
    assert_eq!(results, (Ok(()), Ok(()), full.0, full.1, full.2));
    let wanted = [vec![Event(1)], (10..18).map(Event).collect(), vec![Lagged(5)]].concat();
    assert_eq!(available(&mut watcher), wanted);
    assert_eq!(bus.stats().rejected_full, 2);
}

/// Nested events can use only the capacity that the outer event has left. Events that do not fit
/// are refused immediately, even by publish methods that normally wait.
#[test]
fn a_nested_event_needs_the_capacity_that_is_left() {
    watched(|| {
        let bus = inline(100);
        let mut full = waits(&bus, 3).watch().unwrap();
        let mut other = bus.watch().unwrap();
        let publisher = bus.publisher();
        let results = inside(&bus, move || {
            let fit = [publisher.publish(2), publisher.try_publish(3)];
            let refused = [
                publisher.publish(4),
                publisher.try_publish(5),
                publisher.publish_timeout(6, LONG),
                publisher.publish_async(7).now_or_never().expect("the publish must not wait"),
            ];
            let batches = [publisher.publish_batch([8, 9]), publisher.try_publish_batch([10])];
            (fit, refused, batches, publisher.publish_gap(5))
        });
        assert_eq!(results.0, [Ok(()), Ok(())]);
        assert_eq!(results.1, [4, 5, 6, 7].map(|event| Err(PublishError::Full(event))));
        assert_eq!(results.2, [vec![8, 9], vec![10]].map(|events| Err(PublishError::Full(events))));
        assert_eq!(results.3, Ok(()), "a gap needs no capacity");
        assert_eq!(available(&mut full), [Event(1), Event(2), Event(3), Lagged(5)]);
        assert_eq!(available(&mut other), [Event(1), Event(2), Event(3), Lagged(5)]);
        assert_eq!(bus.stats().rejected_full, 7);
        assert_settled(&bus.stats(), 3);
    });
}

/// If only the beginning of a nested batch fits, the beginning is accepted, and the accepted events
/// arrive.
#[test]
fn a_nested_batch_that_does_not_fit_is_returned() {
    for max_batch in [1, 2, 256] {
        let bus = Broadcaster::with_options(inline_options(100).max_batch(max_batch)).unwrap();
        let mut full = waits(&bus, 4).watch().unwrap();
        let publisher = bus.publisher();
        let rest = inside(&bus, move || publisher.publish_batch(10..20));
        let rest = rest.unwrap_err();
        assert!(rest.is_full());
        let rest = rest.into_inner();
        let accepted: Vec<_> = (10..20 - rest.len() as u64).collect();
        assert!(accepted.len() <= 3, "pieces of {max_batch}: {accepted:?}");
        assert!(rest.into_iter().eq(10 + accepted.len() as u64..20));
        let wanted: Vec<_> = [1].into_iter().chain(accepted).map(Event).collect();
        assert_eq!(available(&mut full), wanted);
        assert_settled(&bus.stats(), wanted.len() as u64);
    }
}

/// The rest of an outer batch does not take capacity that was reserved for a nested event.
#[test]
fn the_rest_of_a_batch_leaves_nested_events_their_capacity() {
    for max_batch in [1, 2, 3, 4] {
        let bus = Broadcaster::with_options(inline_options(100).max_batch(max_batch)).unwrap();
        let mut full = waits(&bus, 4).watch().unwrap();
        let (publisher, (said_tx, said)) = (bus.publisher(), mpsc::channel());
        let mut seen = calling(&bus, move |event| {
            if event < 100 {
                said_tx.send((event, publisher.try_publish(100 + event).is_ok())).unwrap();
            }
        });
        let rest = bus.publisher().try_publish_batch(0..10).unwrap_err().into_inner();
        assert_eq!(full.stats().dropped.total(), 0);
        let accepted = said.try_iter().filter(|(_, is_ok)| *is_ok).map(|(event, _)| 100 + event);
        let mut wanted: Vec<_> = (0..10 - rest.len() as u64).chain(accepted).collect();
        wanted.sort_unstable();
        let received = available(&mut full);
        assert_eq!(received, available(&mut seen), "pieces of {max_batch}");
        let mut received: Vec<_> = received.into_iter().filter_map(Delivery::event).collect();
        assert!(received.len() <= 4);
        received.sort_unstable();
        assert_eq!(received, wanted, "pieces of {max_batch}");
    }
}

#[test]
fn a_nested_publish_does_not_wait_for_a_limit() {
    watched(|| {
        let (_clock, bus) = timed(inline_options(1));
        let mut slow = bus.watch_builder().overflow(WaitFor(LONG)).watch().unwrap();
        let publisher = bus.publisher();
        let refused = inside(&bus, move || [publisher.publish(2), publisher.publish_timeout(3, LONG)]);
        assert_eq!(refused, [2, 3].map(|event| Err(PublishError::Full(event))));
        assert_eq!(available(&mut slow), [Event(1)]);
        assert_eq!(slow.stats().dropped.total(), 0);
    });
}

/// If a filter panics after publishing an event, the filter's own watcher ends. The nested event
/// stays accepted, and is offered to the other watchers.
#[test]
fn a_nested_event_outlives_the_panic_of_its_publisher() {
    let bus = inline(100);
    let publisher = bus.publisher();
    let broken = calling(&bus, move |event| {
        publisher.publish(event + 10).unwrap();
        panic!("after the publish");
    });
    let mut other = bus.watch().unwrap();
    bus.publisher().publish(1).unwrap();
    assert_eq!(available(&mut other), [Event(1), Event(11)]);
    assert_eq!(broken.stats().panics, 1);
    bus.publisher().publish(2).unwrap();
    assert_eq!(available(&mut other), [Event(2)]);
}

/// During a watcher's registration, its filter is called for events from the history. These calls
/// also run inside a call of the bus.
#[test]
fn a_filter_may_publish_while_its_watcher_is_registered() {
    let bus = Broadcaster::with_options(inline_options(100).history(4)).unwrap();
    bus.publisher().publish_batch([1, 2]).unwrap();
    let publisher = bus.publisher();
    let filter = move |event: &u64| {
        if *event < 10 {
            publisher.publish(event + 10).unwrap();
        }
        true
    };
    let builder = bus.watch_builder().start(Start::Oldest).filter(filter);
    let mut watcher = builder.watch().unwrap();
    assert_eq!(available(&mut watcher), [1, 2, 11, 12].map(Event));
    assert_settled(&bus.stats(), 4);
}

/// An event published during a registration needs capacity that is free at that time, regardless of
/// what an earlier publish has left.
#[test]
fn a_nested_event_of_a_registration_needs_capacity() {
    let bus = Broadcaster::with_options(inline_options(100).history(4)).unwrap();
    bus.publisher().publish(1).unwrap();
    let mut full = waits(&bus, 1).watch().unwrap();
    let (publisher, (said_tx, said)) = (bus.publisher(), mpsc::channel());
    let filter = move |event: &u64| {
        if *event < 10 {
            said_tx.send([10, 20].map(|nested| publisher.try_publish(nested + event))).unwrap();
        }
        true
    };
    let register = || bus.watch_builder().start(Start::Oldest).filter(filter.clone()).watch().unwrap();
    drop(register());
    assert_eq!(said.try_recv(), Ok([Ok(()), Err(PublishError::Full(21))]));
    drop(register());
    assert_eq!(said.try_recv(), Ok([Err(PublishError::Full(11)), Err(PublishError::Full(21))]));
    assert_eq!(available(&mut full), [Event(11)]);
    drop(register());
    assert_eq!(said.try_recv(), Ok([Ok(()), Err(PublishError::Full(21))]), "the reader has freed capacity");
    assert_eq!((available(&mut full), full.stats().dropped.total()), (vec![Event(11)], 0));
}
