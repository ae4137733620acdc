//! The lives of series that client-go 0.36 gives them, at its own times.

use eventcast::EventType::{Normal, Warning};
use eventcast::record::SeriesOptions;
use eventcast::{EventSource, ObjectReference};

use crate::support::{LONG, pod};

use super::{as_client_go, line};

#[test]
fn a_series_has_a_first_a_second_and_a_last_write() {
    let mut line = line(as_client_go());
    for second in 1..=11 {
        line.record(0, second, "a");
    }
    line.at(6, 0);
    line.expect(12, 0, 3);
    line.record(12, 5, "a");
    let names: Vec<_> = line.sink.store.events().into_iter().map(|event| event.metadata.name).collect();
    assert_eq!((names.len(), names[0] == names[1]), (2, false));
    let calls = line.end();
    assert_eq!(calls, ["0:01 create a", "0:02 patch a x2 0:02", "12:00 patch a x11 0:11", "12:05 create a"]);
}

#[test]
fn an_event_that_comes_once_is_forgotten_without_a_write() {
    let mut line = line(as_client_go());
    line.record(0, 1, "a");
    line.at(6, 0);
    line.record(12, 1, "a");
    assert_eq!(line.end(), ["0:01 create a", "12:01 create a"]);
}

#[test]
fn a_series_ends_at_client_go_s_next_tick_after_the_silence() {
    let mut late = line(as_client_go());
    late.record(0, 1, "a");
    late.at(6, 0);
    late.record(11, 59, "a");
    late.at(12, 0);
    late.expect(18, 0, 3);
    late.record(18, 1, "a");
    let calls = late.end();
    assert_eq!(
        calls,
        ["0:01 create a", "11:59 patch a x2 11:59", "18:00 patch a x2 11:59", "18:01 create a"]
    );
    // A silence of exactly the time is not long enough.
    let mut exact = line(as_client_go());
    exact.record(0, 1, "a");
    exact.record(6, 0, "a");
    exact.at(12, 0);
    exact.record(17, 59, "a");
    exact.at(18, 0);
    exact.expect(24, 0, 3);
    assert_eq!(exact.end(), ["0:01 create a", "6:00 patch a x2 6:00", "24:00 patch a x3 17:59"]);
}

#[test]
fn a_series_that_goes_on_is_refreshed() {
    let mut line = line(as_client_go());
    for five in 0..13 {
        line.expect(
            5 * five,
            0,
            match five {
                0 => 0,
                1 => 1,
                2..6 => 2,
                6..12 => 3,
                _ => 4,
            },
        );
        line.record(5 * five, 1, "a");
    }
    let calls = line.end();
    let expected =
        ["0:01 create a", "5:01 patch a x2 5:01", "30:00 patch a x6 25:01", "60:00 patch a x12 55:01"];
    assert_eq!(calls[..4], expected);
    // The last one was held until the end.
    assert_eq!(calls[4..], ["60:01 patch a x13 60:01"]);
}

#[test]
fn only_the_series_that_is_silent_ends() {
    let mut line = line(as_client_go());
    for second in 0..10 {
        line.record(3, second, "a");
    }
    line.record(11, 59, "b");
    line.expect(12, 0, 4);
    line.record(12, 1, "b");
    let expected = ["3:00 create a", "3:01 patch a x2 3:01", "11:59 create b", "12:00 patch a x10 3:09"];
    let calls = line.end();
    assert_eq!(calls[..4], expected);
    assert_eq!(calls[4..], ["12:01 patch b x2 12:01"]);
}

#[test]
fn what_belongs_to_the_key_is_an_option() {
    let calls = |options: SeriesOptions| {
        let mut line = line(options);
        for (version, message) in [("1", "one"), ("2", "one"), ("2", "two")] {
            let mut object = pod("a");
            object.resource_version = version.into();
            line.record_about(0, 1, object, message);
        }
        let messages: Vec<_> = line.sink.store.events().into_iter().map(|event| event.message).collect();
        let created = line.end().iter().filter(|call| call.contains("create")).count();
        assert_eq!(messages[0], "one", "the first message stays");
        (messages.len(), created)
    };
    assert_eq!(calls(SeriesOptions::default()), (1, 1));
    assert_eq!(calls(SeriesOptions::default().resource_version_in_key(true)), (2, 2));
    assert_eq!(calls(SeriesOptions::default().message_in_key(true)), (2, 2));
}

/// Each field of client-go's key makes another series, and nothing else does.
#[test]
fn a_series_has_the_key_of_client_go() {
    let mut line = line(SeriesOptions::default());
    let object = || ObjectReference::new("Pod", "a").in_namespace("shop");
    let changed: Vec<_> = [
        |object: &mut ObjectReference| object.kind = "Node".into(),
        |object: &mut ObjectReference| object.namespace = "other".into(),
        |object: &mut ObjectReference| object.name = "b".into(),
        |object: &mut ObjectReference| object.uid = "u".into(),
        |object: &mut ObjectReference| object.api_version = "v2".into(),
        |object: &mut ObjectReference| object.field_path = "spec".into(),
    ]
    .into_iter()
    .map(|change| {
        let mut other = object();
        change(&mut other);
        other
    })
    .collect();
    let recorder = &line.recorder;
    let other = |controller, instance| line.events.recorder(EventSource::from(controller).on_host(instance));
    let (controller, instance) = (other("other", "web-7"), other("web", "web-8"));
    let mut drafts = vec![
        recorder.draft(object(), Normal, "R"),
        recorder.draft(object(), Warning, "R"),
        recorder.draft(object(), Normal, "S"),
        recorder.draft(object(), Normal, "R").action("A"),
        recorder.draft(object(), Normal, "R").related(object()),
        controller.draft(object(), Normal, "R"),
        instance.draft(object(), Normal, "R"),
    ];
    for other in changed {
        drafts.push(recorder.draft(other.clone(), Normal, "R"));
        drafts.push(recorder.draft(object(), Normal, "R").related(other));
    }
    let series = drafts.len();
    // These belong to the first one.
    drafts.push(recorder.draft(object(), Normal, "R").label("a", "b").annotation("c", "d").message("other"));
    line.recorded = drafts.len() as u64;
    assert!(drafts.into_iter().all(|draft| draft.record().is_accepted()));
    line.events.flush(LONG).unwrap();
    assert_eq!((series, line.sink.store.len()), (19, 19));
    line.end();
}
