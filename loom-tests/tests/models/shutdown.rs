//! Models in which the end of the bus races with threads that are using the bus.

use std::time::Duration;

use eventcast::OverflowPolicy;
use eventcast::error::{FlushError, PublishError};
use eventcast::testing::{Exploration, Payload, begin, rest};
use eventcast_loom_tests::{bus, explore, numbers, spawn};
use loom::future::block_on;
use loom::sync::atomic::{AtomicBool, Ordering};

/// A publish call races with a shutdown. Either the event is accepted and delivered, or the event
/// is refused and returned.
fn publish_against_shutdown() {
    explore(Exploration::default().in_full_detail(), || {
        let bus = bus(2, 2, OverflowPolicy::DropIncoming);
        let mut watcher = bus.watch().unwrap();
        let publisher = bus.publisher();
        let publishing = spawn(move || match publisher.try_publish(Payload::new(7)) {
            Ok(()) => true,
            Err(PublishError::Closed(event)) => {
                assert_eq!(event.number(), 7);
                false
            }
            Err(error) => panic!("{error}"),
        });
        let report = bus.shutdown();
        assert!(report.complete);
        let accepted = publishing.join().unwrap();
        assert_eq!(report.bus.accepted, u64::from(accepted));
        let wanted = if accepted { vec![7] } else { vec![] };
        assert_eq!(numbers(&mut watcher), (wanted, 0));
    });
}

/// Two publishers race with each other for the last slot while the bus is being closed. Each event
/// is either accepted or returned.
fn two_publishers_against_close() {
    explore(Exploration::default().with_two_cells().after_set_up().first(30_000), || {
        let bus = bus(1, 2, OverflowPolicy::DropIncoming);
        rest(&bus);
        begin();
        let publishing: Vec<_> = (1..3)
            .map(|number| {
                let publisher = bus.publisher();
                spawn(move || match publisher.try_publish(Payload::new(number)) {
                    Ok(()) => 1,
                    Err(error) => {
                        assert_eq!(error.into_inner().number(), number);
                        0
                    }
                })
            })
            .collect();
        bus.close();
        let accepted: u64 = publishing.into_iter().map(|publishing| publishing.join().unwrap()).sum();
        let report = bus.shutdown();
        assert!(report.complete);
        assert_eq!(report.bus.accepted, accepted);
        assert_eq!(report.bus.published(), 2);
    });
}

/// Two publishers race with a shutdown. The shutdown returns once the accepted events have been
/// offered, and its report counts exactly these events.
fn two_publishers_and_a_shutdown() {
    explore(Exploration::default().with_two_cells().after_set_up().first(30_000), || {
        let bus = bus(2, 2, OverflowPolicy::DropIncoming);
        rest(&bus);
        begin();
        let publishing: Vec<_> = (1..3)
            .map(|number| {
                let publisher = bus.publisher();
                spawn(move || u64::from(publisher.try_publish(Payload::new(number)).is_ok()))
            })
            .collect();
        let report = bus.shutdown();
        let accepted: u64 = publishing.into_iter().map(|publishing| publishing.join().unwrap()).sum();
        assert_eq!((report.complete, report.bus.accepted), (true, accepted));
    });
}

/// The bus is closed while a publisher is waiting for capacity. Closing the bus releases the
/// publisher, and each of the publisher's events is either delivered or returned.
fn close_releases_a_publisher_that_waits_for_capacity() {
    explore(Exploration::default().after_set_up().first(30_000), || {
        let bus = bus(1, 1, OverflowPolicy::Wait);
        let mut watcher = bus.watch().unwrap();
        let publisher = bus.publisher();
        rest(&bus);
        begin();
        let publishing = spawn(move || {
            let events = [publisher.publish(Payload::new(1)), publisher.publish(Payload::new(2))];
            events.iter().filter(|result| result.is_ok()).count()
        });
        bus.close();
        let (events, lost) = numbers(&mut watcher);
        let accepted = publishing.join().unwrap();
        assert_eq!((events.len(), lost), (accepted, 0));
        assert!(bus.shutdown().complete);
    });
}

/// A buffered publisher is dropped while the bus is being closed. The events in the buffer are
/// either delivered or counted as refused.
fn a_buffered_drop_against_close() {
    explore(Exploration::default().after_set_up().first(30_000), || {
        let bus = bus(2, 2, OverflowPolicy::DropIncoming);
        let mut watcher = bus.watch().unwrap();
        let mut buffered = bus.publisher().buffered(4);
        for number in [1, 2] {
            buffered.publish(Payload::new(number)).unwrap();
        }
        rest(&bus);
        begin();
        let dropping = spawn(move || drop(buffered));
        bus.close();
        let (events, lost) = numbers(&mut watcher);
        dropping.join().unwrap();
        let report = bus.shutdown();
        assert!(report.complete);
        assert!((events.is_empty() || events == [1, 2]) && lost == 0);
        let delivered = events.len() as u64;
        assert_eq!((report.bus.accepted, report.bus.rejected_closed), (delivered, 2 - delivered));
    });
}

/// Two shutdowns race. Both shutdowns return the same report.
fn two_shutdowns_agree() {
    explore(Exploration::default().after_set_up().first(30_000), || {
        let bus = bus(1, 1, OverflowPolicy::DropIncoming);
        rest(&bus);
        begin();
        bus.publisher().try_publish(Payload::new(1)).unwrap();
        let other = bus.clone();
        let shutdown = spawn(move || other.shutdown());
        let report = bus.shutdown();
        assert_eq!(shutdown.join().unwrap(), report);
        assert!(report.complete);
        assert_eq!(report.bus.accepted, 1);
    });
}

/// A shutdown with a deadline races with a dispatcher that waits for a watcher without a reader.
/// The dispatcher ends, and every event is queued or counted as abandoned.
fn abandon_releases_the_dispatcher() {
    explore(Exploration::default().after_set_up().first(30_000), || {
        let bus = bus(3, 1, OverflowPolicy::Wait);
        let mut stuck = bus.watch().unwrap();
        rest(&bus);
        begin();
        bus.publisher().try_publish_batch(vec![Payload::new(1), Payload::new(2)]).unwrap();
        // Time does not advance in the model, but a timeout of zero has already expired.
        assert!(!bus.shutdown_timeout(Duration::ZERO).complete);
        let (events, lost) = numbers(&mut stuck);
        assert_eq!(events.len() as u64 + lost, 2);
        let stats = stuck.stats();
        assert_eq!((stats.delivered, stats.dropped.abandoned), (events.len() as u64, lost));
    });
}

/// A flush races with the delivery of an event to a handler. When the flush returns, the handler
/// has handled every event that was accepted before the flush.
fn flush_waits_for_the_handler() {
    explore(Exploration::default().after_set_up().first(30_000), || {
        let bus = bus(2, 2, OverflowPolicy::DropIncoming);
        let handle = bus.watch_builder().spawn(|_| ()).unwrap();
        rest(&bus);
        begin();
        bus.publisher().try_publish(Payload::new(1)).unwrap();
        assert_eq!(bus.flush(Duration::from_secs(1)), Ok(()));
        assert_eq!(handle.stats().delivered, 1);
    });
}

/// A flush races with a shutdown. The flush never hangs, and never reports handled events as
/// unhandled.
fn flush_against_shutdown() {
    explore(Exploration::default().after_set_up().first(30_000), || {
        let bus = bus(2, 2, OverflowPolicy::DropIncoming);
        rest(&bus);
        begin();
        bus.publisher().try_publish(Payload::new(1)).unwrap();
        let other = bus.clone();
        let flushing = spawn(move || {
            assert_eq!(other.flush(Duration::from_secs(1)), Ok::<(), FlushError>(()));
            assert_eq!(other.stats().accepted, 1);
        });
        let ending = spawn(move || bus.shutdown());
        flushing.join().unwrap();
        assert!(ending.join().unwrap().complete);
    });
}

/// A task waits for a flush while another thread publishes. The dispatcher wakes the task when the
/// flush is complete.
fn an_awaited_flush_against_a_publish() {
    explore(Exploration::default().after_set_up().first(30_000), || {
        let bus = bus(2, 2, OverflowPolicy::DropIncoming);
        let (flushed, publisher) = (bus.clone(), bus.publisher());
        rest(&bus);
        begin();
        let flushing = spawn(move || block_on(flushed.flush_async(Duration::from_secs(1))));
        let publishing = spawn(move || publisher.try_publish(Payload::new(1)).unwrap());
        assert_eq!(flushing.join().unwrap(), Ok(()));
        publishing.join().unwrap();
    });
}

/// A flush races with a publish call on a bus without watchers. The dispatcher wakes the flushing
/// thread, or the thread finds the flush complete.
fn a_flush_against_a_publish() {
    explore(Exploration::default().after_set_up().first(30_000), || {
        let bus = bus(2, 1, OverflowPolicy::DropIncoming);
        let (flushed, publisher) = (bus.clone(), bus.publisher());
        rest(&bus);
        begin();
        let flushing = spawn(move || flushed.flush(Duration::from_secs(1)));
        let publishing = spawn(move || publisher.try_publish(Payload::new(1)).unwrap());
        assert_eq!(flushing.join().unwrap(), Ok::<(), FlushError>(()));
        publishing.join().unwrap();
    });
}

/// A thread waits for the end of a handler that was stopped before it ever ran, while another
/// thread drops the handler. The waiting thread then sees the final counters.
fn join_against_a_drop() {
    explore(Exploration::default().after_set_up().first(30_000), || {
        let bus = bus(3, 1, OverflowPolicy::DropIncoming);
        let runner = bus.watch_builder().runner(|_| ()).unwrap();
        let mut behind = bus.watch().unwrap();
        rest(&bus);
        begin();
        bus.publisher().try_publish(Payload::new(1)).unwrap();
        // The runner was registered first, so the dispatcher has also offered the event to the
        // runner.
        assert!(behind.recv().is_ok());
        let handle = runner.handle();
        handle.stop();
        let dropping = spawn(move || drop(runner));
        let joining = spawn(move || {
            assert!(handle.join(Duration::from_secs(1)));
            assert_eq!(handle.stats().dropped.stopped, 1);
        });
        dropping.join().unwrap();
        joining.join().unwrap();
    });
}

/// A thread waits for a handler to end while another thread stops the handler. The waiting thread
/// then sees the effects of the handler's last actions.
fn join_against_the_end_of_a_handler() {
    explore(Exploration::default().after_set_up().first(30_000), || {
        /// Sets a flag when the handler is dropped. The flag is set with a relaxed store, so the
        /// bus has to publish the store.
        struct Deed(loom::sync::Arc<AtomicBool>);
        impl Drop for Deed {
            fn drop(&mut self) {
                self.0.store(true, Ordering::Relaxed);
            }
        }
        let bus = bus(1, 1, OverflowPolicy::DropIncoming);
        let done = loom::sync::Arc::new(AtomicBool::new(false));
        let deed = Deed(done.clone());
        let runner = bus
            .watch_builder()
            .runner(move |_| {
                let _ = &deed;
            })
            .unwrap();
        let handle = runner.handle();
        rest(&bus);
        begin();
        let running = spawn(move || runner.run());
        let stopped = handle.clone();
        let stopping = spawn(move || stopped.stop());
        assert!(handle.join(Duration::from_secs(1)));
        assert!(done.load(Ordering::Relaxed));
        stopping.join().unwrap();
        running.join().unwrap();
    });
}

models! {
    publish_against_shutdown,
    two_publishers_against_close,
    two_publishers_and_a_shutdown,
    close_releases_a_publisher_that_waits_for_capacity,
    a_buffered_drop_against_close,
    two_shutdowns_agree,
    abandon_releases_the_dispatcher,
    flush_waits_for_the_handler,
    flush_against_shutdown,
    an_awaited_flush_against_a_publish,
    a_flush_against_a_publish,
    join_against_a_drop,
    join_against_the_end_of_a_handler,
}
