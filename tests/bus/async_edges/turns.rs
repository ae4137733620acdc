//! Turns of tasks that wait for space in the incoming queue, while user code keeps the dispatcher
//! busy, so that the dispatcher cannot pass a turn on itself.

use std::sync::mpsc;
use std::task::Poll;

use eventcast::{Broadcaster, BusOptions, Watcher};

use crate::support::LONG;

use super::Ear;

/// A bus with an incoming queue of one entry, whose dispatcher stops in a filter at each event.
struct Busy {
    bus: Broadcaster<u64>,
    entered: mpsc::Receiver<u64>,
    go: mpsc::Sender<()>,
    _watcher: Watcher<u64>,
}

impl Busy {
    /// Returns a bus whose dispatcher is at the event 1. The event 2 fills the incoming queue.
    fn new() -> Self {
        let options = BusOptions::default().incoming_len(1).queue_len(8).max_batch(1);
        let bus = Broadcaster::with_options(options).unwrap();
        let ((entered_tx, entered), (go, gate)) = (mpsc::channel(), mpsc::channel::<()>());
        let stop = move |event: &u64| {
            let _ = entered_tx.send(*event);
            let _ = gate.recv();
            true
        };
        let watcher = bus.watch_builder().filter(stop).watch().unwrap();
        let busy = Self { bus, entered, go, _watcher: watcher };
        busy.bus.publisher().publish(1).unwrap();
        busy.wait_for(1);
        busy.bus.publisher().publish(2).unwrap();
        busy
    }

    /// Waits until the dispatcher is at this event.
    fn wait_for(&self, event: u64) {
        assert_eq!(self.entered.recv_timeout(LONG), Ok(event));
    }

    fn let_one_pass(&self) {
        self.go.send(()).unwrap();
    }
}

/// A task that has got a turn and is dropped passes the turn on to the next task.
#[test]
fn the_turn_of_a_dropped_task_goes_to_the_next() {
    let busy = Busy::new();
    let publisher = busy.bus.publisher();
    let (first, second) = (Ear::new(), Ear::new());
    let mut dropped = Box::pin(publisher.publish_async(3));
    let mut waiting = Box::pin(publisher.publish_async(4));
    assert!(first.poll(dropped.as_mut()).is_pending());
    assert!(second.poll(waiting.as_mut()).is_pending());
    busy.let_one_pass();
    first.wait();
    busy.wait_for(2);
    assert_eq!(second.rings(), 0);
    drop(dropped);
    second.wait();
    assert_eq!(second.poll(waiting.as_mut()), Poll::Ready(Ok(())));
    drop(busy.go);
    assert!(busy.bus.shutdown().complete);
}

/// A task that has got a turn keeps its place if another publisher was faster, and gets the next
/// turn too.
#[test]
fn a_task_whose_room_another_publisher_took_keeps_its_place() {
    let busy = Busy::new();
    let publisher = busy.bus.publisher();
    let (first, second) = (Ear::new(), Ear::new());
    let mut waiting = [3, 4].map(|event| Box::pin(publisher.publish_async(event)));
    assert!(first.poll(waiting[0].as_mut()).is_pending());
    assert!(second.poll(waiting[1].as_mut()).is_pending());
    busy.let_one_pass();
    first.wait();
    busy.wait_for(2);
    publisher.try_publish(5).unwrap();
    assert!(first.poll(waiting[0].as_mut()).is_pending());
    busy.let_one_pass();
    first.wait();
    busy.wait_for(5);
    assert_eq!(second.rings(), 0, "the task that came later has got the turn");
    assert_eq!(first.poll(waiting[0].as_mut()), Poll::Ready(Ok(())));
    drop((waiting, busy.go));
    assert!(busy.bus.shutdown().complete);
}
