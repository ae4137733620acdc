//! Benchmarks 1, 2, 4 and 8 publishers with four lossless watchers.
//!
//! `cargo bench -p eventcast-benches --bench producers`

#![allow(missing_docs, reason = "criterion's macros make functions")]

mod common;

use criterion::{Criterion, criterion_group, criterion_main};
use eventcast_benches::load::{Flood, Load};
use eventcast_benches::ours;

use common::{bench_rounds, group};

const EVENTS: u64 = 200_000;
const WATCHERS: usize = 4;

fn producers(criterion: &mut Criterion) {
    for publishers in [1_usize, 2, 4, 8] {
        let flood = Flood { publishers, watchers: WATCHERS, each: EVENTS / publishers as u64 };
        let deliveries = flood.total() * WATCHERS as u64;
        let mut group = group(criterion, format!("producers/{publishers}_to_{WATCHERS}"), deliveries);
        bench_rounds(&mut group, "one by one", || ours::batches(&flood).lossless(&flood));
        bench_rounds(&mut group, "batches of 64", || {
            ours::published_in_batches(&flood, ours::options(), 64).lossless(&flood)
        });
        group.finish();
    }
}

criterion_group!(benches, producers);
criterion_main!(benches);
