//! What a watcher that is slow and drops costs fifteen beside it that are fast and lose nothing; and what comes through
//! when a publisher does not wait for room, on machines where it takes a core from those who make it.
//!
//! `cargo bench -p eventcast-benches --bench slow_watcher`

#![allow(missing_docs, reason = "criterion's macros make functions")]
#![allow(clippy::disallowed_methods, reason = "a benchmark looks at the real clock and starts real threads")]

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use eventcast::{Broadcaster, BusOptions, OverflowPolicy, Watcher};
use eventcast_benches::{Payload, QUEUE};

/// Events in a round.
const EVENTS: u64 = 400_000;

fn lossless() -> Broadcaster<Payload> {
    let options = BusOptions::default().incoming_len(QUEUE).queue_len(QUEUE).overflow(OverflowPolicy::Wait);
    Broadcaster::with_options(options).unwrap()
}

fn read_all(mut watcher: Watcher<Payload>) {
    let mut next = 0;
    while let Ok(batch) = watcher.recv_batch() {
        for payload in batch {
            assert_eq!(payload.number(), next, "an event is missing or out of order");
            next += 1;
        }
    }
    assert_eq!(next, EVENTS);
}

/// Takes an event each millisecond.
fn read_slowly(mut watcher: Watcher<Payload>, over: &AtomicBool) {
    while !over.load(Ordering::Relaxed) {
        let _ = watcher.try_recv();
        thread::sleep(Duration::from_millis(1));
    }
    assert!(watcher.stats().dropped.incoming > 0, "{}", watcher.stats());
}

/// Publishes with `publish` until all watchers have all events; `slow`: but for one more, which drops.
fn round(fast: usize, slow: bool, publish: impl Fn(&Broadcaster<Payload>)) -> Duration {
    let (bus, over) = (lossless(), AtomicBool::new(false));
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
        publisher.publish(Payload::new(number)).unwrap();
    }
}

/// Offers each event until it is taken, and does `refused` in between.
fn insisting(bus: &Broadcaster<Payload>, refused: impl Fn()) {
    let publisher = bus.publisher();
    for number in 0..EVENTS {
        while publisher.try_publish(Payload::new(number)).is_err() {
            refused();
        }
    }
}

fn slow_watcher(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("slow_watcher");
    group.sample_size(20).measurement_time(Duration::from_secs(5)).warm_up_time(Duration::from_millis(500));
    group.throughput(Throughput::Elements(EVENTS * 15));
    for (name, slow) in [("15 fast", false), ("15 fast and one slow", true)] {
        group.bench_function(name, |bencher| {
            bencher.iter_custom(|rounds| (0..rounds).map(|_| round(15, slow, waiting)).sum());
        });
    }
    group.finish();

    let mut group = criterion.benchmark_group("goodput");
    group.sample_size(20).measurement_time(Duration::from_secs(4)).warm_up_time(Duration::from_millis(500));
    group.throughput(Throughput::Elements(EVENTS));
    let mut bench = |name: &str, publish: &dyn Fn(&Broadcaster<Payload>)| {
        group.bench_function(name, |bencher| {
            bencher.iter_custom(|rounds| (0..rounds).map(|_| round(4, false, publish)).sum());
        });
    };
    bench("publish", &waiting);
    bench("try_publish, again at once", &|bus| insisting(bus, || {}));
    bench("try_publish, yields when refused", &|bus| insisting(bus, thread::yield_now));
    bench("try_publish, sleeps 50 us when refused", &|bus| {
        insisting(bus, || thread::sleep(Duration::from_micros(50)));
    });
    group.finish();
}

criterion_group!(benches, slow_watcher);
criterion_main!(benches);
