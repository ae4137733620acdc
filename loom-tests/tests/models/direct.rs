//! Models of direct delivery. Publishers that find the dispatcher asleep race with each other and
//! with threads that need the dispatcher.

use std::time::Duration;

use eventcast::testing::{Exploration, Parker, Payload, begin, finish, park, rest};
use eventcast::{Broadcaster, Delivery, OverflowPolicy, Watcher};
use eventcast_loom_tests::{direct_bus, explore, numbers, spawn};
use loom::sync::atomic::{AtomicUsize, Ordering};
use loom::thread::JoinHandle;

/// Returns a bus whose dispatcher is asleep, a watcher with the given queue capacity, and a thread
/// that publishes event 1 and returns whether the bus accepted the event.
fn publishing(room: usize) -> (Broadcaster<Payload>, Watcher<Payload>, JoinHandle<bool>) {
    let bus = direct_bus(room.max(2), room, OverflowPolicy::DropIncoming);
    let watcher = bus.watch().unwrap();
    rest(&bus);
    begin();
    let publisher = bus.publisher();
    let publishing = spawn(move || publisher.try_publish(Payload::new(1)).is_ok());
    (bus, watcher, publishing)
}

/// Two publishers deliver at the same time, and one of them fails to acquire the fan-out. A
/// sleeping reader receives both events even though nothing else happens on the bus.
fn two_publishers_against_each_other() {
    explore(Exploration::default().after_set_up(), || {
        let (bus, mut watcher, publishing) = publishing(2);
        bus.publisher().try_publish(Payload::new(2)).unwrap();
        let mut seen = [0, 0].map(|_| match watcher.recv() {
            Ok(Delivery::Event(event)) => event.number(),
            other => panic!("{other:?}"),
        });
        seen.sort_unstable();
        assert_eq!(seen, [1, 2]);
        assert!(publishing.join().unwrap());
        finish();
    });
}

/// Two publishers and the dispatcher offer events. Both watchers receive all events in the same
/// order, which preserves the order of each publisher.
fn two_publishers_and_the_dispatcher_against_each_other() {
    explore(Exploration::default().after_set_up().first(30_000), || {
        let (bus, mut first, publishing) = publishing(3);
        let mut second = bus.watch().unwrap();
        bus.publisher().try_publish(Payload::new(2)).unwrap();
        bus.publisher().try_publish(Payload::new(3)).unwrap();
        assert!(publishing.join().unwrap());
        bus.close();
        let ((events, lost), (late, late_lost)) = (numbers(&mut first), numbers(&mut second));
        assert_eq!((events.len(), lost, late_lost), (3, 0, 0));
        assert!(events.ends_with(&late) && late.iter().any(|event| *event == 2), "{events:?}, {late:?}");
        assert!(events.iter().position(|event| *event == 2) < events.iter().position(|event| *event == 3));
        finish();
    });
}

/// A publisher delivers while another thread registers a watcher, so the registration takes place
/// before or after the event. The first watcher receives the event, and the new watcher either also
/// receives the event or does not receive anything. Both watchers reach the end.
fn a_publisher_against_a_registration() {
    explore(Exploration::default().after_set_up(), || {
        let (bus, mut first, publishing) = publishing(2);
        let mut second = bus.watch().unwrap();
        assert!(publishing.join().unwrap());
        bus.close();
        assert_eq!(numbers(&mut first), (vec![1], 0));
        let (events, lost) = numbers(&mut second);
        assert!(lost == 0 && (events.is_empty() || events == [1]), "{events:?}");
    });
}

/// Two publishers deliver into a mailbox with a capacity of one. The dispatcher counts the event
/// that does not fit as lost, and reports the loss to the reader.
fn two_publishers_against_a_full_mailbox() {
    explore(Exploration::default().after_set_up(), || {
        let (bus, mut watcher, publishing) = publishing(1);
        bus.publisher().try_publish(Payload::new(2)).unwrap();
        let mut told = 0;
        while told < 2 {
            told += match watcher.recv() {
                Ok(Delivery::Event(_)) => 1,
                Ok(Delivery::Lagged(lost)) => lost,
                Err(error) => panic!("{error}"),
            };
        }
        assert!(publishing.join().unwrap());
        assert_eq!(told, 2);
        finish();
    });
}

/// A publisher delivers while another thread flushes, and the flush returns. A second flush, after
/// the publish call, returns once the event is in the mailbox.
fn a_publisher_against_a_flush() {
    explore(Exploration::default().after_set_up(), || {
        let (bus, mut watcher, publishing) = publishing(2);
        bus.flush(Duration::from_secs(1)).unwrap();
        assert!(publishing.join().unwrap());
        bus.flush(Duration::from_secs(1)).unwrap();
        assert!(matches!(watcher.try_recv(), Ok(Delivery::Event(event)) if event.number() == 1));
        finish();
    });
}

/// A publisher delivers while another thread drops the watcher.
fn a_publisher_against_a_stop() {
    explore(Exploration::default().after_set_up(), || {
        let (bus, watcher, publishing) = publishing(2);
        drop(watcher);
        assert!(publishing.join().unwrap());
        let report = bus.shutdown();
        assert_eq!(report.bus.accepted, 1);
        let departed = report.bus.departed;
        assert_eq!(departed.offered, departed.delivered + departed.dropped.total());
    });
}

/// A publisher delivers while a shutdown begins. An accepted event is delivered, and a refused
/// event is returned.
fn a_publisher_against_shutdown() {
    explore(Exploration::default().in_full_detail(), || {
        let bus = direct_bus(2, 2, OverflowPolicy::DropIncoming);
        let mut watcher = bus.watch().unwrap();
        let publisher = bus.publisher();
        let publishing = spawn(move || publisher.try_publish(Payload::new(7)).is_ok());
        let report = bus.shutdown();
        assert!(report.complete);
        let accepted = publishing.join().unwrap();
        assert_eq!(report.bus.accepted, u64::from(accepted));
        assert_eq!(numbers(&mut watcher), (if accepted { vec![7] } else { vec![] }, 0));
    });
}

/// Two publishers deliver while the bus is being closed. Each event is accepted or returned.
fn two_publishers_against_close() {
    explore(Exploration::default().after_set_up(), || {
        let (bus, mut watcher, publishing) = publishing(2);
        let accepted = u64::from(bus.publisher().try_publish(Payload::new(2)).is_ok());
        bus.close();
        let accepted = accepted + u64::from(publishing.join().unwrap());
        let report = bus.shutdown();
        assert_eq!((report.complete, report.bus.accepted), (true, accepted));
        let (events, lost) = numbers(&mut watcher);
        assert_eq!((events.len() as u64, lost), (accepted, 0));
    });
}

/// A publisher delivers and then waits for capacity while the bus is being closed. Closing the bus
/// releases the publisher.
fn a_publisher_that_waits_against_close() {
    explore(Exploration::default().after_set_up(), || {
        let bus = direct_bus(1, 1, OverflowPolicy::Wait);
        let watcher = bus.watch().unwrap();
        rest(&bus);
        begin();
        let publisher = bus.publisher();
        let publishing = spawn(move || {
            (1..5).map(|number| u64::from(publisher.publish(Payload::new(number)).is_ok())).sum::<u64>()
        });
        bus.close();
        let accepted = publishing.join().unwrap();
        drop(watcher);
        assert_eq!(bus.shutdown().bus.accepted, accepted);
    });
}

/// Tests the real implementation of the token on which a thread parks. The thread waits for two
/// steps by another thread, which sets the token after each step. The waiting thread wakes up and
/// sees the effects of each step.
fn a_token_against_a_park() {
    explore(Exploration::default(), || {
        let parker = Parker::new();
        let (unparker, steps) = (parker.unparker(), loom::sync::Arc::new(AtomicUsize::new(0)));
        let done = steps.clone();
        let waking = spawn(move || {
            for step in 1..3 {
                // Relaxed: the token publishes this store.
                done.store(step, Ordering::Relaxed);
                unparker.unpark();
            }
        });
        for step in 1..3 {
            // Relaxed: for the same reason as the store above.
            while steps.load(Ordering::Relaxed) < step {
                parker.park(park);
            }
        }
        waking.join().unwrap();
    });
}

models![
    a_publisher_against_a_flush,
    a_publisher_against_a_registration,
    a_publisher_against_a_stop,
    a_publisher_against_shutdown,
    a_publisher_that_waits_against_close,
    a_token_against_a_park,
    two_publishers_against_a_full_mailbox,
    two_publishers_against_close,
    two_publishers_and_the_dispatcher_against_each_other,
    two_publishers_against_each_other,
];
