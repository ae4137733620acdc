//! Benchmarks the correlator with a real cluster's events and with a flood generated from those
//! events, on one thread and on two threads. Also benchmarks the JSON of those events, and reading
//! times.
//!
//! `cargo bench -p eventcast-benches --bench correlator`

#![allow(missing_docs, reason = "criterion's macros make functions")]

use std::hint::black_box;
use std::time::Duration;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use eventcast::{Event, Timestamp};
use eventcast_benches::correlation::{cluster, flooded, half, round, round_of_threads};

fn correlator(criterion: &mut Criterion) {
    let (name, stream) = cluster();
    let flood = flooded(&stream);
    for (name, stream) in [(name.to_owned(), &stream), (format!("{name} flooded"), &flood)] {
        let mut group = criterion.benchmark_group(format!("correlator/{name}"));
        group
            .sample_size(20)
            .measurement_time(Duration::from_secs(4))
            .warm_up_time(Duration::from_millis(500));
        group.throughput(Throughput::Elements(stream.len() as u64));

        let (_, expected) = round(stream);
        println!("{} events: {}", stream.len(), expected.stats);
        group.bench_function(BenchmarkId::from_parameter("one thread, the events' times"), |bencher| {
            bencher.iter_custom(|rounds| {
                let one = |_| {
                    let (elapsed, sums) = round(stream);
                    assert_eq!(sums, expected);
                    elapsed
                };
                (0..rounds).map(one).sum()
            });
        });

        let halves = [half(stream, 0), half(stream, 1)];
        let whole = [halves.concat()];
        println!("halves of {} and {} events", halves[0].len(), halves[1].len());
        let mut threads = |name: &str, streams: &[_], is_shared| {
            group.bench_function(BenchmarkId::from_parameter(name), |bencher| {
                bencher
                    .iter_custom(|rounds| (0..rounds).map(|_| round_of_threads(streams, is_shared).0).sum());
            });
        };
        threads("one thread", &whole, true);
        threads("two threads", &halves, true);
        threads("two threads, each with its own", &halves, false);
        group.finish();
    }
}

fn documents(criterion: &mut Criterion) {
    let (name, stream) = cluster();
    let mut group = criterion.benchmark_group(format!("to_json/{name}"));
    group.sample_size(20).measurement_time(Duration::from_secs(2)).warm_up_time(Duration::from_millis(500));
    group.throughput(Throughput::Elements(stream.len() as u64));
    let bytes = |event: &Event| event.to_json().len();
    // Each event is read back from its JSON, apart from the fractions that the JSON omits.
    for (_, event) in &stream {
        let json = event.to_json();
        assert_eq!(Event::from_json(&json).map(|read| read.to_json()), Ok(json));
    }
    group.bench_function("one thread", |bencher| {
        bencher.iter(|| stream.iter().map(|(_, event)| bytes(event)).sum::<usize>());
    });
    group.finish();
}

/// Reads the same time in UTC and with an offset.
fn times(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("Timestamp");
    group.sample_size(20).measurement_time(Duration::from_secs(1)).warm_up_time(Duration::from_millis(500));
    group.throughput(Throughput::Elements(1));
    for text in ["2024-01-31T08:15:00Z", "2024-01-31T10:15:00+02:00"] {
        let read = || black_box(text).parse::<Timestamp>();
        assert_eq!(read(), Ok(Timestamp::new(1_706_688_900, 0).unwrap()));
        group.bench_function(BenchmarkId::new("from_str", text), |bencher| bencher.iter(read));
    }
    group.finish();
}

criterion_group!(benches, correlator, documents, times);
criterion_main!(benches);
