//! Models of a pulling reader, to which the dispatcher has lent the fan-out while the dispatcher
//! naps. Each model begins with the fan-out lent to the reader and with event 0 in the reader's
//! mailbox. A nap never times out in a model, so every wake-up that a model relies on must actually
//! happen.

use std::time::Duration;

use eventcast::testing::{Exploration, Payload, begin, finish, rest};
use eventcast::{Broadcaster, Delivery, OverflowPolicy, Publisher, Watcher};
use eventcast_loom_tests::{direct_bus, explore, numbers, spawn};
use loom::future::block_on;

/// Returns a bus with the given incoming capacity, and a watcher that pulls.
fn lent(incoming: usize) -> (Broadcaster<Payload>, Watcher<Payload>) {
    let bus = direct_bus(incoming, 2, OverflowPolicy::Wait);
    // The dispatcher has not run yet. Once the dispatcher has processed the registration, the event
    // and a flush, it has completed a round in which the reader was not asleep.
    let watcher = bus.watch().unwrap();
    bus.publisher().try_publish(Payload::new(0)).unwrap();
    rest(&bus);
    begin();
    (bus, watcher)
}

/// Returns the same bus and watcher as [`lent`], but the incoming queue is full and contains three
/// events.
fn filled() -> (Broadcaster<Payload>, Watcher<Payload>, Publisher<Payload>) {
    let (bus, watcher) = lent(3);
    let publisher = bus.publisher();
    for number in 1..4 {
        publisher.try_publish(Payload::new(number)).unwrap();
    }
    (bus, watcher, publisher)
}

/// Returns a bus whose dispatcher is asleep, and a watcher whose reader is awake. Publishers have
/// delivered events 0 and 1 directly, and the reader has read them. The next publisher that finds
/// the dispatcher asleep lends the fan-out to the reader.
fn delivered() -> (Broadcaster<Payload>, Watcher<Payload>) {
    let bus = direct_bus(3, 4, OverflowPolicy::Wait);
    let mut watcher = bus.watch().unwrap();
    rest(&bus);
    for number in 0..2 {
        bus.publisher().try_publish(Payload::new(number)).unwrap();
        assert_eq!(received(&mut watcher), number);
    }
    begin();
    (bus, watcher)
}

fn received(watcher: &mut Watcher<Payload>) -> u32 {
    match watcher.recv() {
        Ok(Delivery::Event(event)) => event.number(),
        other => panic!("{other:?}"),
    }
}

/// A publisher publishes while the reader pulls and then sleeps.
fn a_reader_against_a_publisher() {
    explore(Exploration::default().after_set_up(), || {
        let (bus, mut watcher) = lent(3);
        let publisher = bus.publisher();
        let publishing = spawn(move || {
            for number in 1..3 {
                publisher.try_publish(Payload::new(number)).unwrap();
            }
        });
        assert_eq!([0; 3].map(|_| received(&mut watcher)), [0, 1, 2]);
        publishing.join().unwrap();
        finish();
    });
}

/// Two threads publish, and one of the threads then reads. The reader first pulls and then sleeps.
fn a_reader_against_two_publishers() {
    explore(Exploration::default().after_set_up(), || {
        let (bus, mut watcher) = lent(3);
        let publisher = bus.publisher();
        let publishing = spawn(move || publisher.try_publish(Payload::new(1)).unwrap());
        bus.publisher().try_publish(Payload::new(2)).unwrap();
        let mut seen = [0; 3].map(|_| received(&mut watcher));
        seen.sort_unstable();
        assert_eq!(seen, [0, 1, 2]);
        publishing.join().unwrap();
        finish();
    });
}

/// A task pulls and then waits, while a publisher publishes.
fn a_task_against_a_publisher() {
    explore(Exploration::default().after_set_up(), || {
        let (bus, mut watcher) = lent(3);
        let publisher = bus.publisher();
        let publishing = spawn(move || publisher.try_publish(Payload::new(1)).unwrap());
        let seen = [0; 2].map(|_| match block_on(watcher.recv_async()) {
            Ok(Delivery::Event(event)) => event.number(),
            other => panic!("{other:?}"),
        });
        assert_eq!(seen, [0, 1]);
        publishing.join().unwrap();
        finish();
    });
}

/// A publisher waits for capacity until the reader has pulled.
fn a_reader_against_a_publisher_that_waits() {
    explore(Exploration::default().after_set_up(), || {
        let (_bus, mut watcher, publisher) = filled();
        let publishing = spawn(move || publisher.publish(Payload::new(4)).unwrap());
        assert_eq!([0; 5].map(|_| received(&mut watcher)), [0, 1, 2, 3, 4]);
        publishing.join().unwrap();
        finish();
    });
}

/// A publisher that must not wait finds the incoming queue full, and frees capacity by moving
/// events into the mailbox, which is then full as well. A second publisher that must not wait races
/// with the reader.
fn a_reader_against_a_publisher_that_frees_capacity() {
    explore(Exploration::default().after_set_up(), || {
        let (_bus, mut watcher, publisher) = filled();
        // This thread may not see immediately that the reader is pulling.
        while publisher.try_publish(Payload::new(4)).is_err() {
            loom::thread::yield_now();
        }
        let publishing = spawn(move || publisher.try_publish(Payload::new(5)).is_ok());
        assert_eq!([0; 5].map(|_| received(&mut watcher)), [0, 1, 2, 3, 4]);
        if publishing.join().unwrap() {
            assert_eq!(received(&mut watcher), 5);
        }
        finish();
    });
}

/// A second watcher is registered while the first one pulls. Both watchers receive the event
/// published after the registration.
fn a_reader_against_a_registration() {
    explore(Exploration::default().after_set_up(), || {
        let (bus, mut first) = lent(3);
        let reading = spawn(move || [0; 2].map(|_| received(&mut first)));
        let mut second = bus.watch().unwrap();
        bus.publisher().try_publish(Payload::new(1)).unwrap();
        assert_eq!(reading.join().unwrap(), [0, 1]);
        finish();
        assert_eq!(received(&mut second), 1);
    });
}

/// A flush returns once the events published before it are in the mailbox or have been delivered.
fn a_reader_against_a_flush() {
    explore(Exploration::default().after_set_up(), || {
        let (bus, mut watcher) = lent(3);
        let reading = spawn(move || [0; 2].map(|_| received(&mut watcher)));
        bus.publisher().try_publish(Payload::new(1)).unwrap();
        bus.flush(Duration::from_secs(1)).unwrap();
        assert_eq!(bus.stats().accepted, 2);
        assert_eq!(reading.join().unwrap(), [0, 1]);
        finish();
    });
}

/// A flush is pushed while the dispatcher begins to nap. The dispatcher completes the flush. The
/// dispatcher is woken by the push or, if the push happened too early to wake the dispatcher, when
/// the reader is dropped.
fn a_flush_against_lending() {
    explore(Exploration::default().after_set_up(), || {
        let bus = direct_bus(3, 2, OverflowPolicy::Wait);
        let mut watcher = bus.watch().unwrap();
        bus.publisher().try_publish(Payload::new(0)).unwrap();
        begin();
        let reading = spawn(move || received(&mut watcher));
        bus.flush(Duration::from_secs(1)).unwrap();
        assert_eq!(bus.stats().accepted, 1);
        assert_eq!(reading.join().unwrap(), 0);
        finish();
    });
}

/// A publisher lends the fan-out while the reader goes to sleep. Either the reader sees that the
/// fan-out is lent, or the dispatcher, which the publisher wakes, sees that the reader is asleep.
fn a_publisher_that_lends_against_a_reader_that_goes_to_sleep() {
    explore(Exploration::default().after_set_up(), || {
        let (bus, mut watcher) = delivered();
        let publisher = bus.publisher();
        let publishing = spawn(move || publisher.try_publish(Payload::new(2)).unwrap());
        assert_eq!(received(&mut watcher), 2);
        publishing.join().unwrap();
        finish();
    });
}

/// A publisher lends the fan-out, and then publishes an event for which only the reader or the
/// dispatcher is responsible.
fn a_publisher_that_lends_against_a_reader() {
    explore(Exploration::default().after_set_up(), || {
        let (bus, mut watcher) = delivered();
        let publisher = bus.publisher();
        let publishing = spawn(move || {
            for number in 2..4 {
                publisher.try_publish(Payload::new(number)).unwrap();
            }
        });
        assert_eq!([0; 2].map(|_| received(&mut watcher)), [2, 3]);
        publishing.join().unwrap();
        finish();
    });
}

/// A publisher lends the fan-out and then flushes, while the reader reads one event and is dropped.
fn a_publisher_that_lends_and_flushes_against_a_reader() {
    explore(Exploration::default().after_set_up().first(30_000), || {
        let (bus, mut watcher) = delivered();
        let reading = spawn(move || received(&mut watcher));
        bus.publisher().try_publish(Payload::new(2)).unwrap();
        bus.flush(Duration::from_secs(1)).unwrap();
        assert_eq!(bus.stats().accepted, 3);
        assert_eq!(reading.join().unwrap(), 2);
        finish();
    });
}

/// A publisher lends the fan-out while another thread drops the reader and shuts the bus down.
fn a_publisher_that_lends_against_a_drop() {
    explore(Exploration::default().after_set_up(), || {
        let (bus, watcher) = delivered();
        let publisher = bus.publisher();
        let publishing = spawn(move || publisher.try_publish(Payload::new(2)).is_ok());
        drop(watcher);
        let report = bus.shutdown();
        let accepted = publishing.join().unwrap();
        assert_eq!((report.complete, report.bus.accepted), (true, 2 + u64::from(accepted)));
        let departed = report.bus.departed;
        assert_eq!(departed.offered, departed.delivered + departed.dropped.total());
    });
}

/// The reader pulls while another thread publishes and shuts the bus down.
fn a_reader_against_shutdown() {
    explore(Exploration::default().after_set_up(), || {
        let (bus, mut watcher) = lent(3);
        let reading = spawn(move || numbers(&mut watcher));
        bus.publisher().try_publish(Payload::new(1)).unwrap();
        let report = bus.shutdown();
        assert_eq!((report.complete, report.bus.accepted), (true, 2));
        assert_eq!(reading.join().unwrap(), (vec![0, 1], 0));
    });
}

/// The reader pulls while another thread publishes and then stops the reader.
fn a_reader_against_a_stop() {
    explore(Exploration::default().after_set_up(), || {
        let (bus, mut watcher) = lent(3);
        let stop = watcher.handle();
        let reading = spawn(move || numbers(&mut watcher).0.len() as u64);
        bus.publisher().try_publish(Payload::new(1)).unwrap();
        stop.stop();
        let read = reading.join().unwrap();
        let report = bus.shutdown();
        let departed = report.bus.departed;
        assert_eq!((report.complete, report.bus.accepted, departed.delivered), (true, 2, read));
        assert_eq!(departed.offered, departed.delivered + departed.dropped.total());
    });
}

models![
    a_flush_against_lending,
    a_publisher_that_lends_against_a_drop,
    a_publisher_that_lends_against_a_reader,
    a_publisher_that_lends_against_a_reader_that_goes_to_sleep,
    a_publisher_that_lends_and_flushes_against_a_reader,
    a_reader_against_a_flush,
    a_reader_against_a_publisher,
    a_reader_against_a_publisher_that_frees_capacity,
    a_reader_against_a_publisher_that_waits,
    a_reader_against_a_registration,
    a_reader_against_a_stop,
    a_reader_against_shutdown,
    a_reader_against_two_publishers,
    a_task_against_a_publisher,
];
