//! Models of the wakers of waiting tasks, and of threads that wait in a `Select`.

use eventcast::error::{PublishError, TryRecvError};
use eventcast::testing::{Exploration, Payload, Select, begin, rest};
use eventcast::{Delivery, OverflowPolicy};
use eventcast_loom_tests::{bus, explore, numbers, spawn};
use loom::future::block_on;

/// A task begins to wait while another thread publishes an event. Either the dispatcher wakes the
/// task, or the task finds the event.
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

/// A task begins to wait while another thread stops its watcher. The task stops waiting.
fn a_receiving_task_against_stop() {
    explore(Exploration::default().after_set_up().first(30_000), || {
        let bus = bus(1, 1, OverflowPolicy::DropIncoming);
        let mut watcher = bus.watch().unwrap();
        let stop = watcher.handle();
        rest(&bus);
        begin();
        let stopping = spawn(move || stop.stop());
        assert!(block_on(watcher.recv_async()).is_err());
        stopping.join().unwrap();
    });
}

/// A task waits for the only slot in the incoming queue while the dispatcher empties the queue.
/// Either the dispatcher wakes the task, or the task finds the slot free.
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

/// The bus is closed while a task is waiting for capacity. Closing the bus releases the task, and
/// the task's event is delivered or returned.
fn a_publishing_task_against_close() {
    explore(Exploration::default().after_set_up().first(30_000), || {
        let bus = bus(1, 1, OverflowPolicy::DropIncoming);
        let mut watcher = bus.watch().unwrap();
        let publisher = bus.publisher();
        rest(&bus);
        begin();
        let publishing = spawn(move || match block_on(publisher.publish_async(Payload::new(1))) {
            Ok(()) => 1,
            Err(PublishError::Closed(event)) => {
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

/// An awaited handler races with the end of the bus. The handler yields to other tasks before it
/// has finished, but still handles every accepted event. The shutdown waits for the handler.
fn an_awaited_handler_against_shutdown() {
    explore(Exploration::default().after_set_up().first(30_000), || {
        let bus = bus(2, 3, OverflowPolicy::DropIncoming);
        let runner = bus.watch_builder().runner(|_| ()).unwrap();
        rest(&bus);
        begin();
        let handle = runner.handle();
        bus.publisher().try_publish_batch((0..3).map(Payload::new)).unwrap();
        let running = spawn(move || block_on(runner));
        assert!(bus.shutdown().complete);
        assert_eq!(handle.stats().delivered, 3);
        running.join().unwrap();
    });
}

/// A thread waits for two watchers in one `Select`. A second thread stops one watcher, and a third
/// thread publishes an event for the other watcher. The waiting thread notices both the stop and
/// the event.
fn a_select_of_two_watchers() {
    explore(Exploration::default().after_set_up().first(30_000), || {
        let bus = bus(1, 1, OverflowPolicy::DropIncoming);
        let (mut stopped, mut open) = (bus.watch().unwrap(), bus.watch().unwrap());
        let (publisher, stop) = (bus.publisher(), stopped.handle());
        rest(&bus);
        begin();
        let stopping = spawn(move || stop.stop());
        let publishing = spawn(move || publisher.try_publish(Payload::new(1)).unwrap());
        let (mut is_stopped, mut is_found) = (false, false);
        while !(is_stopped && is_found) {
            let mut select = Select::new();
            // A watcher that has ended is always ready.
            let first = (!is_stopped).then(|| stopped.add_to(&mut select));
            open.add_to(&mut select);
            if Some(select.ready()) == first {
                is_stopped = matches!(stopped.try_recv(), Err(TryRecvError::Ended));
            } else {
                is_found |= open.try_recv().is_ok();
            }
        }
        stopping.join().unwrap();
        publishing.join().unwrap();
    });
}

/// A thread waits in a `Select` after borrowing an event, and the dispatcher waits for that event's
/// slot. The thread is woken, returns the slot, and finds the next event.
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
                Ok(Delivery::Lagged(_)) | Err(TryRecvError::Ended) => {
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
