//! Shutdown against publishers.
#![cfg(eventcast_loom)]

use eventcast::{Broadcaster, BusOptions, Delivery, PublishError};
use eventcast_loom_tests::{Payload, explore};
use loom::thread;

fn bus(incoming: usize, queue: usize) -> Broadcaster<Payload> {
    Broadcaster::with_options(BusOptions::default().incoming_len(incoming).queue_len(queue)).unwrap()
}

/// A publish races with a shutdown: what was accepted is delivered, what was refused comes back, nothing else happens.
#[test]
fn publish_against_shutdown() {
    explore("publish against shutdown", || {
        let bus = bus(2, 2);
        let mut watcher = bus.watch().unwrap();
        let publisher = bus.publisher();
        let publishing = thread::spawn(move || match publisher.try_publish(Payload::new(7)) {
            Ok(()) => true,
            Err(PublishError::Stopped(event)) => {
                assert_eq!(event.number(), 7);
                false
            }
            Err(error) => panic!("{error}"),
        });
        let report = bus.shutdown();
        assert!(report.complete);
        let accepted = publishing.join().unwrap();
        assert_eq!(report.bus.accepted, u64::from(accepted));
        if accepted {
            assert!(matches!(watcher.recv(), Ok(Delivery::Event(event)) if event.number() == 7));
        }
        assert!(watcher.recv().is_err());
    });
}
