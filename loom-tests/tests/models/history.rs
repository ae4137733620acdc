//! Models of watchers that start in the past. The registration of a watcher that first receives the
//! events in the history races with publishers, with the watcher's own reader, and with the end of
//! the bus.

use eventcast::bus::Start;
use eventcast::testing::{Exploration, Payload, begin, finish, rest};
use eventcast::{Broadcaster, Delivery, OverflowPolicy};
use eventcast_loom_tests::{explore, history_bus, numbers, spawn};

/// Returns a bus whose history has the given capacity. The bus's dispatcher is asleep, and event 1
/// has been published.
fn kept(history: usize, queue: usize, policy: OverflowPolicy) -> Broadcaster<Payload> {
    let bus = history_bus(history, queue, policy);
    bus.publisher().try_publish(Payload::new(1)).unwrap();
    rest(&bus);
    begin();
    bus
}

/// A watcher that starts with the oldest event is registered while a thread publishes. The watcher
/// receives both events once and in order, whether the second event is published before or after
/// the registration.
fn a_registration_against_publish() {
    explore(Exploration::default().after_set_up(), || {
        let bus = kept(2, 2, OverflowPolicy::DropIncoming);
        let publisher = bus.publisher();
        let publishing = spawn(move || publisher.try_publish(Payload::new(2)).unwrap());
        let mut watcher = bus.watch_builder().start(Start::Oldest).watch().unwrap();
        publishing.join().unwrap();
        bus.close();
        assert_eq!(numbers(&mut watcher), (vec![1, 2], 0));
        finish();
    });
}

/// A watcher that starts after position 0 is registered while a thread publishes, and the history
/// holds only one event. The first event is either received or part of a gap, and the watcher's
/// positions are consistent with the deliveries.
fn a_registration_against_the_end_of_the_history() {
    explore(Exploration::default().after_set_up(), || {
        let bus = kept(1, 2, OverflowPolicy::DropIncoming);
        let publisher = bus.publisher();
        let publishing = spawn(move || publisher.try_publish(Payload::new(2)).unwrap());
        let mut watcher = bus.watch_builder().start(Start::After(0)).watch().unwrap();
        let mut position = 0;
        while position < 2 {
            match watcher.recv().unwrap() {
                Delivery::Event(event) => {
                    position += 1;
                    assert_eq!(u64::from(event.number()), position);
                }
                Delivery::Lagged(lost) => position += lost,
            }
            assert_eq!(watcher.position(), Some(position));
        }
        publishing.join().unwrap();
        finish();
    });
}

/// A watcher that starts in the past is registered while the bus shuts down. Either the
/// registration is refused, or the watcher receives the past events and then reaches the end.
fn a_registration_against_shutdown() {
    explore(Exploration::default().after_set_up(), || {
        let bus = kept(1, 1, OverflowPolicy::DropIncoming);
        let other = bus.clone();
        let ending = spawn(move || assert!(other.shutdown().complete));
        if let Ok(mut watcher) = bus.watch_builder().start(Start::Oldest).watch() {
            assert_eq!(numbers(&mut watcher), (vec![1], 0));
        }
        ending.join().unwrap();
        finish();
        drop(bus);
    });
}

/// A watcher that starts in the past is dropped while the dispatcher replays the history. Each
/// event is dropped once.
fn a_drop_against_a_replay() {
    explore(Exploration::default().after_set_up(), || {
        let bus = kept(1, 1, OverflowPolicy::DropIncoming);
        let watcher = bus.watch_builder().start(Start::Oldest).watch().unwrap();
        let dropping = spawn(move || drop(watcher));
        assert!(bus.shutdown().complete);
        dropping.join().unwrap();
        finish();
        let departed = bus.stats().departed;
        assert_eq!((departed.offered, departed.queued), (departed.dropped.stopped, 0));
    });
}

/// The dispatcher waits for capacity in the queue of a reader that still has past events to read.
/// Reading past events does not free any capacity, and neither the dispatcher nor the reader waits
/// forever.
fn a_reader_of_the_past_against_a_waiting_dispatcher() {
    explore(Exploration::default().after_set_up().first(30_000), || {
        let bus = history_bus(1, 1, OverflowPolicy::Wait);
        bus.publisher().try_publish(Payload::new(1)).unwrap();
        let mut watcher = bus.watch_builder().start(Start::Oldest).watch().unwrap();
        rest(&bus);
        begin();
        bus.publisher().try_publish_batch([2, 3].map(Payload::new)).unwrap();
        let reading = spawn(move || {
            let events = [(); 3].map(|()| watcher.recv().unwrap().event().unwrap().number());
            (events, watcher)
        });
        let (events, watcher) = reading.join().unwrap();
        finish();
        assert!(bus.shutdown().complete);
        assert_eq!((events, watcher.stats().high_water), ([1, 2, 3], 1));
    });
}

/// A reader goes to sleep while the dispatcher replays the history. The reader wakes up for the
/// past event even though nothing else happens on the bus.
fn a_reader_that_goes_to_sleep_against_a_replay() {
    explore(Exploration::default().after_set_up(), || {
        let bus = kept(1, 1, OverflowPolicy::DropIncoming);
        let mut watcher = bus.watch_builder().start(Start::Oldest).watch().unwrap();
        assert!(matches!(watcher.recv(), Ok(Delivery::Event(event)) if event.number() == 1));
        assert_eq!(watcher.position(), Some(1));
        finish();
    });
}

/// A thread publishes a gap while the reader goes to sleep. The reader wakes up for the gap even
/// though nothing else happens on the bus.
fn a_published_gap_against_a_reader() {
    explore(Exploration::default().after_set_up(), || {
        let bus = history_bus(0, 1, OverflowPolicy::DropIncoming);
        let mut watcher = bus.watch().unwrap();
        rest(&bus);
        begin();
        let publisher = bus.publisher();
        let publishing = spawn(move || publisher.publish_gap(3).unwrap());
        assert!(matches!(watcher.recv(), Ok(Delivery::Lagged(3))));
        assert_eq!((watcher.position(), watcher.stats().missed), (Some(3), 3));
        publishing.join().unwrap();
        finish();
    });
}

models!(
    a_published_gap_against_a_reader,
    a_registration_against_publish,
    a_registration_against_the_end_of_the_history,
    a_registration_against_shutdown,
    a_drop_against_a_replay,
    a_reader_of_the_past_against_a_waiting_dispatcher,
    a_reader_that_goes_to_sleep_against_a_replay,
);
