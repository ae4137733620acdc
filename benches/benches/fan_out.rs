//! One publisher to 1, 4 and 16 watchers, lossless, beside crossbeam channels with one message per event.
//!
//! `cargo bench -p eventcast-benches --bench fan_out`

#![allow(missing_docs, reason = "criterion's macros make functions")]

use std::time::Duration;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use eventcast_benches::{crossbeam_round, eventcast_round};

/// Events in a round: enough for the threads' start not to count.
const EVENTS: u64 = 400_000;

fn fan_out(criterion: &mut Criterion) {
    for watchers in [1_usize, 4, 16] {
        let mut group = criterion.benchmark_group(format!("fan_out/1_to_{watchers}"));
        group
            .sample_size(10)
            .measurement_time(Duration::from_secs(4))
            .warm_up_time(Duration::from_millis(500));
        group.throughput(Throughput::Elements(EVENTS * watchers as u64));
        let mut bench = |name: &str, round: &dyn Fn() -> Duration| {
            group.bench_function(BenchmarkId::from_parameter(name), |bencher| {
                bencher.iter_custom(|rounds| (0..rounds).map(|_| round()).sum());
            });
        };
        bench("eventcast", &|| eventcast_round(watchers, EVENTS, 1, Duration::ZERO));
        bench("eventcast, batches of 64", &|| eventcast_round(watchers, EVENTS, 64, Duration::ZERO));
        bench("crossbeam, one message per event", &|| crossbeam_round(watchers, EVENTS));
        group.finish();
    }
}

criterion_group!(benches, fan_out);
criterion_main!(benches);
