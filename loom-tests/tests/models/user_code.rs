//! Models of user code that panics or shuts the bus down in the middle of a race.

use std::ops::ControlFlow;
use std::panic::resume_unwind;
use std::sync::Arc;

use eventcast::testing::{Exploration, Payload, begin, rest};
use eventcast::{Broadcaster, Delivery, OverflowPolicy};
use eventcast_loom_tests::{bus, bus_of, explore, spawn};

/// Panics without printing a message, because the models panic many times.
fn fail() -> ! {
    resume_unwind(Box::new(()))
}

/// An event whose `Clone` panics.
#[derive(Debug)]
struct Fragile(Payload);

impl Clone for Fragile {
    fn clone(&self) -> Self {
        fail()
    }
}

/// An event's `Clone` panics on the dispatcher while a reader waits for the event. The reader still
/// receives the event, and then the report of the loss that follows.
fn a_clone_that_panics_against_a_reader() {
    explore(Exploration::default().after_set_up().first(30_000), || {
        let bus = bus_of(2, 1, OverflowPolicy::DropIncoming);
        let mut watcher = bus.watch().unwrap();
        let publisher = bus.publisher();
        rest(&bus);
        begin();
        let publishing = spawn(move || {
            publisher.try_publish_batch(vec![Fragile(Payload::new(1)), Fragile(Payload::new(2))]).unwrap();
        });
        let reading = spawn(move || {
            assert!(matches!(watcher.recv_ref(), Ok(Delivery::Event(event)) if event.0.number() == 1));
            assert!(matches!(watcher.recv_ref(), Ok(Delivery::Lagged(1))));
            assert_eq!(watcher.stats().panics, 1);
        });
        publishing.join().unwrap();
        reading.join().unwrap();
    });
}

/// A handler panics, which ends the handler, while a thread shuts the bus down. The shutdown waits
/// until the handler has ended, but no longer.
fn a_handler_that_panics_against_shutdown() {
    explore(Exploration::default().after_set_up().first(30_000), || {
        let bus = bus(2, 2, OverflowPolicy::DropIncoming);
        let handle = bus.watch_builder().stop_on_panic(true).spawn(|_| fail()).unwrap();
        let publisher = bus.publisher();
        rest(&bus);
        begin();
        let publishing = spawn(move || publisher.try_publish(Payload::new(1)).is_ok());
        assert!(bus.shutdown().complete);
        let accepted = publishing.join().unwrap();
        let stats = handle.stats();
        assert_eq!((stats.panics, stats.delivered), (u64::from(accepted), u64::from(accepted)));
    });
}

/// A handler ends itself at the first of two events while a thread shuts the bus down. Every event
/// that was offered to the handler is counted once, and the shutdown does not wait for the queue.
fn a_handler_that_breaks_against_shutdown() {
    explore(Exploration::default().after_set_up().first(30_000), || {
        let bus = bus(2, 2, OverflowPolicy::DropIncoming);
        let handle = bus.watch_builder().spawn_while(|_| ControlFlow::Break(())).unwrap();
        let publisher = bus.publisher();
        rest(&bus);
        begin();
        let publishing = spawn(move || {
            (1..3).filter(|number| publisher.try_publish(Payload::new(*number)).is_ok()).count()
        });
        assert!(bus.shutdown().complete);
        let accepted = publishing.join().unwrap() as u64;
        let stats = handle.stats();
        assert_eq!((stats.delivered, stats.queued), (accepted.min(1), 0));
        assert_eq!(stats.offered, stats.delivered + stats.dropped.stopped);
    });
}

/// A filter panics while another thread reads the filter's watcher. The watcher ends, but the bus
/// does not end.
fn a_filter_that_panics_against_a_reader() {
    explore(Exploration::default().after_set_up().first(30_000), || {
        let bus = bus(2, 1, OverflowPolicy::DropIncoming);
        let mut watcher = bus.watch_builder().filter(|_| fail()).watch().unwrap();
        let publisher = bus.publisher();
        rest(&bus);
        begin();
        let publishing = spawn(move || publisher.try_publish(Payload::new(1)).unwrap());
        let reading = spawn(move || {
            assert!(watcher.recv().is_err());
            assert_eq!(watcher.stats().panics, 1);
        });
        publishing.join().unwrap();
        reading.join().unwrap();
    });
}

/// A value that shuts the bus down when it is dropped.
struct ShutsDown(Arc<Broadcaster<Payload>>);

impl Drop for ShutsDown {
    fn drop(&mut self) {
        assert!(!self.0.shutdown().complete, "a thread of the bus does not wait for it");
    }
}

/// The dispatcher drops a filter that owns a [`ShutsDown`]. The dispatcher does not wait for itself
/// in the resulting shutdown, and a thread that waits for the bus to end sees that it has ended.
fn a_filter_that_shuts_down_when_it_goes() {
    explore(Exploration::default().after_set_up().first(30_000), || {
        let bus = Arc::new(bus(1, 1, OverflowPolicy::DropIncoming));
        let shuts_down = ShutsDown(bus.clone());
        rest(&bus);
        begin();
        let watcher =
            bus.watch_builder().filter(move |_| Arc::strong_count(&shuts_down.0) > 0).watch().unwrap();
        let waiting = spawn(move || assert!(bus.shutdown().complete));
        drop(watcher);
        waiting.join().unwrap();
    });
}

/// A thread drops a handler that has not run and that owns a [`ShutsDown`]. Another thread waits
/// for the bus to end and sees that it has ended.
fn a_runner_that_shuts_down_when_it_goes() {
    explore(Exploration::default().after_set_up().first(30_000), || {
        let bus = Arc::new(bus(1, 1, OverflowPolicy::DropIncoming));
        let shuts_down = ShutsDown(bus.clone());
        rest(&bus);
        begin();
        let runner =
            bus.watch_builder().runner(move |_| assert!(Arc::strong_count(&shuts_down.0) > 0)).unwrap();
        let waiting = spawn(move || assert!(bus.shutdown().complete));
        drop(runner);
        waiting.join().unwrap();
    });
}

models! {
    a_clone_that_panics_against_a_reader,
    a_handler_that_panics_against_shutdown,
    a_handler_that_breaks_against_shutdown,
    a_filter_that_panics_against_a_reader,
    a_filter_that_shuts_down_when_it_goes,
    a_runner_that_shuts_down_when_it_goes,
}
