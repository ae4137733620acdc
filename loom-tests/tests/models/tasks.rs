//! Tasks that wait: the wakers of receiving and of publishing.

use eventcast::testing::{Exploration, Payload, begin, rest};
use eventcast::{Delivery, OverflowPolicy, PublishError};
use eventcast_loom_tests::{bus, explore, numbers, spawn};
use loom::future::block_on;

/// A task begins to wait while an event is published: it is woken, or finds the event.
fn a_receiving_task_against_publish() {
    explore(Exploration::default().after_set_up().first(30_000), || {
        let bus = bus(2, 1, OverflowPolicy::DropIncoming);
        let mut watcher = bus.watch().unwrap();
        let publisher = bus.publisher();
        rest(&bus);
        begin();
        let publishing = spawn(move || publisher.try_publish(Payload::new(1)).unwrap());
        let received = block_on(watcher.recv_async());
        assert!(matches!(received, Ok(Delivery::Event(event)) if event.number() == 1));
        publishing.join().unwrap();
    });
}

/// A task begins to wait while its watcher is stopped by another thread: it comes to its end.
fn a_receiving_task_against_stop() {
    explore(Exploration::default().after_set_up().first(30_000), || {
        let bus = bus(1, 1, OverflowPolicy::DropIncoming);
        let mut watcher = bus.watch().unwrap();
        let stop = watcher.stop_handle();
        rest(&bus);
        begin();
        let stopping = spawn(move || stop.stop());
        assert!(block_on(watcher.recv_async()).is_err());
        stopping.join().unwrap();
    });
}

/// A task waits for the one place in the incoming queue while the dispatcher empties it: it is woken, or finds room.
fn a_publishing_task_against_the_dispatcher() {
    explore(Exploration::default().after_set_up().first(30_000), || {
        let bus = bus(1, 1, OverflowPolicy::DropIncoming);
        rest(&bus);
        begin();
        bus.publisher().try_publish(Payload::new(0)).unwrap();
        let publisher = bus.publisher();
        let publishing = spawn(move || block_on(publisher.publish_async(Payload::new(1))).unwrap());
        publishing.join().unwrap();
    });
}

/// A task that waits for room races with a close: it is released, and its event delivered or handed back.
fn a_publishing_task_against_close() {
    explore(Exploration::default().after_set_up().first(30_000), || {
        let bus = bus(1, 1, OverflowPolicy::DropIncoming);
        let mut watcher = bus.watch().unwrap();
        let publisher = bus.publisher();
        rest(&bus);
        begin();
        let publishing = spawn(move || match block_on(publisher.publish_async(Payload::new(1))) {
            Ok(()) => 1,
            Err(PublishError::Stopped(event)) => {
                assert_eq!(event.number(), 1);
                0
            }
            Err(error) => panic!("{error}"),
        });
        bus.close();
        let accepted = publishing.join().unwrap();
        let (events, lost) = numbers(&mut watcher);
        assert_eq!((events.len() as u64 + lost, lost), (accepted, 0));
    });
}

/// A handler that is awaited races with the end of the bus: it handles what was accepted, though it lets others run before
/// it is through, and the shutdown waits for it.
fn an_awaited_handler_against_shutdown() {
    explore(Exploration::default().after_set_up().first(30_000), || {
        let bus = bus(2, 3, OverflowPolicy::DropIncoming);
        let runner = bus.watch_builder().runner(|_| ()).unwrap();
        rest(&bus);
        begin();
        let handle = runner.handle();
        bus.publisher().try_publish_batch((0..3).map(Payload::new).collect()).unwrap();
        let running = spawn(move || block_on(runner));
        assert!(bus.shutdown().complete);
        assert_eq!(handle.stats().delivered, 3);
        running.join().unwrap();
    });
}

models! {
    a_receiving_task_against_publish,
    a_receiving_task_against_stop,
    a_publishing_task_against_the_dispatcher,
    a_publishing_task_against_close,
    an_awaited_handler_against_shutdown,
}
