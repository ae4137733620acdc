//! The policy `DropOldest`: a gauge is never stale.

use std::ops::RangeInclusive;

use eventcast::Delivery::{Event, Lagged};
use eventcast::{Delivery, OverflowPolicy, Watcher};

use crate::support::{LONG, bus};

type Receive = fn(&mut Watcher<u64>) -> Delivery<u64>;

/// A reader that has received a gap gets the newest events with its next receive, and not the event
/// that stood behind the gap back then. Everything that it loses in between is one more gap.
#[test]
fn drop_oldest_pins_no_event_behind_a_gap() {
    let receive: [Receive; 3] = [
        |watcher| watcher.try_recv().unwrap(),
        |watcher| match watcher.recv_ref().unwrap() {
            Event(event) => Event(*event),
            Lagged(count) => Lagged(count),
        },
        |watcher| futures::executor::block_on(watcher.recv_async()).unwrap(),
    ];
    for receive in receive {
        let bus = bus(1000, 1);
        let mut gauge = bus.watch_builder().overflow(OverflowPolicy::DropOldest).watch().unwrap();
        let publish = |events: RangeInclusive<u64>| {
            events.for_each(|event| bus.publisher().publish(event).unwrap());
            bus.flush(LONG).unwrap();
        };
        publish(1..=10);
        assert_eq!(receive(&mut gauge), Lagged(9));
        assert_eq!(gauge.position(), Some(9));
        publish(11..=1000);
        let stats = gauge.stats();
        assert_eq!((stats.queued, stats.high_water, stats.dropped.oldest), (1, 1, 999));
        assert_eq!(receive(&mut gauge), Lagged(990));
        assert_eq!(receive(&mut gauge), Event(1000));
        assert_eq!(gauge.position(), Some(1000));
    }
}

/// A batch has the gap and the event behind it.
#[test]
fn drop_oldest_gives_a_batch_the_gap_and_the_event_behind_it() {
    let bus = bus(100, 1);
    let mut gauge = bus.watch_builder().overflow(OverflowPolicy::DropOldest).watch().unwrap();
    bus.publisher().publish_batch(1..=10).unwrap();
    bus.flush(LONG).unwrap();
    let batch = gauge.recv_batch().unwrap();
    assert_eq!((batch.lagged, &*batch, batch.position(0)), (9, &[10][..], Some(10)));
}
