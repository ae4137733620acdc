//! Publishers (both threads and tasks) that wait for capacity, and their turns. The publishers wait
//! either for the incoming queue while user code keeps the dispatcher busy, or for a full watcher
//! of an inline bus.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::task::Poll;
use std::thread;
use std::time::Duration;

use eventcast::error::PublishError;
use eventcast::testing::FakeClock;
use eventcast::{Broadcaster, BusOptions, Delivery, Watcher};
use futures::executor::block_on;

use crate::support::{
    Ear, LONG, Turnstile, assert_balanced, bus, bus_with, events, hold, on_both, publish_and_wait,
    stopping_filter, timed, waits, watched,
};

/// A full bus, whose capacity the test frees event by event.
struct Full {
    clock: FakeClock,
    bus: Broadcaster<u64>,
    watcher: Watcher<u64>,
    /// Set only for a bus with a dispatcher. The dispatcher stops in the watcher's filter.
    stops: Option<Turnstile<u64>>,
    /// The events that were read to free capacity.
    read: Vec<Delivery<u64>>,
}

impl Full {
    /// The dispatcher stops at event 1, and event 2 fills the incoming queue. On an inline bus,
    /// event 1 fills the queue of a `Wait` watcher.
    fn new(options: BusOptions) -> Self {
        let is_inline = options == BusOptions::default().inline(true);
        let (clock, bus) = timed(options.incoming_capacity(1).queue_capacity(8).max_batch(1));
        if is_inline {
            let watcher = waits(&bus, 1).watch().unwrap();
            bus.publisher().publish(1).unwrap();
            return Self { clock, bus, watcher, stops: None, read: Vec::new() };
        }
        let (turnstile, watcher) = stopping_filter(waits(&bus, 100));
        bus.publisher().publish(1).unwrap();
        turnstile.wait_for(1);
        bus.publisher().publish(2).unwrap();
        Self { clock, bus, watcher, stops: Some(turnstile), read: Vec::new() }
    }

    /// Frees the capacity for one event.
    fn free_one(&mut self) {
        if let Some(turnstile) = &self.stops {
            turnstile.let_one_pass();
            turnstile.entered.recv_timeout(LONG).unwrap();
        } else {
            self.read.push(self.watcher.recv_timeout(LONG).unwrap());
        }
    }

    /// Frees capacity for a thread. The dispatcher wakes the thread only when the dispatcher has
    /// time, so the watcher's filter no longer stops the dispatcher.
    fn free_for_a_thread(&mut self) {
        if self.stops.take().is_none() {
            self.free_one();
        }
    }

    /// Ends the bus, and returns the accepted events other than those that filled the bus.
    fn finish(mut self) -> Vec<u64> {
        drop(self.stops);
        self.bus.close();
        self.read.extend(&mut self.watcher);
        assert!(self.bus.shutdown().complete);
        assert_balanced(&self.bus.stats());
        events(&self.read).into_iter().filter(|event| *event > 2).collect()
    }
}

/// If a publish future is dropped before it is ready, its event is not published, and its turn
/// passes to the next task. A task that never had a turn leaves no trace.
#[test]
fn the_turn_of_a_dropped_task_passes_on() {
    on_both(|options| {
        let mut full = Full::new(options);
        let publisher = full.bus.publisher();
        let (first, second, third) = (Ear::new(), Ear::new(), Ear::new());
        let mut dropped = Box::pin(publisher.publish_async(3));
        let mut waiting = Box::pin(publisher.publish_async(4));
        let mut last = Box::pin(publisher.publish_async(5));
        assert!(first.poll(dropped.as_mut()).is_pending());
        assert!(second.poll(waiting.as_mut()).is_pending());
        assert!(third.poll(last.as_mut()).is_pending());
        drop(last);
        assert!(!third.is_held());
        full.free_one();
        first.wait();
        // An inline bus wakes all tasks for which there is capacity.
        assert!(full.stops.is_none() || second.rings() == 0);
        drop(dropped);
        second.wait();
        assert_eq!(second.poll(waiting.as_mut()), Poll::Ready(Ok(())));
        assert_eq!(
            (third.rings(), full.bus.stats().rejected_full),
            (0, 0),
            "waiting does not count as a refusal"
        );
        assert_eq!(full.finish(), [4]);
    });
}

/// If a task has a turn, but another publisher takes the capacity first, the task keeps its place
/// and also gets the next turn.
#[test]
fn a_task_whose_capacity_another_publisher_took_keeps_its_place() {
    watched(|| {
        let mut full = Full::new(BusOptions::default());
        let publisher = full.bus.publisher();
        let (first, second) = (Ear::new(), Ear::new());
        let mut waiting = [3, 4].map(|event| Box::pin(publisher.publish_async(event)));
        assert!(first.poll(waiting[0].as_mut()).is_pending());
        assert!(second.poll(waiting[1].as_mut()).is_pending());
        full.free_one();
        first.wait();
        publisher.try_publish(5).unwrap();
        assert!(first.poll(waiting[0].as_mut()).is_pending());
        full.free_one();
        first.wait();
        assert_eq!(second.rings(), 0, "the second task was woken before the first");
        assert_eq!(first.poll(waiting[0].as_mut()), Poll::Ready(Ok(())));
        drop(waiting);
        assert_eq!(full.finish(), [5, 3]);
    });
}

/// `ready` waits for capacity but does not take it, so another task that is waiting with an event
/// publishes too.
#[test]
fn ready_leaves_the_capacity_to_others() {
    on_both(|options| {
        let mut full = Full::new(options);
        let publisher = full.bus.publisher();
        let (asks, waits) = (Ear::new(), Ear::new());
        let mut ready = Box::pin(publisher.ready());
        let mut publishing = Box::pin(publisher.publish_async(3));
        assert!(asks.poll(ready.as_mut()).is_pending());
        assert!(waits.poll(publishing.as_mut()).is_pending());
        full.free_one();
        asks.wait();
        assert_eq!(asks.poll(ready.as_mut()), Poll::Ready(Ok(())));
        waits.wait();
        assert_eq!(waits.poll(publishing.as_mut()), Poll::Ready(Ok(())));
        full.free_one();
        assert_eq!(block_on(publisher.ready()), Ok(()));
        assert_eq!(publisher.try_publish(4), Ok(()));
        assert_eq!(full.finish(), [3, 4]);
    });
}

/// A turn is not a lock. If the tasks that have a turn are not polled, or are even leaked, the
/// tasks and threads behind them still get their turns.
#[test]
fn a_turn_that_is_not_taken_up_passes_to_the_next() {
    on_both(|options| {
        let Full { clock, bus, watcher, stops, .. } = Full::new(options);
        let publisher = bus.publisher();
        let ears = [Ear::new(), Ear::new(), Ear::new()];
        let mut waiting: Vec<_> = (3..6).map(|n| Box::pin(publisher.publish_async(n))).collect();
        for (ear, future) in ears.iter().zip(&mut waiting) {
            assert!(ear.poll(future.as_mut()).is_pending());
        }
        let thread = publish_and_wait(&clock, publisher.clone(), 6, 1);
        drop(stops);
        let reader =
            thread::spawn(move || watcher.into_iter().filter_map(Delivery::event).collect::<Vec<_>>());
        // The first two tasks are never polled again, and one of them is even leaked.
        std::mem::forget(waiting.remove(0));
        assert_eq!(thread.join().unwrap(), Ok(()));
        ears[2].wait();
        assert_eq!(ears[2].finish(waiting[1].as_mut()), Ok(()));
        drop(waiting);
        assert!(bus.shutdown().complete);
        let mut seen = reader.join().unwrap();
        seen.retain(|event| *event > 2);
        seen.sort_unstable();
        assert_eq!(seen, [5, 6]);
    });
}

/// A publish with a timeout returns its event when the timeout expires. If capacity becomes
/// available before that, the event is accepted.
#[test]
fn publish_timeout_runs_on_the_clock() {
    on_both(|options| {
        const SECOND: Duration = Duration::from_secs(1);
        let mut full = Full::new(options);
        let publisher = full.bus.publisher();
        assert_eq!(publisher.publish_timeout(3, Duration::ZERO), Err(PublishError::Full(3)));
        let waiting = thread::spawn(move || publisher.publish_timeout(4, SECOND));
        full.clock.wait_for_waiters(1);
        full.clock.advance(SECOND);
        assert_eq!(waiting.join().unwrap(), Err(PublishError::Full(4)));
        assert_eq!(full.bus.stats().rejected_full, 2);
        let waiting = publish_and_wait(&full.clock, full.bus.publisher(), 5, 1);
        full.free_for_a_thread();
        assert_eq!(waiting.join().unwrap(), Ok(()));
        assert_eq!(full.finish(), [5]);
    });
}

/// Closing the bus, or dropping its last handle, ends every wait for capacity. Each publish call
/// returns its event to the caller.
#[test]
fn the_end_releases_publishers_that_wait() {
    on_both(|options| {
        for drops in [false, true] {
            let Full { clock, bus, watcher, stops, .. } = Full::new(options.clone());
            let publisher = bus.publisher();
            let thread = publish_and_wait(&clock, publisher.clone(), 3, 1);
            let of_batch = publisher.clone();
            let batch = thread::spawn(move || of_batch.publish_batch([4]));
            let (publishes, asks) = (Ear::new(), Ear::new());
            let mut publishing = Box::pin(publisher.publish_async(5));
            let mut ready = Box::pin(publisher.ready());
            assert!(publishes.poll(publishing.as_mut()).is_pending());
            assert!(asks.poll(ready.as_mut()).is_pending());
            let kept = (!drops).then_some(bus);
            if let Some(bus) = &kept {
                bus.close();
            }
            assert_eq!(thread.join().unwrap(), Err(PublishError::Closed(3)), "drops: {drops}");
            assert_eq!(batch.join().unwrap(), Err(PublishError::Closed(vec![4])));
            assert_eq!(publishes.finish(publishing.as_mut()), Err(PublishError::Closed(5)));
            assert_eq!(asks.finish(ready.as_mut()), Err(PublishError::Closed(())));
            assert!(kept.is_none_or(|bus| bus.stats().rejected_closed == 3));
            drop((watcher, stops));
        }
    });
}

/// A turn is passed on even while the dispatcher itself waits for a watcher. There is capacity for
/// one entry, and the first task does not use that capacity.
#[test]
fn a_turn_passes_on_while_the_dispatcher_waits_for_a_watcher() {
    let bus = bus_with(BusOptions::default().incoming_capacity(2).queue_capacity(8).max_batch(1));
    let mut held = hold(&bus);
    let publisher = bus.publisher();
    publisher.publish(1).unwrap();
    publisher.publish(2).unwrap();
    let ears = [Ear::new(), Ear::new()];
    let mut waiting: Vec<_> = (3..5).map(|n| Box::pin(publisher.publish_async(n))).collect();
    for (ear, future) in ears.iter().zip(&mut waiting) {
        assert!(ear.poll(future.as_mut()).is_pending());
    }
    // This receive frees space for one entry, because the dispatcher takes an entry and waits
    // again.
    assert!(held.watcher.recv().is_ok());
    ears[1].wait();
    assert_eq!(ears[1].poll(waiting[1].as_mut()), Poll::Ready(Ok(())));
    drop(held);
    assert!(bus.shutdown().complete);
}

/// A waiting publisher is woken even while events keep the dispatcher from sleeping, and not only
/// before the dispatcher sleeps.
#[test]
fn a_busy_dispatcher_wakes_a_publisher_that_waits() {
    let bus = bus::<u8>(2, 8);
    let (entered_tx, entered) = mpsc::channel();
    let (go, gate) = mpsc::channel::<()>();
    let is_over = Arc::new(AtomicBool::new(false));
    // Each event of kind 1 publishes another event, so the incoming queue is never empty long
    // enough for the dispatcher to sleep.
    let (again, over) = (bus.publisher(), is_over.clone());
    let filter = move |event: &u8| {
        if *event == 0 {
            entered_tx.send(()).unwrap();
            gate.recv().unwrap();
        } else if *event == 1 && !over.load(Ordering::SeqCst) {
            again.try_publish(1).unwrap();
        }
        false
    };
    let _watcher = bus.watch_builder().filter(filter).watch().unwrap();
    bus.publisher().publish(0).unwrap();
    entered.recv_timeout(LONG).unwrap();
    // The dispatcher is running the filter while the incoming queue fills up.
    bus.publisher().try_publish(1).unwrap();
    bus.publisher().try_publish(2).unwrap();
    let (waiting, over) = (bus.publisher(), is_over.clone());
    let (done_tx, done) = mpsc::channel();
    thread::spawn(move || {
        let published = waiting.publish(3);
        over.store(true, Ordering::SeqCst);
        done_tx.send(published).unwrap();
    });
    // The yields usually give the publisher enough time to fall asleep. If the publisher is late,
    // it does not need to be woken.
    (0..10_000).for_each(|_| thread::yield_now());
    go.send(()).unwrap();
    let published = done.recv_timeout(LONG);
    is_over.store(true, Ordering::SeqCst);
    assert_eq!(published, Ok(Ok(())));
    assert!(bus.shutdown().complete);
}
