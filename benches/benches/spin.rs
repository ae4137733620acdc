//! The gain and the cost of the option `spin`: the way there and back on two buses that were quiet
//! before, and the fan-out of a busy bus.
//!
//! `cargo bench -p eventcast-benches --bench spin`

#![allow(missing_docs, reason = "criterion's macros make functions")]

mod common;

use std::thread;
use std::time::{Duration, Instant};

use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use eventcast::Broadcaster;
use eventcast_benches::load::{Flood, Payload, payload};
use eventcast_benches::ours;

use common::{bench_rounds, group};

const SPINS: [Duration; 4] =
    [Duration::ZERO, Duration::from_micros(20), Duration::from_micros(100), Duration::from_millis(1)];
const FLOOD: Flood = Flood { publishers: 1, watchers: 4, each: 200_000 };

fn spin(criterion: &mut Criterion) {
    for pause in [Duration::ZERO, Duration::from_micros(50), Duration::from_micros(500)] {
        let mut group = group(criterion, format!("spin/there_and_back/after_{pause:?}"), 1);
        for spin in SPINS {
            group.bench_function(BenchmarkId::from_parameter(format!("{spin:?}")), |bencher| {
                bencher.iter_custom(|rounds| there_and_back(rounds, pause, spin));
            });
        }
        group.finish();
    }
    let mut group = group(criterion, "spin/fan_out/1_to_4", FLOOD.each * FLOOD.watchers as u64);
    for spin in SPINS {
        bench_rounds(&mut group, format!("{spin:?}"), || {
            ours::batches_with(&FLOOD, ours::options().spin(spin)).lossless(&FLOOD)
        });
    }
    group.finish();
}

/// Sends an event to another thread by one bus and back by another, `rounds` times. Before each
/// time, all is quiet for as long as `pause`. Returns the time under way.
fn there_and_back(rounds: u64, pause: Duration, spin: Duration) -> Duration {
    let bus = || Broadcaster::<Payload>::with_options(ours::options().spin(spin)).unwrap();
    let (there, back) = (bus(), bus());
    let (mut echoed, mut answers) = (there.watch().unwrap(), back.watch().unwrap());
    let (asks, echoes) = (there.publisher(), back.publisher());
    let echo = thread::spawn(move || {
        for payload in echoed.events() {
            echoes.publish(payload).unwrap();
        }
    });
    let mut under_way = Duration::ZERO;
    for number in 0..rounds {
        thread::sleep(pause);
        let start = Instant::now();
        asks.publish(payload(number, 0)).unwrap();
        let answer = answers.recv().unwrap().event().unwrap();
        under_way += start.elapsed();
        assert_eq!(answer[0], number);
    }
    there.close();
    echo.join().unwrap();
    under_way
}

criterion_group!(benches, spin);
criterion_main!(benches);
