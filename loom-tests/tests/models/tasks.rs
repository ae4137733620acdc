//! Tasks that wait, and threads that wait in a `Select`: their wakers.

use eventcast::testing::{Exploration, Payload, Select, begin, rest};
use eventcast::{Delivery, OverflowPolicy, PublishError, TryRecvError};
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

/// A thread waits in one `Select` for two watchers. One is stopped and the other gets an event: the thread finds both.
fn a_select_of_two_watchers() {
    explore(Exploration::default().after_set_up().first(30_000), || {
        let bus = bus(1, 1, OverflowPolicy::DropIncoming);
        let (mut stopped, mut open) = (bus.watch().unwrap(), bus.watch().unwrap());
        let (publisher, stop) = (bus.publisher(), stopped.stop_handle());
        rest(&bus);
        begin();
        let stopping = spawn(move || stop.stop());
        let publishing = spawn(move || publisher.try_publish(Payload::new(1)).unwrap());
        let (mut is_stopped, mut is_found) = (false, false);
        while !(is_stopped && is_found) {
            let mut select = Select::new();
            // One that has ended is ready for ever.
            let first = (!is_stopped).then(|| stopped.add_to(&mut select));
            open.add_to(&mut select);
            if Some(select.ready()) == first {
                is_stopped = matches!(stopped.try_recv(), Err(TryRecvError::Stopped));
            } else {
                is_found |= open.try_recv().is_ok();
            }
        }
        stopping.join().unwrap();
        publishing.join().unwrap();
    });
}

/// A thread waits in a `Select` while its last event is lent, and the dispatcher waits for that event's place: the thread
/// is woken, gives the place back, and finds the next event.
fn a_select_with_an_event_that_is_lent() {
    explore(Exploration::default().after_set_up().first(30_000), || {
        let bus = bus(1, 1, OverflowPolicy::Wait);
        let mut watcher = bus.watch().unwrap();
        let publisher = bus.publisher();
        rest(&bus);
        publisher.try_publish(Payload::new(0)).unwrap();
        rest(&bus);
        assert!(watcher.recv_ref().is_ok());
        begin();
        let publishing = spawn(move || publisher.try_publish(Payload::new(1)).unwrap());
        loop {
            let mut select = Select::new();
            watcher.add_to(&mut select);
            select.ready();
            match watcher.try_recv() {
                Ok(Delivery::Event(event)) => break assert_eq!(event.number(), 1),
                Ok(Delivery::Lagged(_)) | Err(TryRecvError::Stopped) => {
                    panic!("nothing is lost, and nothing ends")
                }
                Err(TryRecvError::Empty) => {}
            }
        }
        publishing.join().unwrap();
    });
}

models! {
    a_receiving_task_against_publish,
    a_receiving_task_against_stop,
    a_publishing_task_against_the_dispatcher,
    a_publishing_task_against_close,
    an_awaited_handler_against_shutdown,
    a_select_of_two_watchers,
    a_select_with_an_event_that_is_lent,
}
