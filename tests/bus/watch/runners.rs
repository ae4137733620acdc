//! Runners: handlers that the program runs on its own thread or as a task.

use std::sync::mpsc;
use std::thread;

use eventcast::Delivery;
use eventcast::Delivery::{Event, Lagged};
use futures::executor::block_on;
use futures::future::join;

use crate::support::{LONG, bus_with, copied, on_both, waits};

/// A runner on a thread that the program started itself handles all events on that thread.
#[test]
fn a_runner_handles_everything_on_its_own_thread() {
    on_both(|options| {
        let bus = bus_with(options);
        let (handled_tx, handled) = mpsc::channel();
        let handler = move |delivery: Delivery<&u64>| {
            handled_tx.send((*delivery.event().unwrap(), thread::current().id())).unwrap();
        };
        let runner = bus.watch_builder().runner(handler).unwrap();
        let thread = thread::spawn(|| {
            runner.run();
            thread::current().id()
        });
        (1..=10).for_each(|event| bus.publisher().publish(event).unwrap());
        assert_eq!(bus.flush(LONG), Ok(()));
        assert_eq!(handled.try_iter().map(|(event, _)| event).sum::<u64>(), 55);
        bus.publisher().publish(11).unwrap();
        assert!(bus.shutdown().complete);
        let id = thread.join().unwrap();
        assert_eq!(handled.into_iter().collect::<Vec<_>>(), [(11, id)]);
    });
}

/// If a runner is awaited on the publishing thread, it takes turns with the publisher, even with a
/// queue of one event.
#[test]
fn a_runner_is_awaited_beside_its_publisher() {
    on_both(|options| {
        let bus = bus_with(options);
        let (handled_tx, handled) = mpsc::channel();
        let handler = move |delivery: Delivery<&u64>| handled_tx.send(*delivery.event().unwrap()).unwrap();
        let runner = waits(&bus, 1).runner(handler).unwrap();
        let publishing = async {
            for event in 0..500 {
                bus.publisher().publish_async(event).await.unwrap();
            }
            bus.shutdown_async(LONG).await
        };
        let (report, ()) = block_on(join(publishing, runner));
        assert!(report.complete, "{report}");
        assert!(handled.into_iter().eq(0..500));
    });
}

/// If a runner is run after the close, it handles the queued events, and receives a loss as an
/// item.
#[test]
fn a_runner_can_be_run_after_the_close() {
    on_both(|options| {
        let bus = bus_with(options.queue_capacity(2));
        let (tx, rx) = mpsc::channel();
        let runner = bus.watch_builder().runner(move |delivery| tx.send(copied(delivery)).unwrap()).unwrap();
        bus.publisher().publish_batch([1, 2, 3]).unwrap();
        bus.close();
        runner.run();
        assert_eq!(rx.into_iter().collect::<Vec<_>>(), [Event(1), Event(2), Lagged(1)]);
        assert!(bus.shutdown().complete);
    });
}
