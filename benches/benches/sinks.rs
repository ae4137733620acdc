//! The store in memory: by itself, one by one and in batches; behind a recording that creates each event, and behind one that folds them.
//!
//! `cargo bench -p eventcast-benches --bench sinks`

#![allow(missing_docs, reason = "criterion's macros make functions")]

mod common;

use criterion::{Criterion, criterion_group, criterion_main};
use eventcast_benches::recorded::{
    MESSAGE, created_in_batches, created_in_memory, events_about, pods, to_memory,
};

use common::{bench_rounds, group};

/// Not more than the store holds.
const EVENTS: u64 = 10_000;
/// How many pods the events are about where they are folded.
const FEW: u64 = 10;
/// How many similar events there may be before they are folded.
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

criterion_group!(benches, sinks);
criterion_main!(benches);
