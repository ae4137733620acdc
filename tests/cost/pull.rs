//! Pulling: under load, the only reader of a lossless bus takes events out of the incoming queue
//! itself. The allocations on the reader's thread show that it has pulled, because pulling
//! allocates the batch.

use std::thread;
use std::time::{Duration, Instant};

use eventcast::Delivery::Event;
use eventcast::error::TryRecvError;
use eventcast::{Broadcaster, BusOptions, OverflowPolicy, Watcher};
use test_support::LONG;

use crate::counting::allocations_here;

fn lossless(is_direct: bool) -> (Broadcaster<u64>, Watcher<u64>) {
    let options = BusOptions::default().overflow(OverflowPolicy::Wait).direct_delivery(is_direct);
    let bus = Broadcaster::with_options(options).unwrap();
    let watcher = bus.watch().unwrap();
    (bus, watcher)
}

/// Receives the next event without sleeping. Returns whether this thread has pulled it.
fn received(watcher: &mut Watcher<u64>, expected: u64) -> bool {
    let end = Instant::now() + LONG;
    loop {
        let (allocated, result) = allocations_here(|| watcher.try_recv());
        if result != Err(TryRecvError::Empty) {
            assert_eq!(result, Ok(Event(expected)));
            return allocated > 0;
        }
        assert!(Instant::now() < end, "event {expected} was not offered");
        thread::yield_now();
    }
}

/// The reader never sleeps, so the dispatcher eventually leaves the distribution to the reader.
#[test]
fn a_busy_reader_pulls() {
    let (bus, mut watcher) = lossless(true);
    let (publisher, end) = (bus.publisher(), Instant::now() + LONG);
    for event in 0.. {
        publisher.try_publish(event).unwrap();
        if received(&mut watcher, event) {
            break;
        }
        assert!(Instant::now() < end, "the reader has not pulled in {event} events");
    }
    assert!(bus.shutdown().complete);
}

#[test]
fn a_reader_leaves_to_the_dispatcher_what_it_may_not_pull() {
    let (bus, mut watcher) = lossless(false);
    for event in 0..300 {
        bus.publisher().try_publish(event).unwrap();
        assert!(!received(&mut watcher, event), "the reader has pulled event {event}");
    }
    assert!(bus.shutdown().complete);
}

/// No thread reads, so no thread pulls. All events are still offered.
#[test]
fn events_do_not_wait_for_an_absent_reader() {
    let (bus, watcher) = lossless(true);
    let publisher = bus.publisher();
    for event in 1..=300 {
        publisher.try_publish(event).unwrap();
        let end = Instant::now() + LONG;
        while watcher.len() as u64 != event {
            assert!(Instant::now() < end, "event {event} was not offered");
            thread::yield_now();
        }
    }
    drop(watcher);
    assert!(bus.shutdown().complete);
}

/// The dispatcher does not delegate the fan-out to an absent reader again before that reader has
/// caught up, so the poll intervals do not add up. If the dispatcher delegated it again after every
/// few batches, this test would take about ten seconds.
#[test]
fn an_absent_reader_does_not_slow_the_dispatcher() {
    const EVENTS: usize = 40_000;
    let options = BusOptions::default().overflow(OverflowPolicy::Wait).queue_capacity(EVENTS).max_batch(1);
    let bus = Broadcaster::with_options(options).unwrap();
    let (watcher, publisher) = (bus.watch().unwrap(), bus.publisher());
    let begin = Instant::now();
    for event in 0..EVENTS {
        publisher.publish(event).unwrap();
    }
    bus.flush(LONG).unwrap();
    assert_eq!(watcher.len(), EVENTS);
    assert!(begin.elapsed() < Duration::from_secs(5), "it took {:?}", begin.elapsed());
    drop(watcher);
    assert!(bus.shutdown().complete);
}
