//! Watchers that have ended are reaped: the dispatcher drops their closures and their events while
//! the bus continues to run, even while it is blocked by another watcher.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};

use eventcast::OverflowPolicy::Wait;
use eventcast::{Broadcaster, BusOptions, Delivery};

use crate::support::{LONG, assert_balanced, bus, drain, events, hold, until};

/// Returns a value to be owned by a closure, and a receiver that is disconnected once the closure
/// has been dropped.
fn owned_by_a_closure() -> (mpsc::Sender<()>, mpsc::Receiver<()>) {
    mpsc::channel()
}

/// A watcher whose filter has panicked is reaped before it is dropped.
#[test]
fn a_watcher_whose_filter_panicked_is_reaped() {
    let bus = Broadcaster::<u64>::new().unwrap();
    let ((in_filter, filter_gone), (in_hook, hook_gone)) = (owned_by_a_closure(), owned_by_a_closure());
    let mut broken = bus
        .watch_builder()
        .filter(move |event| {
            let _ = &in_filter;
            assert!(*event != 7, "seven");
            true
        })
        .on_drop(move |_, _| {
            let _ = &in_hook;
        })
        .watch()
        .unwrap();
    bus.publisher().publish(1).unwrap();
    bus.flush(LONG).unwrap();
    bus.publisher().publish(7).unwrap();
    for gone in [filter_gone, hook_gone] {
        assert_eq!(gone.recv_timeout(LONG), Err(RecvTimeoutError::Disconnected));
    }
    assert_eq!(broken.events().collect::<Vec<_>>(), [1]);
    // The watcher departs when it is dropped, and the bus continues to run.
    drop(broken);
    until(|| bus.stats().watchers.is_empty());
    assert_eq!(bus.stats().departed.panics, 1);
    let mut other = bus.watch().unwrap();
    bus.publisher().publish(2).unwrap();
    assert_eq!(other.recv_timeout(LONG), Ok(Delivery::Event(2)));
}

/// The dispatcher reaps dropped watchers although the incoming queue is never empty: each event
/// that is offered publishes another one.
#[test]
fn dropped_watchers_are_reaped_on_a_busy_bus() {
    let bus = Broadcaster::<u64>::with_options(BusOptions::default().max_batch(1)).unwrap();
    let (is_busy, publisher) = (Arc::new(AtomicBool::new(true)), bus.publisher());
    let goes_on = is_busy.clone();
    // While the filter of the one watcher sees an event, the next one is in the queue.
    let busy = bus
        .watch_builder()
        .filter(move |event| {
            if goes_on.load(Ordering::SeqCst) {
                publisher.try_publish(event + 1).unwrap();
            }
            false
        })
        .watch()
        .unwrap();
    bus.publisher().publish(0).unwrap();
    until(|| bus.stats().accepted > 100);
    for _ in 0..10 {
        let (in_filter, gone) = owned_by_a_closure();
        let keep = move |_: &u64| {
            let _ = &in_filter;
            true
        };
        let watcher = bus.watch_builder().filter(keep).watch().unwrap();
        until(|| watcher.stats().offered > 0);
        drop(watcher);
        assert_eq!(gone.recv_timeout(LONG), Err(RecvTimeoutError::Disconnected));
    }
    until(|| bus.stats().watchers.len() == 1);
    is_busy.store(false, Ordering::SeqCst);
    assert!(bus.shutdown().complete);
    assert!(busy.stats().filtered > 100);
}

/// A dispatcher that is blocked by a full watcher drops what the closures of dropped watchers own,
/// such as the socket of a client that has disconnected. The full watcher loses nothing.
#[test]
fn dropped_watchers_are_reaped_beside_a_full_watcher() {
    const CLIENTS: usize = 82;
    let bus = bus::<u64>(1_000, 10);
    let socket = Arc::new(());
    let clients: Vec<_> = (0..CLIENTS)
        .map(|_| {
            let (in_filter, in_hook) = (socket.clone(), socket.clone());
            let builder = bus.watch_builder().filter(move |_| Arc::strong_count(&in_filter) > 0);
            builder.on_drop(move |_, _| drop(in_hook.clone())).watch().unwrap()
        })
        .collect();
    let mut held = hold(&bus);
    assert_eq!(Arc::strong_count(&socket), 2 * CLIENTS + 1);
    drop(clients);
    until(|| Arc::strong_count(&socket) == 1);
    until(|| bus.stats().departed.offered == 2 * CLIENTS as u64);
    // The watcher was full all the time.
    let stats = held.watcher.stats();
    assert_eq!((stats.queued, stats.lag), (1, 2), "{stats}");
    for event in [u64::MAX - 1, u64::MAX] {
        assert_eq!(held.watcher.recv_timeout(LONG), Ok(Delivery::Event(event)));
    }
}

/// Of four watchers that block the dispatcher, some are dropped. What was pending for them counts
/// as lost, and the others receive all of theirs, wherever the dispatcher keeps their queues now.
#[test]
fn of_several_full_watchers_the_dropped_ones_alone_lose_events() {
    for dropped in 0..1 << 4 {
        let bus = bus::<u64>(100, 1);
        let mut watchers = Vec::new();
        let mut gone = Vec::new();
        for number in 0..4 {
            let (in_filter, is_gone) = owned_by_a_closure();
            let builder = bus.watch_builder().overflow(Wait).filter(move |_| {
                let _ = &in_filter;
                true
            });
            watchers.push(Some(builder.watch().unwrap()));
            if dropped & 1 << number != 0 {
                gone.push((number, is_gone));
            }
        }
        bus.publisher().publish_batch([1, 2, 3]).unwrap();
        until(|| watchers.iter().flatten().all(|watcher| watcher.stats().lag == 3));
        for (number, is_gone) in gone {
            drop(watchers[number].take());
            assert_eq!(is_gone.recv_timeout(LONG), Err(RecvTimeoutError::Disconnected));
        }
        for watcher in watchers.iter_mut().flatten() {
            for event in 1..=3 {
                assert_eq!(watcher.recv_timeout(LONG), Ok(Delivery::Event(event)));
            }
        }
        let report = bus.shutdown();
        assert_balanced(&report.bus);
        let lost = 3 * u64::from(i32::count_ones(dropped));
        assert_eq!((report.bus.departed.offered, report.bus.departed.dropped.stopped), (lost, lost));
    }
}

/// A watcher that is stopped while it blocks the dispatcher, beside another full one, is reaped: it
/// ends, and what was pending for it counts as lost.
#[test]
fn a_full_watcher_that_is_stopped_ends_beside_another_full_one() {
    let bus = bus::<u64>(100, 1);
    let mut stopped = bus.watch_builder().overflow(Wait).watch().unwrap();
    let mut full = bus.watch_builder().overflow(Wait).watch().unwrap();
    bus.publisher().publish_batch([1, 2]).unwrap();
    until(|| full.stats().lag == 2 && stopped.stats().lag == 2);
    stopped.stop();
    until(|| stopped.stats().dropped.stopped == 1);
    assert_eq!(events(&drain(&mut stopped)), [1]);
    assert_eq!([0; 2].map(|_| full.recv_timeout(LONG)), [Ok(Delivery::Event(1)), Ok(Delivery::Event(2))]);
}
