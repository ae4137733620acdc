//! Events as JSON. The output is byte-for-byte identical to that of Go's encoder, and the tests
//! show which input is accepted.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use eventcast::event::{EventSeries, ObjectMeta};
use eventcast::{Event, EventSource, ObjectReference, Text, Timestamp};
use serde_json::Value;

pub(crate) fn at(text: &str) -> Timestamp {
    text.parse().unwrap()
}

/// Returns an event with a value in every field.
pub(crate) fn full_event() -> Event {
    let mut event = Event::default();
    event.set_kind("Event");
    event.set_api_version("v1");
    event.metadata.name = "web-0.17a6".into();
    event.metadata.set_generate_name("web-");
    event.metadata.namespace = "default".into();
    event.metadata.set_self_link("/api/v1/namespaces/default/events/web-0.17a6");
    event.metadata.set_uid("u-1");
    event.metadata.set_resource_version("7");
    event.metadata.set_creation_timestamp(at("2024-01-01T00:00:03Z"));
    // Labels are written in key order, regardless of insertion order.
    event.metadata.labels_mut().insert("z".into(), "1".into());
    event.metadata.labels_mut().insert("a".into(), "2".into());
    event.metadata.annotations_mut().insert("note".into(), "a&b".into());
    event.involved_object = ObjectReference::new("Pod", "web-0").in_namespace("default");
    event.involved_object.uid = "u-0".into();
    event.involved_object.api_version = "v1".into();
    event.involved_object.resource_version = "5".into();
    event.involved_object.field_path = "spec.containers{web}".into();
    event.reason = "BackOff".into();
    event.message = "\u{8}\u{c}\n\r\t\u{0}\u{1f}\u{7f}\u{85}\"\\/<>&\u{2028}\u{2029}é😀".into();
    event.source = EventSource::from("kubelet").on_host("node-1");
    event.first_timestamp = Some(at("2024-01-01T00:00:00.999999999Z"));
    event.last_timestamp = Some(at("2024-01-01T00:00:01.5Z"));
    event.count = 3;
    event.type_ = "Warning".into();
    event.set_event_time(at("2024-01-01T00:00:02.1234567Z"));
    event.set_series(EventSeries::new(2, at("2024-01-01T00:00:02Z")));
    event.set_action("Restart");
    event.set_related(ObjectReference::new("Node", "node-1"));
    event.reporting_controller = "kubelet".into();
    event.reporting_instance = "node-1".into();
    event
}

const FULL: &str = concat!(
    r#"{"kind":"Event","apiVersion":"v1","#,
    r#""metadata":{"name":"web-0.17a6","generateName":"web-","namespace":"default","#,
    r#""selfLink":"/api/v1/namespaces/default/events/web-0.17a6","uid":"u-1","resourceVersion":"7","#,
    r#""creationTimestamp":"2024-01-01T00:00:03Z","labels":{"a":"2","z":"1"},"#,
    r#""annotations":{"note":"a\u0026b"}},"#,
    r#""involvedObject":{"kind":"Pod","namespace":"default","name":"web-0","uid":"u-0","apiVersion":"v1","#,
    r#""resourceVersion":"5","fieldPath":"spec.containers{web}"},"reason":"BackOff","#,
    "\"message\":\"\\b\\f\\n\\r\\t\\u0000\\u001f\u{7f}\u{85}\\\"\\\\/\\u003c\\u003e\\u0026\\u2028\\u2029é😀\",",
    r#""source":{"component":"kubelet","host":"node-1"},"firstTimestamp":"2024-01-01T00:00:00Z","#,
    r#""lastTimestamp":"2024-01-01T00:00:01Z","count":3,"type":"Warning","#,
    r#""eventTime":"2024-01-01T00:00:02.123456Z","#,
    r#""series":{"count":2,"lastObservedTime":"2024-01-01T00:00:02.000000Z"},"action":"Restart","#,
    r#""related":{"kind":"Node","name":"node-1"},"reportingComponent":"kubelet","#,
    r#""reportingInstance":"node-1"}"#,
);

#[test]
fn every_field_is_written_as_go_writes_it() {
    assert_eq!(full_event().to_json(), FULL);
}

#[test]
fn an_empty_event_is_written_with_what_go_never_omits() {
    assert_eq!(
        Event::default().to_json(),
        r#"{"metadata":{},"involvedObject":{},"source":{},"firstTimestamp":null,"lastTimestamp":null,"eventTime":null,"reportingComponent":"","reportingInstance":""}"#
    );
    let mut event = Event::default();
    event.set_series(EventSeries::default());
    event.set_related(ObjectReference::default());
    assert!(event.to_json().contains(r#","series":{"lastObservedTime":null},"related":{},"#));
}

#[test]
fn a_written_document_is_read_as_the_same_event() {
    let mut event = full_event();
    event.first_timestamp = Some(at("2024-01-01T00:00:00Z"));
    event.last_timestamp = Some(at("2024-01-01T00:00:01Z"));
    event.set_event_time(at("2024-01-01T00:00:02.123456Z"));
    assert_eq!(Event::from_json(&event.to_json()).unwrap(), event);
    assert_eq!(Event::from_json(&Event::default().to_json()).unwrap(), Event::default());
    for count in [i32::MIN, -1, i32::MAX] {
        event.count = count;
        assert_eq!(Event::from_json(&event.to_json()).unwrap(), event);
    }
    for time in [at("0000-01-01T00:00:00Z"), at("9999-12-31T23:59:59Z")] {
        event.first_timestamp = Some(time);
        assert_eq!(Event::from_json(&event.to_json()).unwrap(), event);
    }
}

#[test]
fn null_is_as_good_as_absent_and_the_unknown_is_ignored() {
    let names = "kind apiVersion metadata involvedObject reason message source firstTimestamp lastTimestamp count type \
         eventTime series action related reportingComponent reportingInstance deprecatedCount";
    let mut nulls: BTreeMap<&str, Value> = names.split(' ').map(|name| (name, Value::Null)).collect();
    assert_eq!(
        serde_json::from_value::<Event>(serde_json::to_value(&nulls).unwrap()).unwrap(),
        Event::default()
    );
    nulls.insert(
        "metadata",
        serde_json::json!({"name": null, "generateName": null, "namespace": null, "selfLink": null, "uid": null,
            "resourceVersion": null, "creationTimestamp": null, "labels": null, "annotations": null,
            "managedFields": [{"manager": "x", "fieldsV1": {"f:a": {}}}], "generation": 1}),
    );
    for name in ["involvedObject", "related"] {
        nulls.insert(
            name,
            serde_json::json!({"kind": null, "namespace": null, "name": null, "uid": null, "apiVersion": null,
                "resourceVersion": null, "fieldPath": null, "more": 1}),
        );
    }
    nulls.insert("source", serde_json::json!({"component": null, "host": null, "more": [[]]}));
    nulls.insert("series", serde_json::json!({"count": null, "lastObservedTime": null, "state": "Ongoing"}));
    let mut expected = Event::default();
    expected.set_related(ObjectReference::default());
    expected.set_series(EventSeries::default());
    assert_eq!(serde_json::from_value::<Event>(serde_json::to_value(&nulls).unwrap()).unwrap(), expected);

    let labels = Event::from_json(r#"{"metadata":{"labels":{"a":null,"b":"c"}}}"#).unwrap();
    assert_eq!(labels.metadata.labels()["a"], "");
    assert_eq!(labels.metadata.labels()["b"], "c");
}

#[test]
fn gos_zero_time_is_no_time() {
    let zero = "0001-01-01T00:00:00Z";
    let json = format!(
        r#"{{"metadata":{{"creationTimestamp":"{zero}"}},"firstTimestamp":"{zero}","eventTime":"{zero}"}}"#
    );
    let event = Event::from_json(&json).unwrap();
    assert_eq!(event, Event::default());
    let mut event = Event::default();
    event.first_timestamp = Some(at(zero));
    event.metadata.set_creation_timestamp(at(zero));
    assert_eq!(event.to_json(), Event::default().to_json());
}

#[test]
fn times_may_have_any_fraction_and_offset() {
    let event = Event::from_json(
        r#"{"firstTimestamp":"2024-01-01T01:00:00.25+01:00","eventTime":"2024-01-01T00:00:00Z"}"#,
    )
    .unwrap();
    assert_eq!(event.first_timestamp, Some(at("2024-01-01T00:00:00.25Z")));
    assert_eq!(event.event_time(), Some(at("2024-01-01T00:00:00Z")));
}

#[test]
fn an_error_about_a_document_has_its_place() {
    for (json, line, column, text) in [
        ("", 1, 0, "EOF"),
        ("null", 1, 4, "null"),
        ("[]", 1, 0, "an event, as a JSON object"),
        ("{\"related\":[]}", 1, 11, "a reference to an object, as a JSON object"),
        ("{\"series\":[]}", 1, 10, "a series, as a JSON object"),
        ("{} x", 1, 4, "trailing characters"),
        ("{\"count\":2147483648}", 1, 19, "2147483648"),
        ("{\"count\":-2147483649}", 1, 20, "-2147483649"),
        ("{\"count\":1.5}", 1, 12, "1.5"),
        ("{\n\"series\":{\"count\":99999999999}}", 2, 29, "99999999999"),
        ("{\"message\":7}", 1, 12, "a string"),
        ("{\"source\":\"kubelet\"}", 1, 19, "a source, as a JSON object"),
        ("{\"metadata\":[]}", 1, 12, "metadata, as a JSON object"),
        ("{\"firstTimestamp\":\"10000-01-01T00:00:00Z\"}", 1, 41, "RFC 3339"),
        ("{\"eventTime\":\"2024-13-01T00:00:00Z\"}", 1, 35, "2024-13-01"),
        ("{\"firstTimestamp\":1700000000}", 1, 28, "an RFC 3339 time"),
        ("{\"reason\":\"a\",\"reason\":\"b\"}", 1, 22, "duplicate field"),
        ("{\"message\":\"\\ud800\"}", 1, 19, "hex escape"),
    ] {
        let error = Event::from_json(json).expect_err(json);
        let shown = error.to_string();
        assert!(shown.contains(text), "{json}: {shown}");
        assert_eq!((error.line(), error.column()), (line, column), "{json}: {shown}");
        assert!(shown.contains(&format!("line {line} column {column}")), "{json}: {shown}");
    }
}

#[test]
fn an_error_shows_text_from_outside_escaped_and_cut() {
    for payload in ["\u{1b}[2K\u{1b}[1Aweb-0", "\u{9b}31m", "\u{202e}txt.exe"] {
        let json = serde_json::json!({ "count": payload, "x": 1 }).to_string();
        let shown = Event::from_json(&json).unwrap_err().to_string();
        assert!(shown.contains(r"\u{"), "{shown}");
        assert!(!shown.contains(payload.chars().next().unwrap()), "{shown}");
    }
    let shown =
        Event::from_json(&format!("{{\"count\":\"{}\"}}", "x".repeat(10_000))).unwrap_err().to_string();
    assert!(shown.chars().count() < 400 && shown.ends_with("..."), "{shown}");
}

#[test]
fn deep_nesting_does_not_overflow_the_stack() {
    let (open, close) = ("[".repeat(100_000), "]".repeat(100_000));
    assert_eq!(Event::from_json(&format!("{{\"x\":{open}1{close}}}")).unwrap(), Event::default());
    assert!(Event::from_json(&format!("{{\"metadata\":{{\"labels\":{{\"a\":{open}1{close}}}}}}}")).is_err());
}

#[test]
fn the_parts_are_separate_documents() {
    let event = full_event();
    let value: Value = serde_json::to_value(&event).unwrap();
    assert_eq!(serde_json::from_value::<ObjectMeta>(value["metadata"].clone()).unwrap(), event.metadata);
    assert_eq!(
        serde_json::from_value::<ObjectReference>(value["involvedObject"].clone()).unwrap(),
        event.involved_object
    );
    assert_eq!(serde_json::from_value::<EventSource>(value["source"].clone()).unwrap(), event.source);
    assert_eq!(serde_json::from_str::<Text>("\"a\"").unwrap(), "a");
    assert_eq!(serde_json::to_string(&at("2024-01-01T00:00:02.5Z")).unwrap(), "\"2024-01-01T00:00:02.5Z\"");
}

/// Returns the events in the correlator's vectors, along with the JSON of those that client-go
/// itself wrote.
fn vectors() -> Vec<(Event, Option<String>)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/vectors");
    let mut found = Vec::new();
    for file in fs::read_dir(folder).unwrap() {
        let text = fs::read_to_string(file.unwrap().path()).unwrap();
        for line in text.lines().filter(|line| line.contains(r#""event":"#)) {
            let expected = line.split_once("\"expect\":{\"skip\":false,\"event\":");
            let json = expected.map(|(_, rest)| rest.split_once(",\"patch\":").unwrap().0.to_owned());
            let line: Value = serde_json::from_str(line).unwrap();
            found.push((serde_json::from_value(line["event"].clone()).unwrap(), json));
        }
    }
    found
}

#[test]
fn gos_own_output_is_reproduced_byte_for_byte() {
    let mut seen = 0;
    for json in vectors().into_iter().filter_map(|(_, json)| json) {
        let event = Event::from_json(&json).unwrap_or_else(|e| panic!("{e}: {json}"));
        assert_eq!(without_html_escapes(&event.to_json()), json);
        seen += 1;
    }
    assert_eq!(seen, 6771);
}

/// Undoes Go's HTML escaping, because it was disabled in the encoder that wrote the vectors.
fn without_html_escapes(json: &str) -> String {
    let pairs = [("003c", "<"), ("003e", ">"), ("0026", "&"), ("2028", "\u{2028}"), ("2029", "\u{2029}")];
    pairs.iter().fold(json.to_owned(), |json, (code, text)| json.replace(&format!("\\u{code}"), text))
}

/// `to_json` and the serializer, which exists for users of other formats, produce the same
/// document.
#[test]
fn the_text_and_the_serializer_agree() {
    let events = vectors();
    assert!(events.len() > 10_000);
    for (event, _) in &events {
        agree(event);
    }
    agree(&Event::default());
    let mut event = full_event();
    event.last_timestamp = Some(Timestamp::MIN);
    event.metadata.annotations_mut().insert("a<b".into(), "\u{2028}\"".into());
    event.set_series(EventSeries::new(i32::MIN, at("2024-02-29T23:59:59.123456789Z")));
    for count in [0, 1, -1, 10, 99, 100, i32::MAX, i32::MIN] {
        event.count = count;
        agree(&event);
    }
}

#[track_caller]
fn agree(event: &Event) {
    let text: Value = serde_json::from_str(&event.to_json()).unwrap();
    assert_eq!(text, serde_json::to_value(event).unwrap());
    through_the_other_api(event);
}

/// Checks that the event does not change when it is written and read back through the other API.
#[track_caller]
pub(crate) fn through_the_other_api(event: &Event) {
    let mut expected = Event::from_json(&event.to_json()).unwrap();
    expected.set_kind("Event");
    expected.set_api_version("v1");
    let json = event.to_events_v1_json();
    assert_eq!(Event::from_json(&json).unwrap(), expected, "{json}");
    assert_eq!(serde_json::from_str::<Event>(&json).unwrap(), expected, "{json}");
    assert_eq!(expected.to_events_v1_json(), json);
}

/// Each character is escaped, wherever it occurs in a longer string.
#[test]
fn every_character_is_escaped_like_in_go() {
    let mut chars: Vec<char> = ('\0'..='\u{ff}').collect();
    chars.extend(['\u{2027}', '\u{2028}', '\u{2029}', '\u{202a}', '“', 'è', '起', '😀']);
    for c in chars {
        let expected = match c {
            '<' | '>' | '&' | '\u{2028}' | '\u{2029}' => format!("\\u{:04x}", u32::from(c)),
            c => serde_json::to_string(&c)
                .unwrap()
                .trim_matches('"')
                .replace("\\\"", "\"")
                .replace('"', "\\\""),
        };
        let expected = if c == '"' { "\\\"".to_owned() } else { expected };
        for before in [0, 1, 15, 16, 17, 63, 64, 65, 130] {
            let mut event = Event::default();
            let (start, end) = ("x".repeat(before), "y".repeat(before));
            event.message = format!("{start}{c}{end}").into();
            let json = event.to_json();
            assert!(
                json.contains(&format!(r#""message":"{start}{expected}{end}","#)),
                "{c:?} after {before}: {json}"
            );
        }
    }
}

#[test]
fn another_document_than_an_event_is_refused_with_what_to_do() {
    let list = r#"{"kind":"EventList","apiVersion":"v1","metadata":{"resourceVersion":"7"},"items":[{"reason":"A"}]}"#;
    let mixed = r#"{"kind":"List","apiVersion":"v1","items":[]}"#;
    let bare_list = r#"{"metadata":{},"items":[]}"#;
    let empty_list = r#"{"kind":"EventList","apiVersion":"v1","items":null}"#;
    let items = "read each of its `items` by itself";
    let future = r#"{"kind":"Event","apiVersion":"events.k8s.io/v2","regarding":{"kind":"Pod"},"note":"n"}"#;
    let core = "get the same event as `v1`";
    for (json, found, advice) in [
        (list, "found `EventList` of `v1`", items),
        (mixed, "found `List` of `v1`", items),
        (bare_list, "found `List` of `v1`", items),
        (empty_list, "found `EventList` of `v1`", items),
        (future, "found `Event` of `events.k8s.io/v2`", core),
        (r#"{"type":"ADDED","object":{"kind":"Event"}}"#, "found an event of a watch", "read its `object`"),
        (r#"{"kind":"Pod","apiVersion":"v1"}"#, "found `Pod` of `v1`", "give an `Event` of `v1`"),
        ("{\"kind\":\"\u{202e}Pod\"}", r"found `\u{202e}Pod` of `v1`", "give an `Event`"),
    ] {
        let error = Event::from_json(json).unwrap_err().to_string();
        assert!(error.contains(found) && error.contains(advice), "{json}: {error}");
        assert!(serde_json::from_str::<Event>(json).is_err(), "{json}");
    }
    for json in [
        r#"{"kind":"Event","apiVersion":"v1"}"#,
        r#"{"kind":"","apiVersion":null}"#,
        r#"{"items":null,"regarding":null,"note":null,"object":null}"#,
        // Unknown fields of a core event are ignored.
        r#"{"involvedObject":{"kind":"Pod"},"note":"n","regarding":{},"object":1}"#,
    ] {
        assert!(Event::from_json(json).is_ok(), "{json}");
    }
}
