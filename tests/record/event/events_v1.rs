//! The events.k8s.io/v1 representation: its format, and its equivalence to the core/v1
//! representation.

use eventcast::event::EventSeries;
use eventcast::{Event, ObjectReference, Text, Timestamp};

use super::json::{self, at, through_the_other_api};

/// Returns an event with a value in every field, with times at the precision that Kubernetes keeps.
fn full_event() -> Event {
    Event::from_json(&json::full_event().to_json()).unwrap()
}

/// The JSON document for `full_event`, with fields in the order in which client-go 1.36 writes
/// them.
const FULL: &str = concat!(
    r#"{"kind":"Event","apiVersion":"events.k8s.io/v1","#,
    r#""metadata":{"name":"web-0.17a6","generateName":"web-","namespace":"default","#,
    r#""selfLink":"/api/v1/namespaces/default/events/web-0.17a6","uid":"u-1","resourceVersion":"7","#,
    r#""creationTimestamp":"2024-01-01T00:00:03Z","labels":{"a":"2","z":"1"},"#,
    r#""annotations":{"note":"a\u0026b"}},"eventTime":"2024-01-01T00:00:02.123456Z","#,
    r#""series":{"count":2,"lastObservedTime":"2024-01-01T00:00:02.000000Z"},"#,
    r#""reportingController":"kubelet","reportingInstance":"node-1","action":"Restart","#,
    r#""reason":"BackOff","regarding":{"kind":"Pod","namespace":"default","name":"web-0","uid":"u-0","#,
    r#""apiVersion":"v1","resourceVersion":"5","fieldPath":"spec.containers{web}"},"#,
    r#""related":{"kind":"Node","name":"node-1"},"#,
    "\"note\":\"\\b\\f\\n\\r\\t\\u0000\\u001f\u{7f}\u{85}\\\"\\\\/\\u003c\\u003e\\u0026\\u2028\\u2029é😀\",",
    r#""type":"Warning","deprecatedSource":{"component":"kubelet","host":"node-1"},"#,
    r#""deprecatedFirstTimestamp":"2024-01-01T00:00:00Z","#,
    r#""deprecatedLastTimestamp":"2024-01-01T00:00:01Z","deprecatedCount":3}"#,
);

#[test]
fn every_field_is_written_under_the_other_name() {
    assert_eq!(full_event().to_events_v1_json(), FULL);
    // The event's own API version does not matter.
    let mut bare = full_event();
    bare.set_kind("");
    bare.set_api_version("");
    assert_eq!(bare.to_events_v1_json(), FULL);
}

#[test]
fn an_empty_event_is_written_with_what_go_never_omits() {
    let head = r#"{"kind":"Event","apiVersion":"events.k8s.io/v1","metadata":{},"eventTime":null,"#;
    let tail = r#""deprecatedSource":{},"deprecatedFirstTimestamp":null,"deprecatedLastTimestamp":null}"#;
    assert_eq!(Event::default().to_events_v1_json(), format!(r#"{head}"regarding":{{}},{tail}"#));
    let mut event = Event::default();
    event.set_series(EventSeries::default());
    event.set_related(ObjectReference::default());
    let series = r#""series":{"count":0,"lastObservedTime":null},"#;
    let expected = format!(r#"{head}{series}"regarding":{{}},"related":{{}},{tail}"#);
    assert_eq!(event.to_events_v1_json(), expected);
}

/// The API server does not truncate times, but refuses times with any number of digits other than
/// six.
#[test]
fn micro_times_have_exactly_six_digits() {
    for (time, written) in [
        ("2024-01-01T00:00:02Z", "2024-01-01T00:00:02.000000Z"),
        ("2024-01-01T00:00:02.5Z", "2024-01-01T00:00:02.500000Z"),
        ("2024-01-01T00:00:02.123456999Z", "2024-01-01T00:00:02.123456Z"),
        ("1969-12-31T23:59:59.999999999Z", "1969-12-31T23:59:59.999999Z"),
    ] {
        let mut event = Event::default();
        event.set_event_time(at(time));
        event.set_series(EventSeries::new(2, at(time)));
        let json = event.to_events_v1_json();
        assert!(json.contains(&format!(r#""eventTime":"{written}""#)), "{json}");
        assert!(json.contains(&format!(r#""lastObservedTime":"{written}""#)), "{json}");
    }
}

#[test]
fn both_documents_are_the_same_event() {
    assert_eq!(Event::from_json(FULL).unwrap(), full_event());
    through_the_other_api(&full_event());
    through_the_other_api(&Event::default());
    for count in [i32::MIN, -1, i32::MAX] {
        let mut event = full_event();
        event.count = count;
        event.set_series(EventSeries::new(count, Timestamp::UNIX_EPOCH));
        through_the_other_api(&event);
    }
}

#[test]
fn the_version_decides_which_names_count() {
    let read = |json: &str| Event::from_json(json).unwrap_or_else(|error| panic!("{json}: {error}"));
    let names = concat!(
        r#""involvedObject":{"name":"old"},"message":"old","reportingComponent":"old","count":1,"#,
        r#""source":{"component":"old"},"firstTimestamp":"2024-01-01T00:00:01Z","#,
        r#""lastTimestamp":"2024-01-01T00:00:01Z","#,
        r#""regarding":{"name":"new"},"note":"new","reportingController":"new","deprecatedCount":2,"#,
        r#""deprecatedSource":{"component":"new"},"deprecatedFirstTimestamp":"2024-01-01T00:00:02Z","#,
        r#""deprecatedLastTimestamp":"2024-01-01T00:00:02Z""#
    );
    for (version, found, count) in [
        (r#""apiVersion":"v1","#, "old", 1),
        ("", "old", 1),
        (r#""apiVersion":"events.k8s.io/v1","#, "new", 2),
        (r#""apiVersion":"events.k8s.io/v1beta1","#, "new", 2),
    ] {
        let event = read(&format!(r#"{{"kind":"Event",{version}{names}}}"#));
        let texts = [
            &event.involved_object.name,
            &event.message,
            &event.reporting_controller,
            &event.source.component,
        ];
        assert_eq!(texts.map(Text::as_str), [found; 4], "{version}");
        let second = Some(Timestamp::new(1_704_067_200 + i64::from(count), 0).unwrap());
        assert_eq!((event.first_timestamp, event.last_timestamp, event.count), (second, second, count));
        assert_eq!(event.api_version(), if version.is_empty() { "" } else { "v1" });
    }
}

#[test]
fn a_document_without_a_version_is_known_by_its_names() {
    for (json, object, message) in [
        (r#"{"regarding":{"name":"a"}}"#, "a", ""),
        (r#"{"note":"n"}"#, "", "n"),
        (r#"{"reportingController":"c","message":"m"}"#, "", ""),
        (r#"{"involvedObject":{},"note":"n"}"#, "", "n"),
        (r#"{"involvedObject":{"name":"a"},"regarding":{"name":"b"},"note":"n"}"#, "a", ""),
        (r#"{"message":"m","regarding":null,"note":null,"reportingController":null}"#, "", "m"),
    ] {
        let event = Event::from_json(json).unwrap();
        assert_eq!((&*event.involved_object.name, &*event.message), (object, message), "{json}");
        assert_eq!(event.api_version(), "");
    }
}

#[test]
fn an_error_about_a_field_has_its_line() {
    for (field, expected) in [
        (r#""note":7"#, "invalid type: integer `7`, expected a string"),
        (r#""regarding":[]"#, "expected a reference to an object, as a JSON object"),
        (r#""deprecatedSource":"kubelet""#, "expected a source, as a JSON object"),
        (r#""deprecatedCount":3000000000"#, "expected i32"),
        (r#""deprecatedLastTimestamp":"now""#, "RFC 3339"),
        (r#""series":7"#, "expected a series, as a JSON object"),
    ] {
        let json = format!("{{\"apiVersion\":\"events.k8s.io/v1\",\n{field}}}");
        let error = Event::from_json(&json).unwrap_err();
        assert!(error.to_string().contains(expected), "{field}: {error}");
        assert_eq!(error.line(), 2, "{field}: {error}");
    }
}
