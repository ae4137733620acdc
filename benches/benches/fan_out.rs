//! Benchmarks one publisher and 1, 4, 16, 64, 256 and 1000 watchers, each on its own thread,
//! without loss. The results are compared with crossbeam channels that carry one message per event.
//!
//! `cargo bench -p eventcast-benches --bench fan_out`

#![allow(missing_docs, reason = "criterion's macros make functions")]

mod common;

use criterion::{Criterion, criterion_group, criterion_main};
use eventcast_benches::load::Flood;
use eventcast_benches::{ours, rivals};

use common::{bench_rounds, group};

/// The number of deliveries in a round, which is large enough to make the start-up of the threads
/// negligible.
const DELIVERIES: u64 = 6_400_000;
/// The maximum number of events in a round.
const EVENTS: u64 = 400_000;

fn fan_out(criterion: &mut Criterion) {
    for watchers in [1_usize, 4, 16, 64, 256, 1000] {
        let flood = Flood { publishers: 1, watchers, each: EVENTS.min(DELIVERIES / watchers as u64) };
        let mut group = group(criterion, format!("fan_out/1_to_{watchers}"), flood.each * watchers as u64);
        bench_rounds(&mut group, "eventcast", || ours::batches(&flood).lossless(&flood));
        bench_rounds(&mut group, "eventcast, batches of 64", || {
            ours::published_in_batches(&flood, ours::options(), 64).lossless(&flood)
        });
        bench_rounds(&mut group, "crossbeam, one message per event", || {
            rivals::crossbeam(&flood).lossless(&flood)
        });
        group.finish();
    }
}

criterion_group!(benches, fan_out);
criterion_main!(benches);
