//! Rounds in which one thread records events to a handler or a sink.

use std::ops::Range;
#[cfg(feature = "sqlite")]
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use eventcast::sink::{SinkBatch, SinkOp};
use eventcast::stats::RecordingStats;
use eventcast::{
    CorrelatorOptions, Delivery, Event, EventBroadcaster, EventSink, EventSource, EventType, MemorySink,
    ObjectReference, OverflowPolicy, Recorded, Recorder, Timestamp,
};

use crate::load::{Arrived, Load, Payload, QUEUE, payload, run};
use crate::ours::{options, until_all_came};

/// The message that is used if all events have the same message.
pub const MESSAGE: &str = "Back-off restarting failed container";

/// The maximum number of operations in a batch that a recording submits to its sink.
const BATCH: usize = 256;

/// The number of events between two checks of how many events have been handled.
const STEP: u64 = 64;

/// Returns the given number of pods in one namespace.
#[must_use]
pub fn pods(count: u64) -> Vec<ObjectReference> {
    pods_of(0..count)
}

/// Returns the pods with the given numbers.
#[must_use]
pub fn pods_of(numbers: Range<u64>) -> Vec<ObjectReference> {
    let pod = |number| {
        let name = format!("controller-manager-6d4cf56db6-{number:05x}");
        let mut pod = ObjectReference::new("Pod", name).in_namespace("openshift-monitoring");
        pod.uid = format!("a93e8ff4-70df-47f1-81fa-{number:012x}").into();
        pod
    };
    numbers.map(pod).collect()
}

/// Records events and returns the time from recording the first event until the last event has been
/// handled. No event is refused, because the recording thread waits whenever the events in flight
/// could otherwise exceed the capacity of a queue. The reader's policy must make the dispatcher
/// wait, because an event counts as handled before its slot is free.
#[must_use]
pub fn flow(events: u64, record: impl Fn(u64) -> Recorded, handled: impl Fn() -> u64) -> Duration {
    let start = Instant::now();
    for number in 0..events {
        if number % STEP == 0 {
            while number - handled() > QUEUE as u64 - STEP {
                thread::yield_now();
            }
        }
        assert_eq!(record(number), Recorded::Accepted);
    }
    while handled() < events {
        thread::yield_now();
    }
    start.elapsed()
}

/// Records the given number of events to one handler, which counts the events and adds up the
/// lengths of their messages. Returns the elapsed time and the sum.
pub fn to_handler(events: u64, record: impl Fn(&Recorder, u64) -> Recorded) -> (Duration, u64) {
    let broadcaster = EventBroadcaster::new().expect("the defaults are in range");
    let (count, bytes) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let (counted, summed) = (count.clone(), bytes.clone());
    let (mut seen, mut sum) = (0, 0);
    let handler = move |event: Delivery<&Event>| {
        let Delivery::Event(event) = event else { return };
        (seen, sum) = (seen + 1, sum + event.message.len() as u64);
        summed.store(sum, Ordering::Relaxed);
        counted.store(seen, Ordering::Release);
    };
    let builder = broadcaster.watch_builder().overflow(OverflowPolicy::Wait);
    builder.spawn(handler).expect("the system gives a thread");
    let recorder = broadcaster.recorder("kubelet");
    let elapsed = flow(events, |number| record(&recorder, number), || count.load(Ordering::Acquire));
    (elapsed, bytes.load(Ordering::Relaxed))
}

/// Runs a round of one publisher, which records each payload as an event about one object, and one
/// handler. The event's message carries the payload's number and time. An event that is refused is
/// recorded again, so no event is lost.
///
/// # Panics
///
/// Panics if the load has several publishers or watchers.
pub fn handled<L: Load>(load: &L) -> Arrived<L::Seen> {
    assert_eq!((load.publishers(), load.watchers()), (1, 1));
    let broadcaster = EventBroadcaster::builder().bus(options()).build().expect("the options are in range");
    let (mut see, seen) = until_all_came(load);
    let runner = broadcaster.watch_builder().runner(move |event: Delivery<&Event>| {
        let Delivery::Event(event) = event else { return };
        let mut numbers = event.message.split(' ').map(|number| number.parse().expect("it was a number"));
        let mut next = || numbers.next().expect("it has two numbers");
        let mut sent = payload(next(), 0);
        sent[2] = next();
        see(&sent);
    });
    let runner = runner.expect("the bus is open");
    let reader = move |_: L::Seen| {
        runner.run();
        seen.recv().expect("every event was handled")
    };
    let (recorder, pod) = (broadcaster.recorder("kubelet"), &pods(1)[0]);
    let record = |[number, _, time, ..]: Payload| {
        let record = || recorder.event(pod, EventType::Normal, "Sent", format_args!("{number} {time}"));
        while !record().is_accepted() {
            thread::yield_now();
        }
    };
    run(load, vec![|id| load.publish(id, record)], vec![reader], || broadcaster.close())
}

/// Records the given number of events to a store, through a recording without a spam filter. An
/// event's number determines its pod and its message. Returns the elapsed time and the recording's
/// counters.
pub fn to_memory(
    events: u64,
    pods: &[ObjectReference],
    message: impl Fn(u64) -> String,
) -> (Duration, RecordingStats) {
    let broadcaster = EventBroadcaster::new().expect("the defaults are in range");
    let options = CorrelatorOptions::default().spam_filter(None);
    let sink = MemorySink::new();
    let recording = broadcaster.recording().overflow(OverflowPolicy::Wait).correlator(options);
    let recording = recording.start(sink.clone()).expect("the system gives a thread");
    let recorder = broadcaster.recorder("kubelet");
    let record = |number: u64| {
        let pod = &pods[number as usize % pods.len()];
        recorder.event(pod, EventType::Warning, "BackOff", message(number))
    };
    let elapsed = flow(events, record, || recording.stats().watcher.delivered);
    let stats = recording.stats();
    assert_eq!(sink.stats().created, stats.created);
    assert_eq!(stats.created + stats.updated, events);
    (elapsed, stats)
}

/// Creates the given events directly in a store, one by one, and returns the elapsed time. No two
/// events may be the same.
#[must_use]
pub fn created_in_memory(events: &[Event]) -> Duration {
    let sink = MemorySink::new();
    let start = Instant::now();
    for event in events {
        sink.create(event).expect("its name is free");
    }
    let elapsed = start.elapsed();
    assert_eq!(sink.stats().created, events.len() as u64);
    elapsed
}

/// Does the same as [`created_in_memory`], but in batches of the maximum size that a recording
/// uses.
#[must_use]
pub fn created_in_batches(events: &[Event]) -> Duration {
    let sink = MemorySink::new();
    let elapsed = create_in_batches(&sink, events);
    assert_eq!(sink.stats().created, events.len() as u64);
    elapsed
}

/// Creates the given events in a store, in batches of the maximum size that a recording uses.
/// Returns the elapsed time. The events must be new to the store.
#[must_use]
pub fn create_in_batches(sink: &impl EventSink, events: &[Event]) -> Duration {
    let creates: Vec<SinkOp> = events.iter().cloned().map(SinkOp::Create).collect();
    let start = Instant::now();
    apply_in_batches(sink, creates);
    start.elapsed()
}

/// Makes a sink perform the given operations, in batches of the maximum size that a recording uses.
pub fn apply_in_batches(sink: &impl EventSink, ops: Vec<SinkOp>) {
    let mut ops = ops.into_iter();
    loop {
        let batch: Vec<_> = ops.by_ref().take(BATCH).collect();
        if batch.is_empty() {
            return;
        }
        for answer in SinkBatch::perform(batch, sink) {
            answer.expect("the store can do it");
        }
    }
}

/// Does the same as [`created_in_batches`], but in a new file, which must not exist yet and is
/// removed afterwards. With the default options, each batch is on disk before the next batch
/// begins. The time includes log checkpoints.
#[cfg(feature = "sqlite")]
#[must_use]
pub fn created_in_a_file(
    path: &Path,
    options: eventcast_sqlite::SqliteSinkOptions,
    events: &[Event],
) -> Duration {
    let sink = eventcast_sqlite::SqliteSink::with_options(path, options).expect("a file can be made");
    let elapsed = create_in_batches(&sink, events);
    assert_eq!(sink.stats().expect("it can be read").created, events.len() as u64);
    drop(sink);
    std::fs::remove_file(path).expect("it is closed");
    elapsed
}

/// Returns one event for each pod, as a recorder would create the event.
#[must_use]
pub fn events_about(pods: &[ObjectReference]) -> Vec<Event> {
    let event = |pod: &ObjectReference| {
        let mut event = Event::default();
        event.metadata.namespace = pod.namespace.clone();
        event.metadata.name = format!("{}.16a4b5571ec10e94", pod.name).into();
        event.involved_object = pod.clone();
        event.source = EventSource::from("kubelet");
        event.type_ = "Warning".into();
        event.reason = "BackOff".into();
        event.message = MESSAGE.into();
        event.first_timestamp = Timestamp::new(1_631_628_350, 0);
        event.last_timestamp = event.first_timestamp;
        event.count = 1;
        event
    };
    pods.iter().map(event).collect()
}
