//! Watchers that have ended are reaped: the dispatcher drops their closures and their events while
//! the bus continues to run.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};

use eventcast::BusOptions;
use eventcast::{Broadcaster, Delivery};

use crate::support::{LONG, until};

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
