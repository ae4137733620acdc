//! The cost of recording: the number of allocations for one recorded event, on each thread that the
//! event passes.

use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, SystemTime};

use eventcast::EventType::Warning;
use eventcast::stats::RecordingStats;
use eventcast::testing::FakeClock;
use eventcast::{
    BusOptions, CorrelatorOptions, Event, EventBroadcaster, EventSink, ObjectReference, OverflowPolicy,
    Recorded, SinkError, Text,
};

use crate::counting::{allocations_here, so_far};

/// A timeout that only a hang reaches.
const LONG: Duration = Duration::from_secs(60);

/// Returns a broadcaster on a clock that stands still.
fn broadcaster(options: BusOptions) -> EventBroadcaster {
    let clock = FakeClock::new(SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000));
    EventBroadcaster::builder().clock(clock.clock()).bus(options).build().unwrap()
}

/// Returns an object whose texts are too long to lie in the value itself.
fn pod() -> ObjectReference {
    let mut pod = ObjectReference::new("Pod", "controller-manager-6d4cf56db6-xk2lp".to_owned());
    pod = pod.in_namespace("a-namespace-with-a-long-name".to_owned());
    pod.uid = "a93e8ff4-70df-47f1-81fa-8a4f0815cafe".into();
    pod
}

const LITERAL: &str = "Back-off restarting failed container manager";

#[test]
fn recording_allocates_the_name_and_a_message_that_is_made() {
    let events = broadcaster(BusOptions::default());
    let mut watcher = events.watch_builder().watch().unwrap();
    let (recorder, pod) = (events.new_recorder("kubelet"), pod());
    recorder.event(&pod, Warning, "BackOff", LITERAL);
    for number in 0..100 {
        let cost = |record: &dyn Fn() -> Recorded| {
            let (allocations, recorded) = allocations_here(record);
            assert_eq!(recorded, Recorded::Accepted);
            allocations
        };
        assert_eq!(cost(&|| recorder.event(&pod, Warning, "BackOff", LITERAL)), 2, "the name, and a copy");
        let literal = || recorder.event(&pod, Warning, "BackOff", Text::from_static(LITERAL));
        assert_eq!(cost(&literal), 1, "the name");
        let short = || recorder.eventf(&pod, Warning, "BackOff", format_args!("restart {number}"));
        assert_eq!(cost(&short), 1, "the name; the message lies in the event");
        let long = || recorder.eventf(&pod, Warning, "BackOff", format_args!("{LITERAL}: {number}"));
        assert_eq!(
            cost(&long),
            4,
            "the name, and the message, which is written into a buffer that grows once"
        );
        let bound = recorder.for_object(&pod);
        let literal = || bound.event(Warning, "BackOff", Text::from_static(LITERAL));
        assert_eq!(cost(&literal), 1, "the name");
        events.flush(LONG).unwrap();
        while watcher.try_recv_batch().is_ok() {}
    }
}

#[test]
fn what_is_refused_allocates_no_more() {
    let events = broadcaster(BusOptions::default());
    let (recorder, pod) = (events.new_recorder("kubelet"), pod());
    events.shutdown();
    let long = || recorder.eventf(&pod, Warning, "BackOff", format_args!("{LITERAL}: {LITERAL}"));
    // The first call is also the first to be logged, and `tracing` then registers the place, once.
    long();
    for _ in 0..100 {
        assert_eq!(allocations_here(long), (0, Recorded::Stopped));
    }
}

/// A sink that answers with the event that it was given, and notes how many allocations its thread
/// has made so far.
struct Echo(Arc<Mutex<Vec<u64>>>);

impl Echo {
    fn answer(&self, event: &Event) -> Event {
        self.0.lock().unwrap().push(so_far());
        event.clone()
    }
}

impl EventSink for Echo {
    fn create(&self, event: &Event) -> Result<Event, SinkError> {
        Ok(self.answer(event))
    }

    fn update(&self, event: &Event) -> Result<Event, SinkError> {
        Ok(self.answer(event))
    }
}

/// Records events that are the same except for object and message, and returns the allocations of
/// the recording's thread from each call of the sink to the next, with the statistics. The last
/// event must be one that reaches the sink.
fn between_calls(
    options: CorrelatorOptions,
    events: &[(&ObjectReference, String)],
    expected: usize,
) -> (Vec<u64>, RecordingStats) {
    let broadcaster = broadcaster(BusOptions::default());
    let calls = Arc::new(Mutex::new(Vec::with_capacity(events.len())));
    // The recording takes one event at a time, so each allocation between two calls is made for a
    // single event.
    let recording = broadcaster.recording().queue_len(1).overflow(OverflowPolicy::Wait).correlator(options);
    let recording = recording.start(Echo(calls.clone())).unwrap();
    let recorder = broadcaster.new_recorder("kubelet");
    for (object, message) in events {
        assert!(recorder.event(*object, Warning, "BackOff", message.clone()).is_accepted());
    }
    // The recording's thread may have to wake a flush, which takes an allocation. This is a matter
    // of chance, so the flush begins only after the last call.
    while calls.lock().unwrap().len() < expected {
        thread::yield_now();
    }
    broadcaster.flush(LONG).unwrap();
    let calls = calls.lock().unwrap();
    assert_eq!(calls.len(), expected);
    (calls.windows(2).map(|pair| pair[1] - pair[0]).collect(), recording.stats())
}

#[test]
fn a_repeat_allocates_nothing_on_the_recordings_thread() {
    let pod = pod();
    let events = vec![(&pod, LITERAL.to_owned()); 230];
    let (each, stats) = between_calls(CorrelatorOptions::default().spam_filter(None), &events, 230);
    assert_eq!((stats.created, stats.updated), (1, 229));
    assert_eq!((each[29..].iter().sum::<u64>(), each[29..].iter().max()), (0, Some(&0)));
}

#[test]
fn what_is_folded_allocates_its_message_too() {
    let pod = pod();
    let events: Vec<_> = (0..230).map(|number| (&pod, format!("{LITERAL}: attempt {number}"))).collect();
    let (each, stats) = between_calls(CorrelatorOptions::default().spam_filter(None), &events, 230);
    assert_eq!((stats.created, stats.updated), (10, 220));
    assert_eq!((each[29..].iter().sum::<u64>(), each[29..].iter().max()), (200, Some(&1)));
}

#[test]
fn what_is_skipped_allocates_nothing_on_the_recordings_thread() {
    let (pod, other) = (pod(), ObjectReference::new("Pod", "web-0"));
    let mut events = vec![(&pod, LITERAL.to_owned()); 230];
    for at in [28, 29, 229] {
        events[at].0 = &other;
    }
    let (each, stats) = between_calls(CorrelatorOptions::default(), &events, 28);
    assert_eq!((stats.created, stats.updated, stats.skipped), (2, 26, 202));
    assert_eq!(each.last(), Some(&0), "a repeat behind the 199 that are skipped");
}
