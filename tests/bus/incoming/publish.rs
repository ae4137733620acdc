//! Publishing: events refused by a full queue, and batches from any iterator.

use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use eventcast::BusOptions;
use eventcast::OverflowPolicy::Wait;

use crate::support::{bus, bus_with, hold, on_both, watched};

#[test]
fn publishing_reports_full_and_returns_the_event() {
    let bus = bus(2, 1);
    let held = hold(&bus);
    let publisher = bus.publisher();
    publisher.try_publish(1).unwrap();
    publisher.try_publish(2).unwrap();
    let error = publisher.try_publish(3).unwrap_err();
    assert!(error.is_full());
    assert_eq!(error.into_inner(), 3);
    assert_eq!(publisher.publish_timeout(4, Duration::ZERO).unwrap_err().into_inner(), 4);
    assert_eq!(publisher.try_publish_batch(vec![5, 6]).unwrap_err().into_inner(), [5, 6]);
    assert_eq!(bus.stats().rejected_full, 4);
    drop(held);
    assert!(bus.shutdown().complete);
    let error = publisher.publish_batch(vec![7, 8]).unwrap_err();
    assert!(error.is_closed());
    assert_eq!(error.into_inner(), [7, 8]);
    let stats = bus.stats();
    assert_eq!((stats.accepted, stats.rejected_full, stats.rejected_closed), (4, 4, 2));
}

/// If only the beginning of a batch fits, the publish returns the rest.
#[test]
fn a_batch_that_does_not_fit_returns_the_rest() {
    let bus = bus_with(BusOptions::default().incoming_capacity(2).queue_capacity(1).max_batch(2));
    let held = hold(&bus);
    let error = bus.publisher().try_publish_batch(0..7).unwrap_err();
    assert_eq!(error.into_inner(), [4, 5, 6]);
    drop(held);
    assert_eq!(bus.shutdown().bus.accepted, 2 + 4);
}

/// Waiting publishers get capacity even if the dispatcher has no watcher to offer events to.
#[test]
fn without_watchers_capacity_is_freed() {
    watched(|| {
        let bus = bus::<u64>(1, 1);
        thread::scope(|scope| {
            for _ in 0..4 {
                let publisher = bus.publisher();
                scope.spawn(move || (0..500).for_each(|n| publisher.publish(n).unwrap()));
            }
        });
        assert_eq!(bus.shutdown().bus.accepted, 2000);
    });
}

#[test]
fn a_batch_is_made_from_any_iterator() {
    on_both(|options| {
        let bus = bus_with(options);
        let mut watcher = bus.watch().unwrap();
        let publisher = bus.publisher();
        publisher.publish_batch([1, 2]).unwrap();
        publisher.publish_batch(vec![3]).unwrap();
        publisher.try_publish_batch(4..6).unwrap();
        publisher.try_publish_batch(Some(6)).unwrap();
        publisher.publish_batch((7..1000).filter(|n| n % 2 == 1)).unwrap();
        publisher.publish_batch(None).unwrap();
        bus.close();
        let expected: Vec<u64> = (1..7).chain((7..1000).filter(|n| n % 2 == 1)).collect();
        assert_eq!(watcher.events().collect::<Vec<_>>(), expected);
    });
}

#[test]
fn an_iterator_that_panics_publishes_nothing() {
    on_both(|options| {
        let bus = bus_with::<u64>(options);
        let publisher = bus.publisher();
        let events = (0..5).inspect(|n| assert!(*n != 3, "on purpose"));
        let panicking = thread::spawn(move || publisher.publish_batch(events));
        assert!(panicking.join().is_err());
        bus.publisher().publish(7).unwrap();
        let report = bus.shutdown();
        assert_eq!((report.complete, report.bus.published()), (true, 1));
    });
}

/// A published `Vec` is used directly, and its events are not moved in memory.
#[test]
fn a_vec_is_not_copied() {
    on_both(|options| {
        let bus = bus_with::<u64>(options);
        bus.close();
        for waits in [false, true] {
            let events = vec![1, 2, 3];
            let place = events.as_ptr();
            let publisher = bus.publisher();
            let refused =
                if waits { publisher.publish_batch(events) } else { publisher.try_publish_batch(events) };
            let returned = refused.unwrap_err().into_inner();
            assert_eq!(returned.as_ptr(), place);
        }
    });
}

/// The events of a batch are consecutive in the order, and are offered in pieces of at most
/// `max_batch`.
#[test]
fn a_published_batch_is_split_and_keeps_its_order() {
    let bus = bus_with(BusOptions::default().max_batch(3).overflow(Wait));
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

/// A batch of zero-sized events can have as many events as `usize` can count, so sums of such
/// counts saturate at the maximum.
#[test]
fn counts_of_refused_events_of_no_size_do_not_wrap() {
    on_both(|options| {
        let bus = bus_with::<()>(options);
        let publisher = bus.publisher();
        bus.publisher().publish(()).unwrap();
        bus.close();
        for _ in 0..2 {
            let refused = publisher.try_publish_batch(vec![(); usize::MAX]).unwrap_err();
            assert_eq!(refused.into_inner().len(), usize::MAX);
        }
        // Publishing on another thread uses a separate count.
        for _ in 0..2 {
            let publisher = publisher.clone();
            thread::spawn(move || publisher.publish_batch(vec![(); usize::MAX]).unwrap_err()).join().unwrap();
        }
        let stats = bus.shutdown().bus;
        // With lengths of 32 bits, the counts do not reach their maximum.
        let refused = (usize::MAX as u64).saturating_mul(4);
        let counts = (stats.rejected_closed, stats.published());
        assert_eq!(counts, (refused, refused.saturating_add(1)), "{stats}");
    });
}
