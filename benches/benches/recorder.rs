//! Benchmarks recording from one thread to one handler, with an existing message and with a message
//! that is formatted for each event.
//!
//! `cargo bench -p eventcast-benches --bench recorder`

#![allow(missing_docs, reason = "criterion's macros make functions")]

mod common;

use criterion::{Criterion, criterion_group, criterion_main};
use eventcast::EventType::Warning;
use eventcast_benches::recorded::{MESSAGE, pods, to_handler};

use common::{bench_rounds, group};

const EVENTS: u64 = 100_000;

fn recorder(criterion: &mut Criterion) {
    let pods = pods(500);
    let pod = |number: u64| &pods[number as usize % pods.len()];
    let mut group = group(criterion, "recorder/one_handler", EVENTS);
    bench_rounds(&mut group, "event", || {
        let (elapsed, bytes) =
            to_handler(EVENTS, |recorder, number| recorder.event(pod(number), Warning, "BackOff", MESSAGE));
        assert_eq!(bytes, EVENTS * MESSAGE.len() as u64);
        elapsed
    });
    let digits: u64 = (0..EVENTS).map(|number| number.to_string().len() as u64).sum();
    bench_rounds(&mut group, "event_formatted", || {
        let (elapsed, bytes) = to_handler(EVENTS, |recorder, number| {
            recorder.event(pod(number), Warning, "BackOff", format_args!("{MESSAGE}: attempt {number}"))
        });
        assert_eq!(bytes, EVENTS * (MESSAGE.len() + ": attempt ".len()) as u64 + digits);
        elapsed
    });
    group.finish();
}

criterion_group!(benches, recorder);
criterion_main!(benches);
