//! The `DropOldest` policy, under which a gauge is never stale.

use std::ops::RangeInclusive;
use std::thread;

use eventcast::Delivery::{Event, Lagged};
use eventcast::OverflowPolicy::DropOldest;
use eventcast::{Delivery, Watcher};
use futures::executor::block_on;

use crate::support::{LONG, bus_with, drain, on_both};

type Receive = fn(&mut Watcher<u64>) -> Delivery<u64>;

#[test]
fn drop_oldest_keeps_the_newest_with_the_gap_before_them() {
    on_both(|options| {
        let bus = bus_with(options.queue_capacity(3));
        let mut watcher = bus.watch_builder().overflow(DropOldest).watch().unwrap();
        let publisher = bus.publisher();
        (0..10).for_each(|event| publisher.publish(event).unwrap());
        bus.flush(LONG).unwrap();
        assert_eq!(watcher.try_recv(), Ok(Lagged(7)));
        assert_eq!(watcher.try_recv(), Ok(Event(7)));
        publisher.publish_batch(10..20).unwrap();
        bus.shutdown();
        assert_eq!(drain(&mut watcher), [Lagged(9), Event(17), Event(18), Event(19)]);
        let stats = watcher.stats();
        assert_eq!((stats.queued, stats.high_water), (0, 3));
        assert_eq!((stats.offered, stats.delivered, stats.dropped.oldest), (20, 4, 16));
    });
}

/// While a reader takes events, each event is delivered or lost exactly once, and in order.
#[test]
fn drop_oldest_counts_each_event_once_under_a_busy_reader() {
    on_both(|options| {
        const EVENTS: u64 = 50_000;
        let bus = bus_with(options.incoming_capacity(64).queue_capacity(4));
        let mut watcher = bus.watch_builder().overflow(DropOldest).watch().unwrap();
        let reader = thread::spawn(move || {
            let mut position = 0;
            for delivery in &mut watcher {
                match delivery {
                    Event(event) => {
                        assert_eq!(event, position, "the gap must be just before the first survivor");
                        position += 1;
                    }
                    Lagged(count) => position += count,
                }
            }
            (position, watcher.stats())
        });
        let publisher = bus.publisher();
        (0..EVENTS).for_each(|event| publisher.publish(event).unwrap());
        bus.shutdown();
        let (position, stats) = reader.join().unwrap();
        assert_eq!((position, stats.offered), (EVENTS, EVENTS));
        assert_eq!(stats.delivered + stats.dropped.oldest, EVENTS);
    });
}

/// After a gap, a reader's next receive returns the newest events, and not the event that followed
/// the gap when the gap was received. Everything that was lost in between is reported as one more
/// gap.
#[test]
fn drop_oldest_keeps_no_event_after_a_gap() {
    on_both(|options| {
        let receive: [Receive; 3] = [
            |watcher| watcher.try_recv().unwrap(),
            |watcher| match watcher.recv_ref().unwrap() {
                Event(event) => Event(*event),
                Lagged(count) => Lagged(count),
            },
            |watcher| block_on(watcher.recv_async()).unwrap(),
        ];
        for receive in receive {
            let bus = bus_with(options.clone().queue_capacity(1));
            let mut gauge = bus.watch_builder().overflow(DropOldest).watch().unwrap();
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
    });
}

#[test]
fn a_batch_has_the_gap_and_the_event_after_it() {
    on_both(|options| {
        let bus = bus_with(options.queue_capacity(1));
        let mut gauge = bus.watch_builder().overflow(DropOldest).watch().unwrap();
        bus.publisher().publish_batch(1..=10).unwrap();
        bus.flush(LONG).unwrap();
        let batch = gauge.recv_batch().unwrap();
        assert_eq!((batch.lagged, &*batch, batch.position(0)), (9, &[10][..], Some(10)));
    });
}
