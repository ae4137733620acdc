//! Benchmarks the effect that a slow watcher with dropped events has on fifteen fast, lossless
//! watchers. Also benchmarks the throughput of a publisher that does not wait for capacity, on
//! machines where this publisher takes a core away from the threads that free capacity.
//!
//! `cargo bench -p eventcast-benches --bench slow_watcher`

#![allow(missing_docs, reason = "criterion's macros make functions")]

mod common;

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use criterion::{Criterion, criterion_group, criterion_main};
use eventcast::{Broadcaster, OverflowPolicy, Watcher};
use eventcast_benches::load::{Payload, payload};
use eventcast_benches::ours;

use common::{bench_rounds, group};

/// The number of events in a round.
const EVENTS: u64 = 400_000;

fn read_all(mut watcher: Watcher<Payload>) {
    let mut next = 0;
    while let Ok(batch) = watcher.recv_batch() {
        for [number, ..] in batch {
            assert_eq!(*number, next, "an event is missing or out of order");
            next += 1;
        }
    }
    assert_eq!(next, EVENTS);
}

/// Takes one event per millisecond.
fn read_slowly(mut watcher: Watcher<Payload>, over: &AtomicBool) {
    while !over.load(Ordering::Relaxed) {
        let _ = watcher.try_recv();
        thread::sleep(Duration::from_millis(1));
    }
    assert!(watcher.stats().dropped.incoming > 0, "{}", watcher.stats());
}

/// Runs `publish` and returns the time until all fast watchers have received all events. If `slow`
/// is true, one more watcher is registered, which loses events.
fn round(fast: usize, slow: bool, publish: impl Fn(&Broadcaster<Payload>)) -> Duration {
    let (bus, over) = (ours::bus(), AtomicBool::new(false));
    thread::scope(|scope| {
        let readers: Vec<_> = (0..fast)
            .map(|_| {
                let watcher = bus.watch().unwrap();
                scope.spawn(move || read_all(watcher))
            })
            .collect();
        if slow {
            let watcher = bus.watch_builder().overflow(OverflowPolicy::DropIncoming).watch().unwrap();
            let over = &over;
            scope.spawn(move || read_slowly(watcher, over));
        }
        let start = Instant::now();
        publish(&bus);
        bus.close();
        for reader in readers {
            reader.join().unwrap();
        }
        over.store(true, Ordering::Relaxed);
        start.elapsed()
    })
}

fn waiting(bus: &Broadcaster<Payload>) {
    let publisher = bus.publisher();
    for number in 0..EVENTS {
        publisher.publish(payload(number, 0)).unwrap();
    }
}

/// Tries to publish each event until the bus accepts it, and calls `refused` after each refusal.
fn insisting(bus: &Broadcaster<Payload>, refused: impl Fn()) {
    let publisher = bus.publisher();
    for number in 0..EVENTS {
        while publisher.try_publish(payload(number, 0)).is_err() {
            refused();
        }
    }
}

fn slow_watcher(criterion: &mut Criterion) {
    let mut beside = group(criterion, "slow_watcher", EVENTS * 15);
    for (name, slow) in [("15 fast", false), ("15 fast and one slow", true)] {
        bench_rounds(&mut beside, name, || round(15, slow, waiting));
    }
    beside.finish();

    let mut goodput = group(criterion, "goodput", EVENTS);
    bench_rounds(&mut goodput, "publish", || round(4, false, waiting));
    let mut bench = |name: &str, refused: fn()| {
        bench_rounds(&mut goodput, name, || round(4, false, |bus| insisting(bus, refused)));
    };
    bench("try_publish, again at once", || {});
    bench("try_publish, yields when refused", thread::yield_now);
    bench("try_publish, sleeps 50 us when refused", || thread::sleep(Duration::from_micros(50)));
    goodput.finish();
}

criterion_group!(benches, slow_watcher);
criterion_main!(benches);
