//! Events by the recorder: a round of them from one thread, on their way to a handler or a sink.

#[cfg(feature = "sqlite")]
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use eventcast::{
    CorrelatorOptions, Event, EventBroadcaster, EventSink, EventSource, EventType, MemorySink,
    ObjectReference, Recorded, Recorder, RecordingStats, SinkOp, Timestamp,
};

use crate::load::QUEUE;

/// What the events say, where they all say the same.
pub const MESSAGE: &str = "Back-off restarting failed container";

/// How many operations a recording hands to its sink at once, at most.
const BATCH: usize = 256;

/// How many events are recorded between two looks at how many have been handled.
const STEP: u64 = 64;

/// So many pods of one namespace.
#[must_use]
pub fn pods(count: u64) -> Vec<ObjectReference> {
    let pod = |number| {
        let name = format!("controller-manager-6d4cf56db6-{number:05x}");
        let mut pod = ObjectReference::new("Pod", name).in_namespace("openshift-monitoring");
        pod.uid = format!("a93e8ff4-70df-47f1-81fa-{number:012x}").into();
        pod
    };
    (0..count).map(pod).collect()
}

/// From the first event to the handling of the last. Nothing is refused: the recording thread waits where as many as a
/// queue holds are under way.
fn round(events: u64, record: impl Fn(u64) -> Recorded, handled: impl Fn() -> u64) -> Duration {
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

/// So many events to one handler, which counts them and adds up the lengths of their messages; returns that sum too.
pub fn to_handler(events: u64, record: impl Fn(&Recorder, u64) -> Recorded) -> (Duration, u64) {
    let broadcaster = EventBroadcaster::new().expect("the defaults are in range");
    let (count, bytes) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let (counted, summed) = (count.clone(), bytes.clone());
    let (mut seen, mut sum) = (0, 0);
    let handler = move |event: &Event| {
        (seen, sum) = (seen + 1, sum + event.message.len() as u64);
        summed.store(sum, Ordering::Relaxed);
        counted.store(seen, Ordering::Release);
    };
    broadcaster.start_event_watcher(handler).expect("the system gives a thread");
    let recorder = broadcaster.new_recorder("kubelet");
    let elapsed = round(events, |number| record(&recorder, number), || count.load(Ordering::Acquire));
    (elapsed, bytes.load(Ordering::Relaxed))
}

/// So many events, each about the pod and with the message of its number, through a recording without the budgets of the
/// spam filter to a store; returns what the recording has counted too.
pub fn to_memory(
    events: u64,
    pods: &[ObjectReference],
    message: impl Fn(u64) -> String,
) -> (Duration, RecordingStats) {
    let broadcaster = EventBroadcaster::new().expect("the defaults are in range");
    let mut options = CorrelatorOptions::default();
    options.spam_filter = None;
    let sink = MemorySink::new();
    let recording = broadcaster.recording().correlator(options);
    let recording = recording.start(sink.clone()).expect("the system gives a thread");
    let recorder = broadcaster.new_recorder("kubelet");
    let record = |number: u64| {
        let pod = &pods[number as usize % pods.len()];
        recorder.event(pod, EventType::Warning, "BackOff", message(number))
    };
    let elapsed = round(events, record, || recording.stats().handled());
    let stats = recording.stats();
    assert_eq!(sink.stats().created, stats.created);
    assert_eq!(stats.created + stats.updated, events);
    (elapsed, stats)
}

/// A store that is given so many events directly, each its own.
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

/// As [`created_in_memory`], but in batches of as many as a recording hands over at most.
#[must_use]
pub fn created_in_batches(events: &[Event]) -> Duration {
    let sink = MemorySink::new();
    let elapsed = create_in_batches(&sink, events);
    assert_eq!(sink.stats().created, events.len() as u64);
    elapsed
}

fn create_in_batches(sink: &impl EventSink, events: &[Event]) -> Duration {
    let creates: Vec<SinkOp> = events.iter().cloned().map(SinkOp::Create).collect();
    let start = Instant::now();
    for batch in creates.chunks(BATCH) {
        for answer in sink.apply(batch) {
            answer.expect("its name is free");
        }
    }
    start.elapsed()
}

/// As [`created_in_batches`], in a new file, which must not be there and goes afterwards. Each batch is on the disk before
/// the next one begins, and what is written back of the log is part of it.
#[cfg(feature = "sqlite")]
#[must_use]
pub fn created_in_a_file(path: &Path, options: eventcast::SqliteSinkOptions, events: &[Event]) -> Duration {
    let sink = eventcast::SqliteSink::with_options(path, options).expect("a file can be made");
    let elapsed = create_in_batches(&sink, events);
    assert_eq!(sink.stats().expect("it can be read").created, events.len() as u64);
    drop(sink);
    std::fs::remove_file(path).expect("it is closed");
    elapsed
}

/// As many events as pods, as a recorder makes them.
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
