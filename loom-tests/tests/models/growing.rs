//! Models of an inline bus's growing queue. A reader takes the batch while a publisher adds events
//! to the batch, seals the batch, or sends a slice after the batch.

use eventcast::testing::{Exploration, Payload, begin};
use eventcast::{Delivery, OverflowPolicy, Watcher};
use eventcast_loom_tests::{explore, inline_bus, spawn};

/// Receives the given number of deliveries. Returns the number of each event, and `1000 + length`
/// for each gap.
fn receive(watcher: &mut Watcher<Payload>, deliveries: usize) -> Vec<u32> {
    let next = |_| match watcher.recv() {
        Ok(Delivery::Event(event)) => event.number(),
        Ok(Delivery::Lagged(events)) => 1000 + events as u32,
        Err(error) => panic!("{error}"),
    };
    (0..deliveries).map(next).collect()
}

/// A thread publishes two events while the reader takes the batch. The reader receives both events
/// in order.
fn two_events_against_the_reader() {
    explore(Exploration::default().after_set_up(), || {
        let bus = inline_bus(2, OverflowPolicy::DropIncoming);
        let mut watcher = bus.watch().unwrap();
        let publisher = bus.publisher();
        begin();
        let publishing = spawn(move || {
            (1..=2).for_each(|number| publisher.try_publish(Payload::new(number)).unwrap());
        });
        assert_eq!(receive(&mut watcher, 2), [1, 2]);
        publishing.join().unwrap();
    });
}

/// A gap between two events seals the batch, and the second event begins a new batch. The reader
/// receives the deliveries in order.
fn a_gap_between_events_against_the_reader() {
    explore(Exploration::default().after_set_up(), || {
        let bus = inline_bus(2, OverflowPolicy::DropIncoming);
        let mut watcher = bus.watch().unwrap();
        let publisher = bus.publisher();
        publisher.try_publish(Payload::new(1)).unwrap();
        begin();
        let publishing = spawn(move || {
            publisher.publish_gap(3).unwrap();
            publisher.try_publish(Payload::new(2)).unwrap();
        });
        assert_eq!(receive(&mut watcher, 3), [1, 1003, 2]);
        publishing.join().unwrap();
    });
}

/// Once a second watcher is registered, the watchers share slices. The first watcher receives the
/// earlier event before the slice.
fn a_slice_after_the_batch_against_the_reader() {
    explore(Exploration::default().after_set_up(), || {
        let bus = inline_bus(2, OverflowPolicy::DropIncoming);
        let mut watcher = bus.watch().unwrap();
        bus.publisher().try_publish(Payload::new(1)).unwrap();
        let mut second = bus.watch().unwrap();
        let publisher = bus.publisher();
        begin();
        let publishing = spawn(move || publisher.try_publish(Payload::new(2)).unwrap());
        assert_eq!(receive(&mut watcher, 2), [1, 2]);
        publishing.join().unwrap();
        assert_eq!(receive(&mut second, 1), [2]);
    });
}

/// A thread publishes two events while the reader is dropped. Each event is counted.
fn two_events_against_a_drop() {
    explore(Exploration::default().after_set_up(), || {
        let bus = inline_bus(2, OverflowPolicy::DropIncoming);
        let watcher = bus.watch().unwrap();
        let publisher = bus.publisher();
        begin();
        let publishing = spawn(move || {
            (1..=2).for_each(|number| publisher.try_publish(Payload::new(number)).unwrap());
        });
        drop(watcher);
        publishing.join().unwrap();
        let stats = bus.stats();
        assert_eq!((stats.accepted, stats.watchers.len()), (2, 0));
        assert_eq!(stats.departed.offered, stats.departed.dropped.total());
    });
}

models![
    two_events_against_the_reader,
    a_gap_between_events_against_the_reader,
    a_slice_after_the_batch_against_the_reader,
    two_events_against_a_drop,
];
