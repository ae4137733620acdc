//! Measures the cost of one `try_publish` call for the calling thread while the dispatcher is
//! working, when the dispatcher has to be woken, and when the event is delivered directly.
//!
//! `cargo bench -p eventcast-benches --bench publish`

#![allow(missing_docs, reason = "criterion's macros make functions")]

mod common;

use std::time::Duration;

use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use eventcast_benches::cost::{self, RUN, State};

use common::group;

/// The maximum numbers of runs on one bus, first with the dispatcher awake and then with the
/// dispatcher asleep.
const RUNS: u64 = 100_000;
const PARKED_RUNS: u64 = 2000;

fn publish(criterion: &mut Criterion) {
    let mut group = group(criterion, "publish", 1);
    group.bench_function(BenchmarkId::from_parameter("dispatcher awake"), |bencher| {
        bencher.iter_custom(|events| {
            let runs = events.div_ceil(RUN).min(RUNS);
            let measured: Duration = cost::eventcast(State::Awake, runs as usize).runs.iter().sum();
            scaled(measured, events, runs * RUN)
        });
    });
    // Waiting until the dispatcher is asleep takes many times longer than the measured call.
    group.measurement_time(Duration::from_millis(100)).warm_up_time(Duration::from_millis(10));
    for (name, is_direct) in [("dispatcher parked", false), ("delivered directly", true)] {
        let measure = if is_direct { cost::eventcast } else { cost::eventcast_by_the_dispatcher };
        group.bench_function(BenchmarkId::from_parameter(name), |bencher| {
            bencher.iter_custom(|events| {
                let runs = events.min(PARKED_RUNS);
                let measured: Duration = measure(State::Parked, runs as usize).firsts.iter().sum();
                scaled(measured, events, runs)
            });
        });
    }
    group.finish();
}

/// Scales the time measured for `events` events to `wanted` events. `events` may be less than
/// `wanted`, or slightly more.
fn scaled(measured: Duration, wanted: u64, events: u64) -> Duration {
    let nanos = measured.as_nanos() * u128::from(wanted) / u128::from(events);
    Duration::from_nanos(nanos as u64)
}

criterion_group!(benches, publish);
criterion_main!(benches);
