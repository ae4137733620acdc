//! client-go: `tools/record/event_test.go`, what events are made and how they are written, and
//! `tools/record/util/util_test.go`.

use std::collections::BTreeSet;
use std::sync::mpsc;
use std::time::Duration;

use eventcast::event::EventSource;
use eventcast::testing::{FakeClock, FakeRecorder};
use eventcast::{Event, EventBroadcaster, EventType, ObjectReference};

use crate::support::{LONG, Op, TestSink, at_once, clock, pod};

/// A call of `event`, and the count that the store has afterwards.
pub(crate) struct Row {
    pub(crate) object: ObjectReference,
    pub(crate) reason: &'static str,
    pub(crate) message: &'static str,
    count: i32,
}

const VERBOSE: &str = "some verbose message: 1";

/// The table of `TestEventf`.
pub(crate) fn rows() -> [Row; 7] {
    let row = |uid, field_path, reason, message, count| Row {
        object: pod(uid, "baz", field_path),
        reason,
        message,
        count,
    };
    [
        row("bar", "spec.containers[2]", "Started", VERBOSE, 1),
        row("bar", "", "Killed", "some other verbose message: 1", 1),
        row("bar", "spec.containers[2]", "Started", VERBOSE, 2),
        row("differentUid", "spec.containers[3]", "Started", VERBOSE, 1),
        row("bar", "spec.containers[2]", "Started", VERBOSE, 3),
        row("differentUid", "spec.containers[3]", "Stopped", VERBOSE, 1),
        row("differentUid", "spec.containers[3]", "Stopped", VERBOSE, 2),
    ]
}

/// Checks that an event agrees with the row, and that repeats are patches.
#[track_caller]
fn assert_is(op: &Op, row: &Row, namespace: &str) {
    let event = op.event();
    assert_eq!(matches!(op, Op::Patch(_)), row.count > 1);
    let times = [event.first_timestamp.unwrap(), event.last_timestamp.unwrap()];
    assert_eq!(times[0] != times[1], row.count > 1, "{times:?}");
    assert!(event.metadata.name.starts_with("foo."), "{}", event.metadata.name);
    let mut expected = Event::default();
    expected.metadata.name = event.metadata.name.clone();
    expected.metadata.namespace = namespace.into();
    expected.involved_object = row.object.clone();
    expected.reason = row.reason.into();
    expected.message = row.message.into();
    expected.source = EventSource::from("eventTest");
    expected.reporting_controller = "eventTest".into();
    expected.count = row.count;
    expected.type_ = "Normal".into();
    (expected.first_timestamp, expected.last_timestamp) = (event.first_timestamp, event.last_timestamp);
    assert_eq!(*event, expected);
}

fn recorded(clock: &FakeClock) -> EventBroadcaster {
    EventBroadcaster::builder().clock(clock.clock()).retry(at_once()).build().unwrap()
}

/// Records the event of a row a second later.
fn record(events: &EventBroadcaster, clock: &FakeClock, row: &Row) {
    clock.advance(Duration::from_secs(1));
    let recorder = events.recorder("eventTest");
    let message = format_args!("{}", row.message);
    assert!(recorder.event(&row.object, EventType::Normal, row.reason, message).is_accepted());
}

/// `TestEventf`, `TestMultiSinkCache`.
#[test]
fn repeats_patch_the_stored_event_and_a_second_recording_counts_from_one_again() {
    let clock = clock();
    let events = recorded(&clock);
    for _ in 0..2 {
        let (sink, ops) = TestSink::obliging();
        let recording = events.record_to(sink).unwrap();
        for row in rows() {
            let (line, lines) = mpsc::channel();
            let print = move |text: &str| line.send(text.to_owned()).unwrap();
            let log = events.log_to(print).unwrap();
            record(&events, &clock, &row);
            let line = lines.recv_timeout(LONG).unwrap();
            let (_, end) = line.split_once("Z  ").unwrap();
            assert_eq!(end, format!("Normal   {}  pod/foo  {}", row.reason, row.message));
            assert_is(&ops.recv_timeout(LONG).unwrap(), &row, "baz");
            log.stop();
        }
        recording.stop();
        assert!(recording.join(LONG));
        assert_eq!(ops.try_iter().count(), 0);
    }
}

/// `TestEventfNoNamespace`.
#[test]
fn an_object_without_a_namespace_has_its_events_in_the_default_one() {
    let clock = clock();
    let events = recorded(&clock);
    let (sink, ops) = TestSink::obliging();
    events.record_to(sink).unwrap();
    let object = pod("bar", "", "spec.containers[2]");
    let row = Row { object, reason: "Started", message: VERBOSE, count: 1 };
    record(&events, &clock, &row);
    assert_is(&ops.recv_timeout(LONG).unwrap(), &row, "default");
}

/// `TestGenerateEventName`.
#[test]
fn an_event_has_a_valid_name_whatever_its_object_is_called() {
    let clock = FakeClock::new(std::time::UNIX_EPOCH + Duration::from_nanos(105_999_103_295_324_396));
    let fake = FakeRecorder::with_clock(10, clock.clock());
    let long = "x".repeat(300);
    for name in ["test-pod", &long, "test.POD", "test.pod/invalid!chars?", "--test.pod/invalid!chars?"] {
        let object = ObjectReference::new("Pod", name.to_owned());
        assert!(fake.recorder("tester").normal(object, "R", "m").is_accepted());
    }
    let names: Vec<_> = fake.take().into_iter().map(|event| event.metadata.name).collect();
    assert_eq!(names[0], "test-pod.178959f726d80ec");
    for name in &names {
        assert!(is_subdomain(name), "{name}");
    }
    // The others are random, so no two of them are equal.
    assert_eq!(names.iter().collect::<BTreeSet<_>>().len(), 5, "{names:?}");
}

/// Returns whether this is a DNS subdomain, as the names of events must be.
pub(crate) fn is_subdomain(name: &str) -> bool {
    let is_inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    let is_label = |label: &str| {
        !label.is_empty() && !label.starts_with('-') && !label.ends_with('-') && label.bytes().all(is_inner)
    };
    name.len() <= 253 && name.split('.').all(is_label)
}
