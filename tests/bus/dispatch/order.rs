//! G1: all watchers see the same order, however many watchers there are.

use std::thread;
use std::time::Duration;

use eventcast::OverflowPolicy::{DropIncoming, DropOldest, Wait, WaitFor};
use eventcast::{BusOptions, Watcher};
use futures::executor::block_on;

use crate::support::{LONG, assert_balanced, available, bus_with, events, hold, lagged, on_both};

/// Tests G1 and G3 at scale. Ten million events arrive in order at four lossless watchers.
#[test]
fn ten_million_events_arrive_complete_and_in_order_at_four_watchers() {
    const EVENTS: u64 = 10_000_000;
    let bus = bus_with(BusOptions::default().overflow(Wait));
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
        // Half of the events are published in batches, and half one by one.
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

/// G1: whatever several publishers do, all watchers see the same sequence of events, which
/// preserves each publisher's own order.
#[test]
fn all_watchers_see_one_order_of_several_publishers() {
    const EVENTS: u32 = if cfg!(miri) { 50 } else { 5_000 };
    on_both(|options| {
        let bus = bus_with(options.overflow(Wait).queue_capacity(64));
        let readers = [(); 3].map(|()| {
            let mut watcher = bus.watch().unwrap();
            thread::spawn(move || watcher.events().collect::<Vec<(u8, u32)>>())
        });
        thread::scope(|scope| {
            for id in 0..4_u8 {
                let publisher = bus.publisher();
                let mut events = (0..EVENTS).map(move |n| (id, n));
                scope.spawn(move || match id {
                    0 => publisher.publish_batch(events).unwrap(),
                    1 => events.for_each(|event| block_on(publisher.publish_async(event)).unwrap()),
                    _ => events.try_for_each(|event| publisher.publish(event)).unwrap(),
                });
            }
        });
        bus.shutdown();
        let sequences = readers.map(|reader| reader.join().unwrap());
        assert_eq!(sequences[0].len(), 4 * EVENTS as usize);
        assert!(sequences.iter().all(|sequence| *sequence == sequences[0]));
        for id in 0..4 {
            let own = sequences[0].iter().filter(|(by, _)| *by == id).map(|(_, n)| *n);
            assert!(own.eq(0..EVENTS), "publisher {id}");
        }
    });
}

/// The dispatcher never offers more than `max_batch` events together, even if single events are
/// followed by a batch.
#[test]
fn a_batch_that_follows_an_event_stays_within_the_limit() {
    const MOST: usize = 4;
    let bus = bus_with(BusOptions::default().incoming_capacity(100).max_batch(MOST));
    let mut watcher = bus.watch_builder().queue_capacity(100).watch().unwrap();
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
        assert!(batch.len() <= MOST, "{} events after {received:?}", batch.len());
        received.extend_from_slice(&batch);
    }
    assert_eq!(received, expected);
}

/// Ten thousand watchers have several different policies. Each watcher receives all events that fit
/// into its queue, and the number of events that did not fit. Watchers that are stopped or dropped,
/// in any order, leave no trace.
#[test]
fn ten_thousand_watchers_each_get_their_own() {
    on_both(|options| {
        let bus = bus_with::<u64>(options.incoming_capacity(7).queue_capacity(4));
        let policies = [DropIncoming, DropOldest, WaitFor(Duration::ZERO)];
        let mut watchers: Vec<_> = (0..10_000)
            .map(|n| bus.watch_builder().overflow(policies[n % policies.len()]).watch().unwrap())
            .collect();
        let publisher = bus.publisher();
        (0..6).for_each(|n| publisher.publish(n).unwrap());
        bus.flush(LONG).unwrap();
        for (n, watcher) in watchers.iter_mut().enumerate() {
            let seen = available(watcher);
            let expected = if n % policies.len() == 1 { [2, 3, 4, 5] } else { [0, 1, 2, 3] };
            assert_eq!((events(&seen).as_slice(), lagged(&seen)), (expected.as_slice(), 2), "watcher {n}");
        }
        // About a third of the watchers, spread over the list, are dropped here, and the others are
        // stopped.
        watchers.retain(|watcher| std::ptr::from_ref(watcher).addr() % 3 > 0);
        watchers.iter().for_each(Watcher::stop);
        let last = bus.watch().unwrap();
        publisher.publish(6).unwrap();
        bus.flush(LONG).unwrap();
        assert!(watchers.iter_mut().all(|watcher| watcher.recv().is_err()));
        let dropping = thread::spawn(move || drop(watchers));
        publisher.publish(7).unwrap();
        dropping.join().unwrap();
        assert!(bus.shutdown().complete);
        let stats = bus.stats();
        assert_balanced(&stats);
        assert_eq!((stats.watchers.len(), last.stats().offered), (1, 2));
        assert_eq!((stats.departed.delivered, stats.departed.dropped.oldest), (40_000, 2 * 3333));
    });
}
