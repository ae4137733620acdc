//! G1: one order for all watchers. G2: a registration has a place in the order.

use std::sync::mpsc;
use std::thread;

use eventcast::{Broadcaster, BusOptions, Delivery, OverflowPolicy};

use crate::support::{LONG, bus, drain, events, hold};

/// G1 and G3 at size: ten million events, four watchers that lose nothing, every event in its
/// place.
#[test]
fn ten_million_events_arrive_complete_and_in_order_at_four_watchers() {
    const EVENTS: u64 = 10_000_000;
    let bus = Broadcaster::with_options(BusOptions::default().overflow(OverflowPolicy::Wait)).unwrap();
    let readers: Vec<_> = (0..4)
        .map(|_| {
            let mut watcher = bus.watch().unwrap();
            thread::spawn(move || {
                let mut next = 0;
                while let Ok(batch) = watcher.recv_batch() {
                    assert_eq!(batch.lagged, 0);
                    for event in &*batch {
                        assert_eq!(*event, next);
                        next += 1;
                    }
                }
                next
            })
        })
        .collect();
    let publisher = bus.publisher();
    for first in (0..EVENTS).step_by(1000) {
        // Half in batches, half one by one.
        if first % 2000 == 0 {
            publisher.publish_batch(first..first + 1000).unwrap();
        } else {
            (first..first + 1000).for_each(|event| publisher.publish(event).unwrap());
        }
    }
    let report = bus.shutdown();
    assert!(report.complete);
    assert_eq!(report.bus.accepted, EVENTS);
    for reader in readers {
        assert_eq!(reader.join().unwrap(), EVENTS);
    }
}

/// G1: whatever several publishers do, all watchers see the same sequence, and in it each
/// publisher's own order.
#[test]
fn all_watchers_see_one_order_of_several_publishers() {
    let bus = Broadcaster::with_options(BusOptions::default().overflow(OverflowPolicy::Wait).queue_len(64))
        .unwrap();
    let readers: Vec<_> = (0..3)
        .map(|_| {
            let mut watcher = bus.watch().unwrap();
            thread::spawn(move || watcher.events().collect::<Vec<(u8, u32)>>())
        })
        .collect();
    thread::scope(|scope| {
        for id in 0..4_u8 {
            let publisher = bus.publisher();
            scope.spawn(move || (0..5_000).for_each(|n| publisher.publish((id, n)).unwrap()));
        }
    });
    bus.shutdown();
    let sequences: Vec<_> = readers.into_iter().map(|reader| reader.join().unwrap()).collect();
    assert_eq!(sequences[0].len(), 20_000);
    assert!(sequences.iter().all(|sequence| *sequence == sequences[0]));
    for id in 0..4 {
        let own: Vec<u32> = sequences[0].iter().filter(|(by, _)| *by == id).map(|(_, n)| *n).collect();
        assert!(own.iter().copied().eq(0..5_000), "publisher {id}");
    }
}

/// G2 both ways, with the dispatcher held so that everything waits in the incoming queue at once.
#[test]
fn a_watcher_is_offered_what_follows_its_registration_and_nothing_before() {
    let bus = bus(100, 100);
    let held = hold(&bus);
    let publisher = bus.publisher();
    publisher.publish(1).unwrap();
    let mut between = bus.watch().unwrap();
    publisher.publish(2).unwrap();
    let mut after = bus.watch().unwrap();
    publisher.publish_batch(vec![3, 4]).unwrap();
    drop(held);
    bus.shutdown();
    assert_eq!(events(&drain(&mut between)), [2, 3, 4]);
    assert_eq!(events(&drain(&mut after)), [3, 4]);
}

/// A registration gets its place in the order without the dispatcher.
#[test]
fn watch_returns_while_the_dispatcher_is_held() {
    let bus = bus(4, 4);
    let held = hold(&bus);
    let mut watcher = bus.watch().unwrap();
    assert!(watcher.try_recv().is_err());
    bus.publisher().try_publish(5).unwrap();
    drop(held);
    bus.shutdown();
    assert_eq!(drain(&mut watcher), [Delivery::Event(5)]);
}

/// A prefix comes first, takes no room and is not counted.
#[test]
fn a_prefix_comes_before_everything_and_takes_no_room() {
    let bus = bus(10, 1);
    let mut watcher = bus.watch_builder().prefix(0..100).watch().unwrap();
    bus.publisher().publish(100).unwrap();
    bus.shutdown();
    assert_eq!(events(&drain(&mut watcher)), (0..=100).collect::<Vec<u64>>());
    let stats = watcher.stats();
    assert_eq!((stats.offered, stats.delivered, stats.dropped.total(), stats.queued), (1, 1, 0, 0));
}

/// An event of a prefix that the reader has not received when it ends is not a lost event.
#[test]
fn an_unread_prefix_is_not_lost() {
    for reads in [0, 1, 3] {
        let bus = bus(10, 4);
        let mut watcher = bus.watch_builder().prefix(0..3).watch().unwrap();
        bus.publisher().publish_batch([3, 4]).unwrap();
        bus.flush(LONG).unwrap();
        for event in 0..reads {
            assert_eq!(watcher.recv(), Ok(Delivery::Event(event)));
        }
        drop(watcher);
        let report = bus.shutdown();
        let departed = &report.bus.departed;
        assert_eq!((departed.offered, departed.delivered, departed.dropped.stopped), (2, 0, 2));
    }
}

/// A batch is one run in the order, in pieces of at most `max_batch`.
#[test]
fn a_published_batch_is_split_and_keeps_its_order() {
    let bus =
        Broadcaster::with_options(BusOptions::default().max_batch(3).overflow(OverflowPolicy::Wait)).unwrap();
    let mut watcher = bus.watch().unwrap();
    let (tx, rx) = mpsc::channel();
    let reader = thread::spawn(move || {
        while let Ok(batch) = watcher.recv_batch() {
            tx.send(batch.to_vec()).unwrap();
        }
    });
    bus.publisher().publish_batch(0..10).unwrap();
    bus.publisher().publish_batch(Vec::new()).unwrap();
    bus.shutdown();
    reader.join().unwrap();
    let batches: Vec<Vec<u64>> = rx.into_iter().collect();
    assert!(batches.iter().all(|batch| batch.len() <= 3));
    assert_eq!(batches.concat(), (0..10).collect::<Vec<_>>());
}

/// The forms of receiving give the same stream.
#[test]
fn every_form_of_receiving_sees_the_same() {
    let bus = bus(100, 100);
    let mut watchers: Vec<_> = (0..5).map(|_| bus.watch().unwrap()).collect();
    bus.publisher().publish_batch(0..10_u64).unwrap();
    bus.shutdown();
    let wanted: Vec<u64> = (0..10).collect();
    let [by_recv, by_ref, by_batch, by_timeout, by_events] = &mut watchers[..] else { unreachable!() };
    assert_eq!(std::iter::from_fn(|| by_recv.recv().ok()?.event()).collect::<Vec<_>>(), wanted);
    let mut seen = Vec::new();
    while let Ok(Delivery::Event(event)) = by_ref.recv_ref() {
        seen.push(*event);
    }
    assert_eq!(seen, wanted);
    let mut seen: Vec<u64> = Vec::new();
    while let Ok(batch) = by_batch.try_recv_batch() {
        seen.extend(batch);
    }
    assert_eq!(seen, wanted);
    assert_eq!(
        std::iter::from_fn(|| by_timeout.recv_timeout(LONG).ok()?.event()).collect::<Vec<_>>(),
        wanted
    );
    assert_eq!(by_events.events().collect::<Vec<_>>(), wanted);
    for watcher in &watchers {
        assert_eq!(watcher.stats().delivered, 10);
    }
}

/// Events that the dispatcher offers together are never more than `max_batch`, also where a batch
/// follows single events.
#[test]
fn a_batch_that_follows_an_event_stays_within_the_limit() {
    const MOST: usize = 4;
    let options = BusOptions::default().incoming_len(100).max_batch(MOST);
    let bus = Broadcaster::with_options(options).unwrap();
    let mut watcher = bus.watch_builder().queue_len(100).watch().unwrap();
    let held = hold(&bus);
    // Two events were published before the dispatcher was held.
    let mut expected = vec![u64::MAX - 1, u64::MAX];
    for (first, single) in [(0, 1), (100, 2), (200, 3), (300, 4)] {
        (first..first + single).for_each(|event| bus.publisher().publish(event).unwrap());
        bus.publisher().publish_batch(first + single..first + 3 * single).unwrap();
        expected.extend(first..first + 3 * single);
    }
    drop(held);
    bus.flush(LONG).unwrap();
    let mut received = Vec::new();
    while let Ok(batch) = watcher.try_recv_batch() {
        assert!(batch.len() <= MOST, "{} events behind {received:?}", batch.len());
        received.extend_from_slice(&batch);
    }
    assert_eq!(received, expected);
}
