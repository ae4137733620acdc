//! Measures the path of an event from the recorder to a handler, or to an in-memory store that
//! keeps up.

use std::hint::black_box;
use std::time::{Duration, Instant};

use eventcast::EventType::Warning;
use eventcast::correlator::SpamFilter;
use eventcast::stats::RecordingStats;
use eventcast::{
    BusOptions, CorrelatorOptions, Event, EventBroadcaster, MemorySink, ObjectReference, OverflowPolicy,
    Recorded, Recorder, Text,
};
use eventcast_benches::recorded::{MESSAGE, flow, pods, to_handler};
use eventcast_benches::table::median;
use eventcast_benches::threads::Others;

use crate::allocations::so_far;
use crate::row::{Figure, Load, processor_time};

/// A timeout that is reached only if the program hangs.
pub(crate) const LONG: Duration = Duration::from_secs(600);

/// Records an event about the given object, with strings that already exist.
pub(crate) fn record(recorder: &Recorder, object: &ObjectReference) -> Recorded {
    recorder.event(object, Warning, "BackOff", Text::from_static(MESSAGE))
}

/// The number of events that are timed together on the caller's thread.
const RUN: usize = 1000;

/// Measures how much a call costs the caller while no queue is full. Each run begins when the
/// handler has seen all events from the previous run.
pub(crate) fn caller(load: &Load) -> Vec<Figure> {
    let runs = load.events(500_000) as usize / RUN;
    let options = BusOptions::default().incoming_capacity(2 * RUN).queue_capacity(2 * RUN);
    let broadcaster = EventBroadcaster::builder().bus(options).build().expect("the options are in range");
    let handler = broadcaster.spawn(|event: &Event| _ = black_box(event.count));
    let handler = handler.expect("the system gives a thread");
    let recorder = broadcaster.recorder("kubelet");
    let pods = pods(500);
    let mut nanos = Vec::with_capacity(runs);
    let mut allocations = 0;
    for _ in 0..runs {
        let (before, start) = (so_far(), Instant::now());
        for number in 0..RUN {
            assert_eq!(record(&recorder, &pods[number % pods.len()]), Recorded::Accepted);
        }
        nanos.push(start.elapsed().as_nanos() as f64 / RUN as f64);
        allocations += so_far() - before;
        broadcaster.flush(LONG).expect("the handler takes the events");
    }
    let (stats, events) = (handler.stats(), (runs * RUN) as u64);
    assert_eq!((stats.delivered, stats.dropped.total()), (events, 0));
    vec![
        Figure::new("recorder.event, on the caller's thread", median(&nanos), "ns"),
        Figure::new("recorder.event, allocations", allocations as f64 / events as f64, "allocations"),
    ]
}

/// Measures the throughput from a recorder to a handler.
pub(crate) fn handler(load: &Load) -> Vec<Figure> {
    let (events, pods) = (load.events(1_000_000), pods(500));
    let (elapsed, bytes) =
        to_handler(events, |recorder, number| record(recorder, &pods[number as usize % pods.len()]));
    assert_eq!(bytes, events * MESSAGE.len() as u64);
    vec![Figure::rate("recorder to handler", events, elapsed)]
}

/// Measures the path to an in-memory store. The recording uses the default options, except for the
/// correlator options. Also returns the recording's counters.
fn into_memory(
    name: &str,
    events: u64,
    objects: u64,
    correlator: CorrelatorOptions,
) -> (Vec<Figure>, RecordingStats) {
    let pods = pods(objects);
    let broadcaster = EventBroadcaster::new().expect("the defaults are in range");
    let sink = MemorySink::new();
    let recording = broadcaster.recording().overflow(OverflowPolicy::Wait).correlator(correlator);
    let recording = recording.start(sink.clone()).expect("the system gives a thread");
    let recorder = broadcaster.recorder("kubelet");
    let threads = Others::of_this_thread();
    let record = |number: u64| record(&recorder, &pods[number as usize % pods.len()]);
    let elapsed = flow(events, record, || recording.stats().watcher.delivered);
    let mut figures = vec![Figure::rate(name, events, elapsed)];
    figures.extend(processor_time(name, &threads, events));
    broadcaster.flush(LONG).expect("everything is handled");
    let stats = recording.stats();
    assert_eq!((stats.handled(), stats.lost()), (events, 0), "{stats}");
    assert_eq!(sink.stats().created, stats.created);
    (figures, stats)
}

/// The number of objects, which is so large that the correlator has evicted an object by the time
/// the object's next event arrives.
const NEW: u64 = 8192;

/// Measures events that the store has to create. The correlator and the store are full, so each
/// event also evicts an older entry from both.
pub(crate) fn new(load: &Load) -> Vec<Figure> {
    let events = load.events(500_000);
    let options = CorrelatorOptions::default();
    let (figures, stats) = into_memory("into MemorySink, all new", events, NEW, options);
    assert_eq!(stats.created, events);
    figures
}

/// Measures events that are counted as repeats of a few stored events.
pub(crate) fn repeats(load: &Load) -> Vec<Figure> {
    repeated("into MemorySink, repeats of 10 objects", load.events(1_000_000), 10)
}

/// Does the same as [`repeats`], with more objects.
pub(crate) fn repeats_of_many(load: &Load) -> Vec<Figure> {
    repeated("into MemorySink, repeats of 1,000 objects", load.events(1_000_000), 1000)
}

fn repeated(name: &str, events: u64, objects: u64) -> Vec<Figure> {
    let options = CorrelatorOptions::default().spam_filter(None);
    let (figures, stats) = into_memory(name, events, objects, options);
    assert_eq!((stats.created, stats.updated), (objects, events - objects));
    figures
}

/// Measures events that are counted in the series of 1,000 stored events. Each stored event is
/// created, patched at its first repeat, and patched again by the flush at the end.
pub(crate) fn series(load: &Load) -> Vec<Figure> {
    const OBJECTS: u64 = 1000;
    let (events, name) = (load.events(1_000_000), "into MemorySink, series of 1,000 objects");
    let pods = pods(OBJECTS);
    let broadcaster = EventBroadcaster::builder().event_time(true).build().expect("it is in range");
    let sink = MemorySink::new();
    let recording = broadcaster.recording().overflow(OverflowPolicy::Wait).start(sink.clone());
    let recording = recording.expect("the system gives a thread");
    let recorder = broadcaster.recorder("kubelet");
    let threads = Others::of_this_thread();
    let record = |number: u64| record(&recorder, &pods[number as usize % pods.len()]);
    let elapsed = flow(events, record, || recording.stats().watcher.delivered);
    let mut figures = vec![Figure::rate(name, events, elapsed)];
    figures.extend(processor_time(name, &threads, events));
    broadcaster.flush(LONG).expect("everything is handled");
    let stats = recording.stats();
    assert_eq!((stats.created, stats.updated, stats.lost()), (OBJECTS, events - OBJECTS, 0), "{stats}");
    let counted: u64 = sink.events().iter().map(|event| u64::from(event.occurrences())).sum();
    assert_eq!(counted, events);
    figures.push(Figure::new("writes of these", stats.written() as f64, "writes"));
    figures
}

/// Measures events that the spam filter suppresses after the first events about each object.
pub(crate) fn skipped(load: &Load) -> Vec<Figure> {
    const OBJECTS: u64 = 10;
    const BURST: u32 = 25;
    let events = load.events(1_000_000);
    // The budget is refilled too slowly to allow another event.
    let filter = SpamFilter::default().burst(BURST).qps(1e-9);
    let options = CorrelatorOptions::default().spam_filter(filter);
    let (figures, stats) = into_memory("skipped by the spam filter", events, OBJECTS, options);
    let passed = OBJECTS * u64::from(BURST);
    // The counts of the other events are written at the end.
    assert_eq!((stats.created, stats.updated), (OBJECTS, events - OBJECTS));
    assert!(stats.coalesced >= events - passed - OBJECTS, "{stats}");
    figures
}
