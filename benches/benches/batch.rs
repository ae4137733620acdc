//! Benchmarks one publisher and one lossless watcher, with events published in batches of 1, 8, 64
//! and 256.
//!
//! `cargo bench -p eventcast-benches --bench batch`

#![allow(missing_docs, reason = "criterion's macros make functions")]

mod common;

use criterion::{Criterion, criterion_group, criterion_main};
use eventcast_benches::load::Flood;
use eventcast_benches::ours;

use common::{bench_rounds, group};

const EVENTS: u64 = 400_000;

fn batch(criterion: &mut Criterion) {
    let flood = Flood { publishers: 1, watchers: 1, each: EVENTS };
    let mut group = group(criterion, "batch/1_to_1", EVENTS);
    for size in [1, 8, 64, 256] {
        bench_rounds(&mut group, size.to_string(), || {
            ours::published_in_batches(&flood, ours::options(), size).lossless(&flood)
        });
    }
    group.finish();
}

criterion_group!(benches, batch);
criterion_main!(benches);
