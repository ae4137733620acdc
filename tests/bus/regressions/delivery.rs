//! Delivery, room and memory.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{self};
use std::thread;
use std::time::Duration;

use eventcast::{Broadcaster, BusOptions, Delivery, OverflowPolicy};

use crate::support::watched;

use super::{FOREVER, Live, Loaded, fake_clock};

/// A watcher is dropped while the dispatcher is between "has it stopped?" and "how much room does
/// it need?". Both ends empty the queue at once. The dispatcher's arithmetic must include the
/// events that the dispatcher itself took out. Otherwise it panics (in a build with overflow
/// checks), and the bus is dead.
#[test]
fn a_watcher_dropped_while_it_is_waited_for_leaves_the_bus_alone() {
    watched(|| {
        let clock = fake_clock();
        let bus = Broadcaster::with_clock(BusOptions::default(), clock.clock()).unwrap();
        let (hooked_tx, hooked_rx) = mpsc::channel::<()>();
        let (dropping_tx, dropping_rx) = mpsc::channel::<()>();
        let (release_tx, release_rx) = mpsc::channel::<()>();
        let waited =
            bus.watch_builder().name("a").queue_len(4).overflow(OverflowPolicy::Wait).watch().unwrap();
        let mut timed = bus
            .watch_builder()
            .name("b")
            .queue_len(1)
            .overflow(OverflowPolicy::WaitFor(Duration::from_secs(1)))
            .filter(|event: &Loaded| event.number >= 4)
            .on_drop(move |_, _| {
                // The dispatcher has looked at `a`, and now at `b`, whose time is up. Hold the
                // dispatcher here.
                hooked_tx.send(()).unwrap();
                dropping_rx.recv().unwrap();
            })
            .watch()
            .unwrap();
        let publisher = bus.publisher();
        let first = Loaded::with(1, move || {
            dropping_tx.send(()).unwrap();
            release_rx.recv().unwrap();
        });
        for event in [first, Loaded::plain(2), Loaded::plain(3), Loaded::plain(4)] {
            publisher.publish(event).unwrap();
            // Each event becomes a batch.
            bus.flush(FOREVER).unwrap();
        }
        publisher.publish(Loaded::plain(5)).unwrap();
        clock.wait_for_waiters(1);
        clock.advance(Duration::from_secs(1));
        hooked_rx.recv().unwrap();
        // `a` begins to empty its queue, and the first event's destructor holds it up. The
        // dispatcher empties the rest.
        let dropping = thread::spawn(move || drop(waited));
        let flushed = bus.flush(FOREVER);
        release_tx.send(()).unwrap();
        dropping.join().unwrap();
        flushed.unwrap();
        publisher.try_publish(Loaded::plain(6)).map_err(|e| e.to_string()).expect("the bus lives");
        assert!(matches!(timed.recv(), Ok(Delivery::Event(event)) if event.number == 4));
        let report = bus.shutdown();
        assert!(report.complete);
        assert_eq!(report.bus.accepted, 6);
    });
}

/// G6: while the bus runs, delivered + dropped never exceeds offered. No event can be received
/// before it is counted as offered.
#[test]
fn nothing_is_delivered_before_it_was_offered() {
    watched(|| {
        let bus = Broadcaster::new().unwrap();
        let (hooked_tx, hooked_rx) = mpsc::channel::<()>();
        let (go_tx, go_rx) = mpsc::channel::<()>();
        let mut watcher = bus
            .watch_builder()
            .queue_len(1)
            .on_drop(move |_, _| {
                hooked_tx.send(()).unwrap();
                go_rx.recv().unwrap();
            })
            .watch()
            .unwrap();
        bus.publisher().publish_batch(vec![1, 2]).unwrap();
        hooked_rx.recv().unwrap();
        let received = watcher.try_recv();
        let stats = watcher.stats();
        go_tx.send(()).unwrap();
        assert!(matches!(received, Ok(Delivery::Event(1)) | Err(_)));
        assert!(
            stats.delivered + stats.dropped.total() <= stats.offered,
            "delivered {} + dropped {} > offered {}",
            stats.delivered,
            stats.dropped.total(),
            stats.offered
        );
    });
}

/// A watcher whose wait has timed out loses the events that have found no room, not those that
/// there is room for.
#[test]
fn the_end_of_the_wait_fills_the_room_there_is() {
    watched(|| {
        let clock = fake_clock();
        let bus = Broadcaster::with_clock(BusOptions::default(), clock.clock()).unwrap();
        let policy = OverflowPolicy::WaitFor(Duration::from_secs(1));
        let mut watcher = bus.watch_builder().queue_len(8).overflow(policy).watch().unwrap();
        bus.publisher().publish_batch(0..8).unwrap();
        bus.flush(FOREVER).unwrap();
        bus.publisher().publish_batch(8..16).unwrap();
        clock.wait_for_waiters(1);
        for number in 0..3 {
            assert_eq!(watcher.recv(), Ok(Delivery::Event(number)));
        }
        clock.advance(Duration::from_secs(1));
        bus.flush(FOREVER).unwrap();
        // Three slots were free when time was up.
        assert_eq!(watcher.stats().dropped.timed_out, 5);
        assert_eq!(watcher.stats().queued, 8);
    });
}

/// The same for a shutdown by deadline.
#[test]
fn giving_up_fills_the_room_there_is() {
    watched(|| {
        let clock = fake_clock();
        let bus = Arc::new(Broadcaster::with_clock(BusOptions::default(), clock.clock()).unwrap());
        // The wait has an end only so that the clock shows when the dispatcher has begun it.
        let policy = OverflowPolicy::WaitFor(Duration::from_secs(3600));
        let mut watcher = bus.watch_builder().queue_len(8).overflow(policy).watch().unwrap();
        bus.publisher().publish_batch(0..16).unwrap();
        clock.wait_for_waiters(1);
        let closing = bus.clone();
        let shutdown = thread::spawn(move || closing.shutdown_timeout(Duration::from_secs(1)));
        clock.wait_for_waiters(2);
        // This is not enough room to wake the dispatcher.
        for number in 0..3 {
            assert_eq!(watcher.recv(), Ok(Delivery::Event(number)));
        }
        clock.advance(Duration::from_millis(950));
        let report = shutdown.join().unwrap();
        assert!(!report.complete);
        assert_eq!(report.bus.watchers[0].dropped.abandoned, 5);
        assert_eq!(report.bus.watchers[0].queued, 8);
    });
}

/// G5: one event in the queue does not keep the whole batch alive that it came with, even if the
/// rest of the batch was lost after a wait.
#[test]
fn a_queue_of_a_watcher_that_times_out_keeps_no_batches_alive() {
    watched(|| {
        const BATCH: u32 = 64;
        const QUEUE: usize = 16;
        let alive = Arc::new(AtomicUsize::new(0));
        let options = BusOptions::default().incoming_len(1).max_batch(BATCH as usize);
        let bus = Broadcaster::with_options(options).unwrap();
        let policy = OverflowPolicy::WaitFor(Duration::ZERO);
        let mut watcher = bus.watch_builder().queue_len(QUEUE).overflow(policy).watch().unwrap();
        for _ in 0..=QUEUE {
            bus.publisher().publish_batch(Live::batch(&alive, BATCH)).unwrap();
            bus.flush(FOREVER).unwrap();
            drop(watcher.recv().unwrap());
        }
        // The bound: incoming_len x max_batch + queue_len + the watcher's current batch + the
        // dispatcher's batch.
        let bound = BATCH as usize + QUEUE + 2 * BATCH as usize;
        let alive = alive.load(Ordering::SeqCst);
        assert!(alive <= bound, "{alive} events are alive, the bound is {bound}");
    });
}

/// G5: the dispatcher holds one batch, and one entry that did not fit into it.
#[test]
fn the_dispatcher_holds_two_batches_at_most() {
    watched(|| {
        const BATCH: u32 = 64;
        let alive = Arc::new(AtomicUsize::new(0));
        let options = BusOptions::default().incoming_len(2).max_batch(BATCH as usize);
        let bus = Broadcaster::with_options(options).unwrap();
        let (offered_tx, offered_rx) = mpsc::channel();
        let mut watcher = bus
            .watch_builder()
            .queue_len(1)
            .overflow(OverflowPolicy::Wait)
            // Keeps every event, and reports when a batch is offered.
            .filter(move |event: &Live| event.number > 0 || offered_tx.send(()).is_ok())
            .watch()
            .unwrap();
        let publisher = bus.publisher();
        // The dispatcher waits with the first batch while two more are published, which do not fit
        // into one batch.
        for count in [BATCH, BATCH - 1, BATCH] {
            publisher.publish_batch(Live::batch(&alive, count)).unwrap();
        }
        // The last event of the first batch stays in the queue.
        for _ in 1..BATCH {
            drop(watcher.recv().unwrap());
        }
        offered_rx.recv().unwrap();
        offered_rx.recv().unwrap();
        // The dispatcher waits with the second batch. The incoming queue is filled up again.
        while publisher.try_publish_batch(Live::batch(&alive, BATCH)).is_ok() {}
        let bound = 2 * BATCH as usize + 1 + 2 * BATCH as usize * (1 + 1);
        let alive = alive.load(Ordering::SeqCst);
        assert!(alive <= bound, "{alive} events are alive, the bound is {bound}");
    });
}

/// G5: the events that a filter has picked out, and those that the reader has not finished, are two
/// batches for each watcher together.
#[test]
fn filtered_watchers_hold_two_batches_each_at_most() {
    watched(|| {
        const BATCH: u32 = 64;
        const WATCHERS: usize = 8;
        let alive = Arc::new(AtomicUsize::new(0));
        let options = BusOptions::default().incoming_len(1).max_batch(BATCH as usize);
        let bus = Broadcaster::with_options(options).unwrap();
        let (offered_tx, offered_rx) = mpsc::channel();
        let mut watchers: Vec<_> = (0..WATCHERS)
            .map(|_| {
                let offered = offered_tx.clone();
                bus.watch_builder()
                    .queue_len(1)
                    .overflow(OverflowPolicy::Wait)
                    .filter(move |event: &Live| event.number > 0 || offered.send(()).is_err())
                    .watch()
                    .unwrap()
            })
            .collect();
        let publisher = bus.publisher();
        publisher.publish_batch(Live::batch(&alive, BATCH)).unwrap();
        publisher.publish_batch(Live::batch(&alive, BATCH)).unwrap();
        for watcher in &mut watchers {
            // All of the first batch except the last event, and except the event that the filter
            // refused.
            (0..BATCH - 2).for_each(|_| drop(watcher.recv().unwrap()));
        }
        // The second batch has come to the last watcher, so all other watchers have their part of
        // it.
        (0..2 * WATCHERS).for_each(|_| offered_rx.recv().unwrap());
        let bound = BATCH as usize + WATCHERS + 2 * BATCH as usize * (WATCHERS + 1);
        let alive = alive.load(Ordering::SeqCst);
        assert!(alive <= bound, "{alive} events are alive, the bound is {bound}");
    });
}

/// The high-water mark of a queue does not exceed the queue's length.
#[test]
fn high_water_stays_within_the_queue() {
    watched(|| {
        let bus = Broadcaster::new().unwrap();
        let watcher = bus.watch_builder().queue_len(4).overflow(OverflowPolicy::DropOldest).watch().unwrap();
        for _ in 0..2 {
            bus.publisher().publish_batch(vec![0; 4]).unwrap();
            bus.flush(FOREVER).unwrap();
        }
        assert_eq!(watcher.stats().high_water, 4);
    });
}
