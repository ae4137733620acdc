//! G2: registrations, flushes and gaps have a place in the order of events, and do not take up
//! capacity for events.

use std::thread;
use std::time::Duration;

use eventcast::Delivery::{Event, Lagged};
use eventcast::error::{FlushError, PublishError};
use eventcast::{Delivery, Watcher};
use futures::executor::block_on;

use crate::support::{Ear, LONG, assert_balanced, available, bus, drain, events, hold, watched};

/// Tests G2 in both directions. The dispatcher is held so that all entries are in the incoming
/// queue at the same time.
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

/// A registration gets its place in the order without waiting for the dispatcher.
#[test]
fn watch_returns_while_the_dispatcher_is_held() {
    let bus = bus(4, 4);
    let held = hold(&bus);
    let mut watcher = bus.watch().unwrap();
    assert!(watcher.try_recv().is_err());
    bus.publisher().try_publish(5).unwrap();
    drop(held);
    bus.shutdown();
    assert_eq!(drain(&mut watcher), [Event(5)]);
}

/// While the dispatcher is blocked, it does not process any control entries.
#[test]
fn control_entries_keep_their_place_while_the_dispatcher_is_blocked() {
    watched(|| {
        let bus = bus(100, 100);
        let held = hold(&bus);
        let publisher = bus.publisher();
        publisher.publish(1).unwrap();
        let mut first = bus.watch().unwrap();
        publisher.publish_batch([2, 3]).unwrap();
        publisher.publish_gap(4).unwrap();
        publisher.publish_gap(5).unwrap();
        let mut second = bus.watch().unwrap();
        publisher.publish_gap(6).unwrap();
        publisher.publish(7).unwrap();
        let mut last = bus.watch().unwrap();
        assert_eq!((first.position(), last.position()), (None, None));
        drop(held);
        bus.flush(LONG).unwrap();
        assert_eq!(available(&mut first), [Event(2), Event(3), Lagged(15), Event(7)]);
        assert_eq!(available(&mut second), [Lagged(6), Event(7)]);
        assert_eq!(available(&mut last), []);
        let start = second.position().unwrap();
        assert_eq!((first.position(), last.position()), (Some(start), Some(start)));
        assert_balanced(&bus.stats());
    });
}

/// A batch ends before the next registration in the order, even if more events are waiting.
#[test]
fn a_registration_divides_the_events_that_wait() {
    watched(|| {
        const EVENTS: u64 = 64;
        let bus = bus(1000, 1000);
        let held = hold(&bus);
        let watch_behind = |event| {
            bus.publisher().publish(event).unwrap();
            bus.watch().unwrap()
        };
        let watchers: Vec<Watcher<u64>> = (0..EVENTS).map(watch_behind).collect();
        drop(held);
        bus.shutdown();
        for (before, mut watcher) in (1..).zip(watchers) {
            assert_eq!(drain(&mut watcher), (before..EVENTS).map(Event).collect::<Vec<_>>());
        }
    });
}

#[test]
fn watchers_that_are_registered_take_no_capacity_from_events() {
    watched(|| {
        let bus = bus(10, 100);
        let held = hold(&bus);
        let mut watchers = [(); 4].map(|()| bus.watch().unwrap());
        for event in 0..10 {
            assert_eq!(bus.publisher().try_publish(event), Ok(()));
        }
        assert!(bus.publisher().try_publish(10).unwrap_err().is_full());
        // Even a full queue does not delay a registration.
        let mut late = bus.watch().unwrap();
        drop(held);
        bus.flush(LONG).unwrap();
        let all: Vec<_> = (0..10).map(Event).collect();
        assert!(watchers.iter_mut().all(|watcher| available(watcher) == all));
        assert_eq!(available(&mut late), []);
    });
}

/// client-go's queue accepts a burst that fills the whole queue, and so does the incoming queue. A
/// registration and a flush at the same time do not change this.
#[test]
fn a_burst_as_long_as_the_incoming_queue_is_accepted() {
    for _ in 0..200 {
        let bus = bus(1_000, 1_000);
        let _watcher = bus.watch().unwrap();
        thread::scope(|scope| {
            scope.spawn(|| bus.flush(LONG).unwrap());
            let publisher = bus.publisher();
            assert!((0..1000).all(|event| publisher.try_publish(event).is_ok()));
        });
        assert_eq!(bus.shutdown().bus.rejected_full, 0);
    }
}

/// Threads register watchers while other threads publish. Each watcher is offered, in order, all
/// events that its own thread publishes after the registration, and none of the events that the
/// thread published before.
#[test]
fn each_registration_has_its_place_among_the_events_of_its_thread() {
    watched(|| {
        let bus = bus(1_000, 100_000);
        thread::scope(|scope| {
            for thread in 0..4_u64 {
                let bus = &bus;
                scope.spawn(move || {
                    let publisher = bus.publisher();
                    for round in 0..50 {
                        let number = |step: u64| thread << 32 | round << 8 | step;
                        publisher.publish_batch((0..20).map(number)).unwrap();
                        let mut watcher = bus.watch().unwrap();
                        (20..40).for_each(|step| publisher.publish(number(step)).unwrap());
                        bus.flush(LONG).unwrap();
                        let own = |event: &u64| event >> 32 == thread;
                        let seen: Vec<_> =
                            watcher.try_iter().filter_map(Delivery::event).filter(own).collect();
                        assert_eq!(seen, (20..40).map(number).collect::<Vec<_>>());
                    }
                });
            }
        });
        assert_balanced(&bus.stats());
    });
}

/// The number of flushes, either waiting for the dispatcher or timed out, exceeds the capacity of
/// the incoming queue.
#[test]
fn flushes_take_no_capacity_from_events() {
    watched(|| {
        let bus = bus(2, 1);
        let held = hold(&bus);
        for _ in 0..900 {
            assert!(matches!(bus.flush(Duration::ZERO), Err(FlushError::Timeout { .. })));
        }
        let ear = Ear::new();
        let mut flushes = [(); 3].map(|()| Box::pin(bus.flush_async(LONG)));
        assert!(flushes.iter_mut().all(|flush| ear.poll(flush.as_mut()).is_pending()));
        assert_eq!(bus.publisher().try_publish_batch([1]), Ok(()));
        assert_eq!(bus.publisher().try_publish(2), Ok(()));
        assert_eq!(bus.publisher().try_publish(3), Err(PublishError::Full(3)));
        drop(held);
        assert_eq!(flushes.map(block_on), [(); 3].map(Ok));
        assert!(bus.shutdown().complete);
    });
}
