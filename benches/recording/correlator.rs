//! Measures a correlator that is shared by several threads.

use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

use cpu_time::ThreadTime;
use eventcast::correlator::{Correlation, EventCorrelator};
use eventcast::{CorrelatorOptions, Event};
use eventcast_benches::recorded::{events_about, pods};

use crate::row::{Figure, Load};

/// Measures a correlator with one thread and with two threads. The threads use different objects.
pub(crate) fn threads(load: &Load) -> Vec<Figure> {
    /// The number of objects in the case with repeats.
    const FEW: usize = 1000;
    let all = events_about(&pods(load.events(200_000)));
    let mut figures = Vec::new();
    for (name, events, times) in [("new", &all[..], 1), ("repeats", &all[..FEW], all.len() / FEW)] {
        let one = round(&[events], times);
        let halves = events.split_at(events.len() / 2);
        let two = round(&[halves.0, halves.1], times);
        let total = (events.len() * times) as u64;
        let ratio = |one: Duration, two: Duration| one.as_secs_f64() / two.as_secs_f64();
        let by = |name: String, ratio| Figure::new(name, ratio, "times");
        figures.extend([
            Figure::rate(format!("correlator, {name}, one thread"), total, one.elapsed),
            Figure::rate(format!("correlator, {name}, two threads"), total, two.elapsed),
            by(format!("correlator, {name}, two by one"), ratio(one.elapsed, two.elapsed)),
            by(
                format!("correlator, {name}, two by one, by processor time"),
                ratio(one.processor, two.processor),
            ),
        ]);
    }
    figures
}

/// The maximum times over all threads.
#[derive(Clone, Copy)]
struct Slowest {
    elapsed: Duration,
    processor: Duration,
}

/// Correlates each part `times` times on its own thread.
fn round<'e>(parts: &[&'e [Event]], times: usize) -> Slowest {
    let options = CorrelatorOptions::default().spam_filter(None);
    let correlator = EventCorrelator::new(options).expect("the options are in range");
    let barrier = Barrier::new(parts.len());
    let times_of: Vec<_> = thread::scope(|scope| {
        let run = |&part: &&'e [Event]| {
            let (barrier, correlator) = (&barrier, &correlator);
            scope.spawn(move || {
                barrier.wait();
                let (start, processor) = (Instant::now(), ThreadTime::now());
                for _ in 0..times {
                    for event in part {
                        decide(correlator, event);
                    }
                }
                (start.elapsed(), processor.elapsed())
            })
        };
        let threads: Vec<_> = parts.iter().map(run).collect();
        threads.into_iter().map(|thread| thread.join().expect("it does not panic")).collect()
    });
    let objects: usize = parts.iter().map(|part| part.len()).sum();
    let stats = correlator.stats();
    assert_eq!((stats.created, stats.updated), (objects as u64, (objects * (times - 1)) as u64));
    let elapsed = times_of.iter().map(|(elapsed, _)| *elapsed).max().expect("there is a thread");
    let processor = times_of.iter().map(|(_, processor)| *processor).max().expect("there is a thread");
    Slowest { elapsed, processor }
}

fn decide(correlator: &EventCorrelator, event: &Event) {
    match correlator.correlate(event) {
        Correlation::Create { event, key, .. } | Correlation::Update { event, key, .. } => {
            correlator.confirm(key, &event);
        }
        _ => panic!("nothing is skipped"),
    }
}
