//! Benchmarks the in-memory store in three configurations:
//!
//! - On its own, with events that are created one by one and in batches.
//! - Filled by a recording that creates each event.
//! - Filled by a recording that counts repeats and by a recording that folds similar events. In
//!   both recordings, several events may share a write.
//!
//! With the `sqlite` feature, also benchmarks the file-based store with events in batches.
//!
//! `cargo bench -p eventcast-benches --features sqlite --bench sinks`

#![allow(missing_docs, reason = "criterion's macros make functions")]

mod common;

use criterion::{Criterion, criterion_group, criterion_main};
use eventcast_benches::recorded::{
    MESSAGE, created_in_batches, created_in_memory, events_about, pods, to_memory,
};

use common::{bench_rounds, group};

/// The number of events in a round, which must not exceed the store's capacity.
const EVENTS: u64 = 10_000;
/// The number of pods that the events are about if the events are counted or folded.
const FEW: u64 = 10;
/// The number of similar events that are created before further similar events are folded.
const GROUP: u64 = 10;

fn sinks(criterion: &mut Criterion) {
    let (all, few) = (pods(EVENTS), pods(FEW));
    let made = events_about(&all);
    let mut group = group(criterion, "sinks/memory", EVENTS);
    bench_rounds(&mut group, "create", || created_in_memory(&made));
    bench_rounds(&mut group, "create, in batches", || created_in_batches(&made));
    bench_rounds(&mut group, "recording, each created", || {
        let (elapsed, stats) = to_memory(EVENTS, &all, |_| MESSAGE.to_owned());
        assert_eq!(stats.created, EVENTS);
        elapsed
    });
    bench_rounds(&mut group, "recording, repeats counted", || {
        let (elapsed, stats) = to_memory(EVENTS, &few, |_| MESSAGE.to_owned());
        assert_eq!((stats.created, stats.updated), (FEW, EVENTS - FEW));
        elapsed
    });
    bench_rounds(&mut group, "recording, similar ones folded", || {
        let (elapsed, stats) = to_memory(EVENTS, &few, |number| format!("{MESSAGE}: attempt {number}"));
        assert_eq!((stats.created, stats.updated), (FEW * GROUP, EVENTS - FEW * GROUP));
        elapsed
    });
    group.finish();
}

/// The number of events in a round with a file-based store. The number is large enough to cause log
/// checkpoints during the round.
#[cfg(feature = "sqlite")]
const FILED: u64 = 50_000;

#[cfg(feature = "sqlite")]
fn files(criterion: &mut Criterion) {
    use eventcast_benches::recorded::created_in_a_file;
    use eventcast_sqlite::{SqliteSinkOptions, SqliteSynchronous};

    let made = events_about(&pods(FILED));
    let path = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("bench-sinks.db");
    let _ = std::fs::remove_file(&path);
    let full = SqliteSinkOptions::default();
    let normal = full.synchronous(SqliteSynchronous::Normal);
    let small = full.max_events(5_000);
    let mut group = group(criterion, "sinks/sqlite", FILED);
    for (name, options) in [
        ("create, in batches", full),
        ("create, in batches, making room", small),
        ("create, in batches, synchronous = normal", normal),
    ] {
        bench_rounds(&mut group, name, || created_in_a_file(&path, options, &made));
    }
    group.finish();
}

#[cfg(not(feature = "sqlite"))]
fn files(_: &mut Criterion) {}

criterion_group!(benches, sinks, files);
criterion_main!(benches);
