//! Second watchers that start at the position of a first watcher.

use std::ops::RangeInclusive;
use std::thread;

use eventcast::Delivery::{Event, Lagged};
use eventcast::bus::Start;
use eventcast::{Broadcaster, BusOptions, Watcher};

use crate::support::{LONG, bus_with, on_both};

/// Publishes the events at these positions, in batches of three.
fn publish(bus: &Broadcaster<u64>, positions: RangeInclusive<u64>) {
    let positions: Vec<u64> = positions.collect();
    positions.chunks(3).for_each(|chunk| bus.publisher().publish_batch(chunk.to_vec()).unwrap());
}

/// Reads a few deliveries in one of several ways.
type ReadSome = fn(&mut Watcher<u64>);

/// A second watcher that starts at the first watcher's position receives the same unread deliveries
/// as the first, in whichever way the first has read, and wherever its unread events are.
#[test]
fn a_second_watcher_at_the_position_of_the_first_receives_the_same() {
    let ways: [(&str, ReadSome); 6] = [
        ("nothing", |_| ()),
        ("recv", |watcher| assert!(watcher.recv().is_ok())),
        ("recv in the middle of a batch", |watcher| {
            (0..5).for_each(|_| assert!(watcher.recv().is_ok()));
        }),
        ("recv_ref, whose event is still borrowed", |watcher| assert!(watcher.recv_ref().is_ok())),
        ("recv_batch, whose events are still borrowed", |watcher| assert!(watcher.recv_batch().is_ok())),
        ("a gap", |watcher| {
            watcher.into_iter().find(|delivery| *delivery == Lagged(4)).unwrap();
        }),
    ];
    for (way, read) in ways {
        for inline in [false, true] {
            let bus = bus_with(BusOptions::default().inline(inline).history(1000));
            publish(&bus, 1..=4);
            let mut first = bus.watch().unwrap();
            publish(&bus, 5..=12);
            bus.publisher().publish_gap(4).unwrap();
            publish(&bus, 17..=20);
            bus.flush(LONG).unwrap();
            read(&mut first);
            let start = Start::After(first.position().unwrap());
            let second = bus.watch_builder().start(start).watch().unwrap();
            publish(&bus, 21..=25);
            bus.shutdown();
            let first: Vec<_> = first.into_iter().collect();
            assert!(first.len() >= 9, "{way}: {first:?}");
            assert_eq!(second.into_iter().collect::<Vec<_>>(), first, "{way}, inline: {inline}");
        }
    }
}

/// Second watchers that start while events are being published receive the same as the first.
#[test]
fn second_watchers_that_start_at_any_time_receive_the_same() {
    on_both(|options| {
        let bus = bus_with(options.history(10_000).queue_capacity(10_000));
        let mut first = bus.watch().unwrap();
        bus.flush(LONG).unwrap();
        let mut others = Vec::new();
        thread::scope(|scope| {
            scope.spawn(|| publish(&bus, 1..=3000));
            for _ in 0..100 {
                let position = first.position().unwrap();
                others.push((position, bus.watch_builder().start(Start::After(position)).watch().unwrap()));
                first.recv().unwrap();
            }
        });
        bus.shutdown();
        assert_eq!(first.events().collect::<Vec<_>>(), (101..=3000).collect::<Vec<_>>());
        for (position, other) in others {
            assert!(other.into_iter().eq((position + 1..=3000).map(Event)), "after {position}");
        }
    });
}
