//! Dropped futures, and other uses of futures.

use std::pin::pin;
use std::task::Poll;
use std::thread;

use eventcast::Delivery::{Event, Lagged};
use eventcast::{Delivery, Watcher};
use futures::executor::block_on;
use futures::{Stream, StreamExt};

use crate::support::{Ear, LONG, bus, bus_with, on_both, waits};

/// A receive future that is dropped has not taken any event, and does not keep its task alive.
#[test]
fn a_receive_that_is_dropped_has_taken_nothing() {
    on_both(|options| {
        let bus = bus_with(options.queue_capacity(2));
        let mut watcher = bus.watch().unwrap();
        let ear = Ear::new();
        {
            let mut receiving = pin!(watcher.recv_async());
            assert_eq!(ear.poll(receiving.as_mut()), Poll::Pending);
            bus.publisher().publish_batch(vec![1, 2, 3]).unwrap();
            ear.wait();
        }
        drop(watcher.recv_async());
        assert_eq!(watcher.recv(), Ok(Event(1)));
        assert_eq!(watcher.recv(), Ok(Event(2)));
        {
            let mut receiving = pin!(watcher.recv_async());
            assert_eq!(ear.poll(receiving.as_mut()), Poll::Ready(Ok(Lagged(1))));
        }
        let other = Ear::new();
        {
            let mut receiving = pin!(watcher.recv_async());
            assert_eq!(other.poll(receiving.as_mut()), Poll::Pending);
            assert!(other.is_held());
        }
        assert!(!other.is_held(), "the task is freed");
        bus.publisher().publish(4).unwrap();
        bus.flush(LONG).unwrap();
        assert_eq!(other.rings(), 0);
        assert_eq!(watcher.try_recv(), Ok(Event(4)));
    });
}

/// A thread and a task may take turns using one watcher.
#[test]
fn waiting_as_a_thread_and_as_a_task_can_alternate() {
    on_both(|options| {
        let bus = bus_with(options);
        let mut watcher = bus.watch().unwrap();
        for round in 0..200 {
            let ear = Ear::new();
            if round % 2 == 0 {
                assert_eq!(ear.poll_next(&mut watcher), Poll::Pending);
            }
            let publisher = bus.publisher();
            let publishing = thread::spawn(move || publisher.publish(round).unwrap());
            if round % 4 < 2 {
                assert_eq!(watcher.recv(), Ok(Event(round)));
            } else {
                assert_eq!(block_on(watcher.next()), Some(Event(round)));
            }
            publishing.join().unwrap();
        }
    });
}

/// A shutdown continues after its future is dropped, and does not abandon any events.
#[test]
fn a_shutdown_that_is_dropped_still_closes() {
    let bus = bus::<u64>(4, 1);
    let mut watcher = waits(&bus, 1).watch().unwrap();
    bus.publisher().publish_batch(vec![1, 2, 3]).unwrap();
    drop(bus.shutdown_async(LONG));
    bus.publisher().publish(4).unwrap();
    let ear = Ear::new();
    assert!(ear.poll(pin!(bus.shutdown_async(LONG))).is_pending());
    assert!(bus.publisher().publish(5).unwrap_err().is_closed());
    assert_eq!(watcher.events().collect::<Vec<_>>(), [1, 2, 3, 4]);
    assert!(bus.shutdown().complete);
}

/// Every future is `Send`, and a watcher can be moved while it is used as a stream.
#[test]
fn futures_are_send() {
    fn send<F: Future + Send>(future: F) -> F {
        future
    }
    fn stream<S: Stream<Item = Delivery<u64>> + Send + Unpin>(_: &S) {}
    let bus = bus::<u64>(4, 4);
    let mut watcher: Watcher<u64> = bus.watch().unwrap();
    stream(&watcher);
    block_on(send(bus.publisher().publish_async(1))).unwrap();
    block_on(send(bus.publisher().ready())).unwrap();
    assert_eq!(block_on(send(watcher.recv_async())), Ok(Event(1)));
    block_on(send(bus.flush_async(LONG))).unwrap();
    let runner = bus.watch_builder().runner(|_| ()).unwrap();
    bus.close();
    block_on(send(runner));
    assert!(block_on(send(bus.shutdown_async(LONG))).complete);
}
