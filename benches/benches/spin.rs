//! What the option `spin` buys and costs: the way there and back on two buses that were quiet before, and the fan-out of a
//! busy one.
//!
//! `cargo bench -p eventcast-benches --bench spin`

#![allow(missing_docs, reason = "criterion's macros make functions")]

use std::time::Duration;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use eventcast_benches::{eventcast_round, there_and_back};

const SPINS: [Duration; 4] =
    [Duration::ZERO, Duration::from_micros(20), Duration::from_micros(100), Duration::from_millis(1)];
const EVENTS: u64 = 200_000;
const WATCHERS: usize = 4;

fn spin(criterion: &mut Criterion) {
    for pause in [Duration::ZERO, Duration::from_micros(50), Duration::from_micros(500)] {
        let mut group = criterion.benchmark_group(format!("spin/there_and_back/after_{pause:?}"));
        group
            .sample_size(10)
            .measurement_time(Duration::from_secs(2))
            .warm_up_time(Duration::from_millis(300));
        for spin in SPINS {
            group.bench_function(BenchmarkId::from_parameter(format!("{spin:?}")), |bencher| {
                bencher.iter_custom(|rounds| there_and_back(rounds, pause, spin));
            });
        }
        group.finish();
    }
    let mut group = criterion.benchmark_group("spin/fan_out/1_to_4");
    group.sample_size(10).measurement_time(Duration::from_secs(2)).warm_up_time(Duration::from_millis(300));
    group.throughput(Throughput::Elements(EVENTS * WATCHERS as u64));
    for spin in SPINS {
        group.bench_function(BenchmarkId::from_parameter(format!("{spin:?}")), |bencher| {
            bencher
                .iter_custom(|rounds| (0..rounds).map(|_| eventcast_round(WATCHERS, EVENTS, 1, spin)).sum());
        });
    }
    group.finish();
}

criterion_group!(benches, spin);
criterion_main!(benches);
