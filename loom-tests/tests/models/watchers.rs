//! Models of watchers that are registered, read, stopped and dropped.

use std::time::Duration;

use eventcast::testing::{Exploration, Payload, Sign, begin, finish, rest};
use eventcast::{Delivery, OverflowPolicy};
use eventcast_loom_tests::{bus, explore, numbers, spawn};

/// A registration races with a publish call on another thread. This model checks the first half of
/// guarantee G2, which is that the watcher sees a suffix of the published events, including every
/// event that was published after `watch` returned.
fn registration_against_publish() {
    explore(Exploration::default().first(30_000), || {
        let bus = bus(3, 3, OverflowPolicy::DropIncoming);
        let publisher = bus.publisher();
        let publishing = spawn(move || publisher.try_publish(Payload::new(1)).unwrap());
        let mut watcher = bus.watch().unwrap();
        bus.publisher().try_publish(Payload::new(2)).unwrap();
        publishing.join().unwrap();
        bus.close();
        let (events, lost) = numbers(&mut watcher);
        assert_eq!(lost, 0);
        assert!(events.contains(&2), "published after the registration");
        assert!(events.len() <= 2);
    });
}

/// Checks the other half of guarantee G2, which is that the watcher does not see an event whose
/// publish call returned before `watch` was called.
fn nothing_published_before_is_seen() {
    explore(Exploration::default().first(30_000), || {
        let bus = bus(4, 3, OverflowPolicy::DropIncoming);
        bus.publisher().try_publish(Payload::new(1)).unwrap();
        let mut watcher = bus.watch().unwrap();
        let publisher = bus.publisher();
        let publishing = spawn(move || publisher.try_publish(Payload::new(2)).unwrap());
        bus.publisher().try_publish(Payload::new(3)).unwrap();
        publishing.join().unwrap();
        bus.close();
        let (mut events, lost) = numbers(&mut watcher);
        events.sort_unstable();
        assert_eq!((events, lost), (vec![2, 3], 0));
    });
}

/// The dispatcher parks while another thread publishes. The event arrives even though no other
/// event is published.
fn parking_against_publish() {
    explore(Exploration::default().first(30_000), || {
        let bus = bus(1, 1, OverflowPolicy::DropIncoming);
        let mut watcher = bus.watch().unwrap();
        let publisher = bus.publisher();
        let publishing = spawn(move || publisher.publish(Payload::new(1)).unwrap());
        assert!(matches!(watcher.recv(), Ok(Delivery::Event(event)) if event.number() == 1));
        publishing.join().unwrap();
    });
}

/// Checks credit and the low watermark. A reader and a dispatcher waiting for that reader are never
/// both asleep. No event is lost, and the queue never holds more events than its capacity.
fn credit_against_a_reader() {
    explore(Exploration::default().after_set_up().first(30_000), || {
        let bus = bus(2, 1, OverflowPolicy::Wait);
        let mut watcher = bus.watch().unwrap();
        rest(&bus);
        begin();
        bus.publisher().try_publish_batch(vec![Payload::new(1), Payload::new(2)]).unwrap();
        let reading = spawn(move || {
            let events: Vec<u32> =
                (0..2).map(|_| watcher.recv().unwrap().event().unwrap().number()).collect();
            (events, watcher)
        });
        let (events, watcher) = reading.join().unwrap();
        finish();
        // The dispatcher publishes the high-water mark only after the event that the reader has
        // received.
        bus.flush(Duration::from_secs(1)).unwrap();
        assert_eq!((events, watcher.stats().high_water), (vec![1, 2], 1));
    });
}

/// A reader frees exactly the capacity that the dispatcher is waiting for, and then stops reading
/// in the middle of a slice. The dispatcher continues, and reaches the flush that follows the event
/// it was holding.
fn a_reader_that_stops_in_the_middle_of_a_slice() {
    explore(Exploration::default().after_set_up().first(30_000), || {
        // With a queue capacity of 8 or more, a slice contains more than one event.
        let bus = bus(9, 8, OverflowPolicy::Wait);
        let mut slow = bus.watch().unwrap();
        rest(&bus);
        begin();
        bus.publisher().try_publish_batch((1..10).map(Payload::new)).unwrap();
        let reading = spawn(move || {
            assert!(matches!(slow.recv(), Ok(Delivery::Event(event)) if event.number() == 1));
            slow
        });
        // The dispatcher reaches the flush only after the ninth event has been added to the queue.
        let flushed = bus.flush(Duration::from_secs(1));
        assert_eq!(flushed, Ok(()));
        drop(reading.join().unwrap());
    });
}

/// A thread stops a watcher while the dispatcher is waiting for this watcher. The dispatcher
/// continues, and every event is counted.
fn stop_against_a_waiting_dispatcher() {
    explore(Exploration::default().after_set_up().first(30_000), || {
        let bus = bus(2, 1, OverflowPolicy::Wait);
        let mut watcher = bus.watch().unwrap();
        rest(&bus);
        begin();
        bus.publisher().try_publish_batch(vec![Payload::new(1), Payload::new(2)]).unwrap();
        let stop = watcher.handle();
        let stopping = spawn(move || stop.stop());
        assert!(bus.shutdown().complete);
        stopping.join().unwrap();
        let (events, _) = numbers(&mut watcher);
        let stats = watcher.stats();
        assert_eq!(stats.delivered, events.len() as u64);
        assert_eq!(stats.offered, stats.delivered + stats.dropped.stopped);
        assert_eq!(stats.queued, 0);
    });
}

/// A thread drops a watcher while the dispatcher is offering events to it or waiting for it. Every
/// event is dropped once and counted once.
fn drop_against_a_waiting_dispatcher() {
    explore(Exploration::default().after_set_up().first(30_000), || {
        let bus = bus(2, 1, OverflowPolicy::Wait);
        let watcher = bus.watch().unwrap();
        rest(&bus);
        begin();
        bus.publisher().try_publish_batch(vec![Payload::new(1), Payload::new(2)]).unwrap();
        let dropping = spawn(move || drop(watcher));
        let report = bus.shutdown();
        assert!(report.complete);
        dropping.join().unwrap();
        let departed = bus.stats().departed;
        assert_eq!((departed.delivered, departed.queued), (0, 0));
        assert_eq!(departed.offered, departed.dropped.stopped);
    });
}

/// A thread stops a watcher and then drops it while the dispatcher is offering an event to it. If
/// the event still enters the queue, one of the two threads finds it and counts it.
fn stop_and_drop_against_an_offer() {
    explore(Exploration::default().after_set_up().first(30_000), || {
        let bus = bus(2, 1, OverflowPolicy::DropIncoming);
        let watcher = bus.watch().unwrap();
        rest(&bus);
        begin();
        bus.publisher().try_publish(Payload::new(1)).unwrap();
        let dropping = spawn(move || {
            watcher.stop();
            drop(watcher);
        });
        assert!(bus.shutdown().complete);
        dropping.join().unwrap();
        let departed = bus.stats().departed;
        assert_eq!((departed.delivered, departed.queued), (0, 0));
        assert_eq!(departed.offered, departed.dropped.stopped);
    });
}

/// A thread drops a stopped watcher while the dispatcher, which may not have noticed the stop,
/// offers an event to it and reaps its sender. Whichever thread finishes last adds up the counts of
/// both threads.
fn drop_of_a_stopped_watcher_against_an_offer() {
    explore(Exploration::default().after_set_up().first(30_000), || {
        let bus = bus(2, 1, OverflowPolicy::DropIncoming);
        let watcher = bus.watch().unwrap();
        rest(&bus);
        begin();
        // After this flush the dispatcher has registered the watcher, so the registration cannot
        // reveal the stop to the dispatcher.
        bus.flush(Duration::from_secs(1)).unwrap();
        bus.publisher().try_publish(Payload::new(1)).unwrap();
        watcher.stop();
        let dropping = spawn(move || drop(watcher));
        dropping.join().unwrap();
        assert!(bus.shutdown().complete);
        let departed = bus.stats().departed;
        assert_eq!(departed.offered, departed.dropped.stopped);
    });
}

/// A thread drops a watcher on a bus that is idle or about to be idle. The dispatcher reaps the
/// watcher's sender without another event.
fn drop_on_an_idle_bus() {
    explore(Exploration::default().first(30_000), || {
        let bus = bus(1, 1, OverflowPolicy::DropIncoming);
        let (sign, gone) = Sign::new();
        let filter = move |_: &Payload| {
            let _ = &sign;
            true
        };
        let watcher = bus.watch_builder().filter(filter).watch().unwrap();
        let dropping = spawn(move || drop(watcher));
        // A lost wake-up would be a deadlock here, which loom would report.
        gone.wait();
        dropping.join().unwrap();
    });
}

/// Two threads each drop a watcher at the same time on an idle bus. The dispatcher reaps both
/// senders without another event.
fn two_drops_on_an_idle_bus() {
    explore(Exploration::default().after_set_up().first(30_000), || {
        let bus = bus(1, 1, OverflowPolicy::DropIncoming);
        let ((first_sign, first_gone), (second_sign, second_gone)) = (Sign::new(), Sign::new());
        let [first, second] = [first_sign, second_sign].map(|sign| {
            let filter = move |_: &Payload| {
                let _ = &sign;
                true
            };
            bus.watch_builder().filter(filter).watch().unwrap()
        });
        rest(&bus);
        begin();
        let dropping = [spawn(move || drop(first)), spawn(move || drop(second))];
        // A lost wake-up would be a deadlock here, which loom would report.
        first_gone.wait();
        second_gone.wait();
        for dropping in dropping {
            dropping.join().unwrap();
        }
    });
}

/// A reader takes events while the dispatcher drops the oldest events from its queue. Each event is
/// either delivered or lost, exactly once and in order.
fn drop_oldest_against_a_reader() {
    explore(Exploration::default().after_set_up().first(30_000), || {
        let bus = bus(3, 1, OverflowPolicy::DropOldest);
        let mut watcher = bus.watch().unwrap();
        rest(&bus);
        begin();
        let reading = spawn(move || {
            let mut position = 1;
            for delivery in &mut watcher {
                match delivery {
                    Delivery::Event(event) => {
                        assert_eq!(u64::from(event.number()), position);
                        position += 1;
                    }
                    Delivery::Lagged(count) => position += count,
                }
            }
            (position, watcher.stats())
        });
        let publisher = bus.publisher();
        publisher.try_publish(Payload::new(1)).unwrap();
        publisher.try_publish(Payload::new(2)).unwrap();
        bus.close();
        let (position, stats) = reading.join().unwrap();
        assert_eq!((position, stats.offered), (3, 2));
        assert_eq!(stats.delivered + stats.dropped.oldest, 2);
    });
}

models! {
    registration_against_publish,
    nothing_published_before_is_seen,
    parking_against_publish,
    credit_against_a_reader,
    a_reader_that_stops_in_the_middle_of_a_slice,
    stop_against_a_waiting_dispatcher,
    drop_against_a_waiting_dispatcher,
    stop_and_drop_against_an_offer,
    drop_of_a_stopped_watcher_against_an_offer,
    drop_on_an_idle_bus,
    two_drops_on_an_idle_bus,
    drop_oldest_against_a_reader,
}
