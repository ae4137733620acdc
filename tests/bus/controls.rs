//! Registrations, flushes and gaps: their place among the events, and what they cost.

use std::sync::mpsc;
use std::task::{Context, Waker};
use std::thread;
use std::time::Duration;

use eventcast::Delivery::{Event, Lagged};
use eventcast::error::FlushError;
use eventcast::{Broadcaster, BusOptions, Delivery, Watcher};

use crate::support::{LONG, assert_balanced, available, bus, drain, hold, watched};

/// While the dispatcher is blocked, it carries out nothing.
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

/// A batch of the dispatcher ends at the place of a registration, although more events wait.
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
        // A full queue delays no registration, either.
        let mut late = bus.watch().unwrap();
        drop(held);
        bus.flush(LONG).unwrap();
        let all: Vec<_> = (0..10).map(Event).collect();
        assert!(watchers.iter_mut().all(|watcher| available(watcher) == all));
        assert_eq!(available(&mut late), []);
    });
}

#[test]
fn flushes_that_have_timed_out_take_no_capacity_from_events() {
    watched(|| {
        let bus = bus(1000, 1);
        let held = hold(&bus);
        for _ in 0..900 {
            assert!(matches!(bus.flush(Duration::ZERO), Err(FlushError::Timeout { .. })));
        }
        let accepted = (0..1100).filter(|event| bus.publisher().try_publish(*event).is_ok()).count();
        assert_eq!(accepted, 1000);
        drop(held);
        assert!(bus.shutdown().complete);
    });
}

/// More flushes wait for the dispatcher than the incoming queue has capacity for.
#[test]
fn flushes_that_wait_take_no_capacity_from_events() {
    watched(|| {
        let bus = bus(2, 1);
        let held = hold(&bus);
        let mut flushes = [(); 3].map(|()| Box::pin(bus.flush_async(LONG)));
        let mut waiting = Context::from_waker(Waker::noop());
        assert!(flushes.iter_mut().all(|flush| flush.as_mut().poll(&mut waiting).is_pending()));
        assert_eq!(bus.publisher().try_publish_batch([1]), Ok(()));
        assert_eq!(bus.publisher().try_publish(2), Ok(()));
        drop(held);
        assert_eq!(flushes.map(futures::executor::block_on), [(); 3].map(Ok));
    });
}

/// client-go's queue takes a burst of its length. A registration and a flush at the same time
/// change nothing.
#[test]
fn a_burst_as_long_as_the_incoming_queue_is_accepted() {
    for _ in 0..200 {
        let bus = Broadcaster::with_options(BusOptions::default().incoming_len(1000)).unwrap();
        let _watcher = bus.watch().unwrap();
        thread::scope(|scope| {
            scope.spawn(|| bus.flush(LONG).unwrap());
            let publisher = bus.publisher();
            assert!((0..1000).all(|event| publisher.try_publish(event).is_ok()));
        });
        assert_eq!(bus.shutdown().bus.rejected_full, 0);
    }
}

/// A filter that does not return holds the dispatcher. A thread that drops a watcher then frees it
/// itself.
#[test]
fn a_watcher_dropped_before_its_registration_is_freed_while_a_filter_holds_the_dispatcher() {
    watched(|| {
        let bus = bus::<u64>(10, 10);
        let ((entered, entering), (leave, left)) = (mpsc::channel(), mpsc::channel::<()>());
        let filter = move |_: &u64| entered.send(()).is_ok() && left.recv().is_err();
        let _busy = bus.watch_builder().filter(filter).watch().unwrap();
        bus.publisher().publish(1).unwrap();
        entering.recv_timeout(LONG).unwrap();
        let alive = std::sync::Arc::new(());
        let of_filter = alive.clone();
        let builder = bus.watch_builder().filter(move |_| std::sync::Arc::strong_count(&of_filter) > 0);
        let mut stays = bus.watch().unwrap();
        drop(builder.watch().unwrap());
        assert_eq!((std::sync::Arc::strong_count(&alive), bus.watcher_count()), (1, 2));
        bus.publisher().publish(2).unwrap();
        drop(leave);
        bus.flush(LONG).unwrap();
        assert_eq!(available(&mut stays), [Event(2)]);
        assert_balanced(&bus.stats());
    });
}

/// Threads register while others publish: each watcher is offered everything that its own thread
/// publishes later, in order, and nothing that it has published before.
#[test]
fn each_registration_has_its_place_among_the_events_of_its_thread() {
    watched(|| {
        let bus = Broadcaster::with_options(BusOptions::default().queue_len(100_000)).unwrap();
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

/// The destructor of a filter shuts the bus down, on a thread for which the dispatcher waits. It
/// does not wait, as on any thread of the bus.
#[test]
fn a_filter_dropped_before_its_registration_does_not_wait_for_the_bus() {
    struct Ends(Broadcaster<u64>);
    impl Drop for Ends {
        fn drop(&mut self) {
            assert!(!self.0.shutdown().complete);
        }
    }
    watched(|| {
        let bus = bus::<u64>(10, 10);
        let held = hold(&bus);
        let ends = Ends(bus.clone());
        let filter = move |_: &u64| !ends.0.is_closed();
        drop(bus.watch_builder().filter(filter).watch().unwrap());
        assert!(bus.is_closed());
        drop(held);
        assert!(bus.shutdown().complete);
    });
}
