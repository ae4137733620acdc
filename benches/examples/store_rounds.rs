//! Measures the stores as they fill up, without a recording and without the benchmark harness:
//!
//! - `store_rounds memory [EVENTS] [OBJECTS]` measures the CPU time of a creation, a repeat and a
//!   query by object.
//! - `store_rounds sqlite [EVENTS] [OBJECTS] [FOLDER]` measures the rate for each tenth of the
//!   events.
//!
//! `cargo run --profile bench -p eventcast-benches --features sqlite --example store_rounds memory`

#![allow(clippy::print_stdout, clippy::missing_panics_doc, reason = "a tool for whoever measures")]

use std::time::Duration;

use cpu_time::ThreadTime;
use eventcast::sink::{EventQuery, MemorySinkOptions, SinkOp};
use eventcast::{Event, MemorySink};
use eventcast_benches::recorded::{apply_in_batches, events_about, pods};

fn main() {
    let mut args = std::env::args().skip(1);
    let store = args.next().unwrap_or_default();
    let mut number = || args.next().map(|number| number.parse().expect("a number"));
    let events = number().unwrap_or(1_000_000);
    let objects = number().unwrap_or(events);
    let made = events_of(events, objects);
    match store.as_str() {
        "memory" => memory(&made),
        #[cfg(feature = "sqlite")]
        "sqlite" => sqlite(&made, args.next().as_deref()),
        _ => println!("store_rounds memory|sqlite [EVENTS] [OBJECTS]"),
    }
}

/// The timestamp in the name of the first event.
const FIRST: u64 = 0x16a4_b557_1ec1_0e94;

/// Generates events that cycle through the given number of objects, with names like the names from
/// a recorder.
fn events_of(events: u64, objects: u64) -> Vec<Event> {
    let about = events_about(&pods(objects));
    let made = about.iter().cycle().zip(FIRST..FIRST + events).map(|(event, time)| {
        let mut event = event.clone();
        event.metadata.name = format!("{}.{time:x}", event.involved_object.name).into();
        event
    });
    made.collect()
}

fn each(elapsed: Duration, events: usize) -> u128 {
    elapsed.as_nanos() / events as u128
}

fn memory(events: &[Event]) {
    let options = MemorySinkOptions::default().max_events(events.len());
    let store = MemorySink::with_options(options).expect("the options are in range");
    let creates: Vec<SinkOp> = events.iter().cloned().map(SinkOp::Create).collect();
    println!("create {} ns", each(timed(|| apply_in_batches(&store, creates)), events.len()));
    for count in 2..4 {
        let repeat = |event: &Event| {
            let mut event = event.clone();
            event.count = count;
            SinkOp::Patch(event)
        };
        let repeats: Vec<SinkOp> = events.iter().map(repeat).collect();
        println!("repeat {} ns", each(timed(|| apply_in_batches(&store, repeats)), events.len()));
    }
    find(events, |query| store.find(query).len());
    let mut more = events_of(2 * events.len() as u64, 2 * events.len() as u64);
    let more: Vec<SinkOp> = more.drain(events.len()..).map(SinkOp::Create).collect();
    let count = more.len();
    println!("create, making room {} ns", each(timed(|| apply_in_batches(&store, more)), count));
}

/// Searches for the events about each object in a sample of objects.
fn find(events: &[Event], search: impl Fn(&EventQuery) -> usize) {
    let about =
        |number: usize| EventQuery::default().object(&events[number * 7919 % events.len()].involved_object);
    let mut found = 0;
    let elapsed = timed(|| (0..100).for_each(|number| found += search(&about(number))));
    println!("find {} µs, {} events", elapsed.as_micros() / 100, found / 100);
}

/// Returns the CPU time that the calling thread uses to run `work`.
fn timed(work: impl FnOnce()) -> Duration {
    let start = ThreadTime::now();
    work();
    start.elapsed()
}

#[cfg(feature = "sqlite")]
fn sqlite(events: &[Event], folder: Option<&str>) {
    use eventcast_sqlite::{SqliteSink, SqliteSinkOptions};
    use std::time::Instant;

    let path = std::path::Path::new(folder.unwrap_or(".")).join("store-rounds.db");
    let _ = std::fs::remove_file(&path);
    let options = SqliteSinkOptions::default().max_events(events.len());
    let store = SqliteSink::with_options(&path, options).expect("a file can be made");
    for part in events.chunks(events.len().div_ceil(10)) {
        let creates: Vec<SinkOp> = part.iter().cloned().map(SinkOp::Create).collect();
        let start = Instant::now();
        let cpu = timed(|| apply_in_batches(&store, creates));
        let rate = part.len() as u128 * 1_000_000 / start.elapsed().as_micros().max(1);
        println!("{rate} events a second, {} ns each in processor time", each(cpu, part.len()));
    }
    find(events, |query| store.find(query).expect("it can be read").len());
    drop(store);
    let bytes = std::fs::metadata(&path).map_or(0, |file| file.len());
    println!("{bytes} bytes");
    let _ = std::fs::remove_file(&path);
}
