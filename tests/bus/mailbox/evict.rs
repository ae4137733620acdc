//! The `Evict` policy: a watcher that cannot keep up ends, and its reader sees the reason.

use std::sync::mpsc;

use eventcast::Delivery::{Event, Lagged};
use eventcast::OverflowPolicy::Evict;
use eventcast::bus::{EndReason, Start};
use eventcast::error::{RecvError, TryRecvError};
use eventcast::{Broadcaster, WatchBuilder};

use crate::support::{LONG, assert_balanced, bus, bus_with, drain, hold, on_both, stopping_handler};

fn evicting<T: Clone + Send + Sync + 'static>(bus: &Broadcaster<T>, queue: usize) -> WatchBuilder<'_, T> {
    bus.watch_builder().queue_capacity(queue).overflow(Evict)
}

/// The first event that does not fit ends the watcher. The watcher's reader still receives the
/// queued events, without a gap, and the other watcher continues.
#[test]
fn the_first_event_that_does_not_fit_ends_the_watcher() {
    on_both(|options| {
        let bus = bus_with(options);
        let (tx, lost) = mpsc::channel();
        let hook = move |_, events: &[u64]| tx.send(events.to_vec()).unwrap();
        let mut slow = evicting(&bus, 3).on_drop(hook).watch().unwrap();
        let mut other = bus.watch().unwrap();
        bus.publisher().publish_batch([1, 2]).unwrap();
        bus.publisher().publish_batch([3, 4, 5]).unwrap();
        bus.flush(LONG).unwrap();
        bus.publisher().publish(6).unwrap();
        bus.flush(LONG).unwrap();
        assert_eq!(slow.end_reason(), None, "the reader has not reached the end");
        assert_eq!(drain(&mut slow), [Event(1), Event(2), Event(3)]);
        assert_eq!(
            (slow.end_reason(), slow.try_recv()),
            (Some(EndReason::Evicted), Err(TryRecvError::Ended))
        );
        let stats = slow.stats();
        // The watcher ended before event 4. Later events were not offered to the watcher, so no
        // event was lost.
        assert_eq!((stats.offered, stats.delivered, stats.lag), (3, 3, 0));
        assert_eq!((stats.evictions, stats.dropped.total()), (1, 0));
        assert!(
            lost.recv_timeout(LONG).is_err(),
            "the hook must be dropped together with its sender, without being called"
        );
        bus.shutdown();
        assert_eq!(drain(&mut other), [1, 2, 3, 4, 5, 6].map(Event));
        assert_eq!(other.end_reason(), Some(EndReason::Closed));
        assert_balanced(&bus.stats());
    });
}

/// If a watcher keeps up, it is not evicted. A published gap does not need capacity.
#[test]
fn a_watcher_that_keeps_up_stays() {
    on_both(|options| {
        let bus = bus_with(options);
        let mut watcher = evicting(&bus, 2).watch().unwrap();
        for round in 0..10 {
            bus.publisher().publish_batch([2 * round, 2 * round + 1]).unwrap();
            bus.publisher().publish_gap(1).unwrap();
            bus.flush(LONG).unwrap();
            assert_eq!(watcher.recv(), Ok(Event(2 * round)));
            assert_eq!(watcher.recv(), Ok(Event(2 * round + 1)));
            assert_eq!(watcher.recv(), Ok(Lagged(1)));
        }
        watcher.stop();
        assert_eq!(watcher.recv(), Err(RecvError));
        assert_eq!(watcher.end_reason(), Some(EndReason::Stopped));
    });
}

/// Events that the reader has borrowed take up capacity. The next receive, which would free that
/// capacity, is too late.
#[test]
fn a_borrowed_batch_takes_capacity() {
    on_both(|options| {
        let bus = bus_with(options);
        let mut watcher = evicting(&bus, 1).watch().unwrap();
        bus.publisher().publish(1).unwrap();
        assert_eq!(watcher.recv_batch().map(|batch| batch.to_vec()), Ok(vec![1]));
        bus.publisher().publish(2).unwrap();
        bus.flush(LONG).unwrap();
        assert_eq!(watcher.stats().evictions, 1);
        assert_eq!((watcher.recv(), watcher.end_reason()), (Err(RecvError), Some(EndReason::Evicted)));
    });
}

/// A handler is evicted in the same way as a watcher: it handles its queued events, and then ends.
#[test]
fn a_handler_is_evicted() {
    on_both(|options| {
        let bus = bus_with(options);
        let (turnstile, handle) = stopping_handler(evicting(&bus, 2));
        bus.publisher().publish(1).unwrap();
        turnstile.wait_for(Some(1));
        bus.publisher().publish_batch([2, 3]).unwrap();
        // The first event is still being handled, so two more events do not fit.
        let mut after = bus.watch().unwrap();
        bus.publisher().publish(4).unwrap();
        assert_eq!(after.recv(), Ok(Event(4)));
        drop(turnstile);
        assert!(handle.join(LONG));
        let stats = handle.stats();
        assert_eq!((stats.delivered, stats.evictions, stats.dropped.total(), stats.lag), (2, 1, 0, 0));
        assert!(bus.shutdown().complete);
    });
}

/// A filter sees all events, but only the events that the filter accepts need capacity.
#[test]
fn refused_events_evict_no_watcher() {
    on_both(|options| {
        let bus = bus_with(options);
        let mut even = evicting(&bus, 2).filter(|n: &u64| n % 2 == 0).watch().unwrap();
        bus.publisher().publish_batch([1, 2, 3, 4, 5]).unwrap();
        bus.flush(LONG).unwrap();
        assert_eq!(bus.stats().watchers[0].evictions, 0);
        bus.publisher().publish_batch([7, 8, 9, 10]).unwrap();
        bus.flush(LONG).unwrap();
        assert_eq!(drain(&mut even), [Event(2), Event(4)]);
        assert_eq!((even.end_reason(), even.stats().evictions), (Some(EndReason::Evicted), 1));
    });
}

/// An evicted watcher delays neither a shutdown nor the dispatcher.
#[test]
fn an_eviction_delays_nothing() {
    let bus = bus(100, 100);
    let held = hold(&bus);
    let client = evicting(&bus, 1).watch().unwrap();
    bus.publisher().publish_batch([1, 2]).unwrap();
    drop(held);
    assert!(bus.shutdown().complete);
    let stats = client.stats();
    assert_eq!((stats.queued, stats.evictions), (1, 1));
    drop(client);
    assert_balanced(&bus.stats());
    assert_eq!(bus.stats().departed.evictions, 1);
}

/// Clients that are evicted in the middle of large batches and then reconnect receive every event
/// once. The statistics count each eviction, but no losses.
#[test]
fn evictions_of_clients_that_reconnect_are_no_losses() {
    on_both(|options| {
        let bus = bus_with(options.history(1000).max_batch(64));
        bus.publisher().publish_batch(1..=100).unwrap();
        let (mut position, mut seen, mut ends) = (0, Vec::new(), 0);
        while seen.len() < 500 {
            let client = evicting(&bus, 8).name("client").start(Start::After(position));
            let mut client = client.watch().unwrap();
            bus.publisher().publish_batch(seen.len() as u64..100 + seen.len() as u64).unwrap();
            bus.flush(LONG).unwrap();
            for delivery in &mut client {
                seen.push(delivery.event().expect("unexpected gap"));
            }
            assert_eq!(client.end_reason(), Some(EndReason::Evicted));
            position = client.position().unwrap();
            ends += 1;
        }
        assert_eq!(position, seen.len() as u64, "every position must be received once");
        let stats = bus.stats();
        let client = &stats.departed_by_name[0];
        assert_eq!((client.evictions, client.dropped.total()), (ends, 0), "{client}");
        assert_eq!((client.offered, client.delivered), (position, position));
    });
}
