//! Items with their counts, from the recorder to the store.

use std::sync::mpsc;
use std::time::Duration;

use eventcast::EventType::Normal;
use eventcast::sink::SinkOp;
use eventcast::testing::FakeClock;
use eventcast::{EventBroadcaster, ObjectReference};

use crate::support::{LONG, Scripted, assert_balanced, clock, event_of, short};

use super::broadcaster;

/// Object, reason and message of each event, what the sink is asked to do, and the count.
type Item = (ObjectReference, &'static str, &'static str, &'static str, i32);

/// Returns the items of client-go's `TestEventf`.
fn seven_items() -> [Item; 7] {
    let reference = |uid: &'static str, field_path: &'static str| {
        let mut reference = ObjectReference::new("Pod", "foo").in_namespace("baz");
        reference.uid = uid.into();
        reference.api_version = "v1".into();
        reference.field_path = field_path.into();
        reference
    };
    let (bar, different) = ("bar", "differentUid");
    let (two, three) = ("spec.containers[2]", "spec.containers[3]");
    let (some, other) = ("some verbose message: 1", "some other verbose message: 1");
    [
        (reference(bar, two), "Started", some, "create", 1),
        (reference(bar, ""), "Killed", other, "create", 1),
        (reference(bar, two), "Started", some, "patch", 2),
        (reference(different, three), "Started", some, "create", 1),
        (reference(bar, two), "Started", some, "patch", 3),
        (reference(different, three), "Stopped", some, "create", 1),
        (reference(different, three), "Stopped", some, "patch", 2),
    ]
}

/// Records the items a second apart, and checks what the sink was asked to do.
fn record_seven(events: &EventBroadcaster, clock: &FakeClock, sink: &Scripted) {
    let recorder = events.recorder("eventTest");
    for (i, (object, reason, message, verb, count)) in seven_items().into_iter().enumerate() {
        clock.advance(Duration::from_secs(1));
        assert!(recorder.event(&object, Normal, reason, format_args!("{message}")).is_accepted());
        events.flush(LONG).unwrap();
        let calls = sink.calls();
        assert_eq!(calls.len(), i + 1);
        let event = event_of(&calls[i]);
        assert_eq!(short(&calls[i]), format!("{verb} {reason} x{count}"), "item {i}");
        assert!(event.metadata.name.starts_with("foo."), "item {i}: {}", event.metadata.name);
        assert_eq!(event.metadata.namespace, "baz");
        assert_eq!(event.involved_object, object);
        assert_eq!((&*event.message, &*event.type_), (message, "Normal"));
        assert_eq!((&*event.source.component, &*event.source.host), ("eventTest", ""));
        assert_eq!((&*event.reporting_controller, &*event.reporting_instance), ("eventTest", ""));
        assert_eq!(event.first_timestamp == event.last_timestamp, count == 1, "item {i}");
        if let SinkOp::Patch(event) = &calls[i] {
            let at = event.last_timestamp.unwrap();
            let json = format!(r#"{{"count":{count},"lastTimestamp":"{at:.0}","message":"{message}"}}"#);
            assert_eq!(event.to_patch_json(), json);
        }
    }
}

#[test]
fn seven_events_become_four_with_counts() {
    let clock = clock();
    let events = broadcaster(&clock);
    let sink = Scripted::obedient(&clock);
    let (lines_tx, lines) = mpsc::channel();
    events.log_to(move |line| lines_tx.send(line.to_owned()).unwrap()).unwrap();
    let recording = events.record_to(sink.clone()).unwrap();
    record_seven(&events, &clock, &sink);

    let counts: Vec<i32> = sink.store.events().iter().map(|event| event.count).collect();
    assert_eq!(counts, [1, 1, 3, 2]);
    let stats = recording.stats();
    assert_eq!((stats.created, stats.updated, stats.retried), (4, 3, 0));
    assert_balanced(&stats);
    drop(events);
    assert_eq!(
        lines.iter().next().unwrap(),
        "2023-11-14T22:13:21Z  Normal   Started  pod/foo  some verbose message: 1"
    );
    assert_eq!(lines.iter().count(), 6);
}

/// client-go's `TestMultiSinkCache`: each recording counts on its own.
#[test]
fn a_second_sink_starts_counting_anew() {
    let clock = clock();
    let events = broadcaster(&clock);
    for _ in 0..2 {
        let sink = Scripted::obedient(&clock);
        let recording = events.record_to(sink.clone()).unwrap();
        record_seven(&events, &clock, &sink);
        recording.stop();
        assert!(recording.join(LONG));
    }
}
