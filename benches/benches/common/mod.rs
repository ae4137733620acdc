//! Code shared by the benchmarks.
#![allow(dead_code, reason = "each benchmark uses its part")]

use std::time::Duration;

use criterion::measurement::WallTime;
use criterion::{BenchmarkGroup, BenchmarkId, Criterion, Throughput};

/// Returns a benchmark group that takes ten samples in about two seconds, which is enough to
/// distinguish a change from noise in these benchmarks.
pub(crate) fn group(
    criterion: &mut Criterion,
    name: impl Into<String>,
    elements: u64,
) -> BenchmarkGroup<'_, WallTime> {
    let mut group = criterion.benchmark_group(name);
    group.sample_size(10).measurement_time(Duration::from_secs(2)).warm_up_time(Duration::from_millis(300));
    group.throughput(Throughput::Elements(elements));
    group
}

/// Adds a benchmark whose rounds measure their own time.
pub(crate) fn bench_rounds(
    group: &mut BenchmarkGroup<'_, WallTime>,
    name: impl Into<String>,
    round: impl Fn() -> Duration,
) {
    group.bench_function(BenchmarkId::from_parameter(name.into()), |bencher| {
        bencher.iter_custom(|rounds| (0..rounds).map(|_| round()).sum());
    });
}
