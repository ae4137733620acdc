//! The input formats.

use std::io::BufReader;

use eventcast::Event;
use eventcast::event::{EventReadErrorKind as Kind, EventReader};

use super::{event, names, pretty, read};

/// Returns inputs in every format, each with the events a, b and c.
pub(super) fn forms() -> Vec<(&'static str, String)> {
    let all = ["a", "b", "c"].map(event);
    let array = format!("[{}]", all.join(","));
    let list = format!(r#"{{"apiVersion":"v1","items":{array},"kind":"List","metadata":{{"items":[]}}}}"#);
    let wrapped =
        |before: &str, behind: &str| all.clone().map(|event| format!("{before}{event}{behind}\n")).concat();
    vec![
        ("lines", all.join("\n")),
        ("lines that end in CR LF", all.join("\r\n") + "\r\n"),
        ("no newlines", all.concat()),
        ("pretty, one behind the other", all.clone().map(|event| pretty(&event)).join("\n")),
        ("pretty, without a newline between", all.clone().map(|event| pretty(&event)).concat()),
        ("commas between", all.join(",\n")),
        ("a JSON sequence", all.clone().map(|event| format!("\u{1e}{event}\n")).concat()),
        ("a byte order mark", format!("\u{feff}{list}")),
        ("an array", array.clone()),
        ("a pretty array", pretty(&array)),
        ("an array with an element in each line", format!("[\n{}\n]\n", all.join(",\n"))),
        ("a list", list.clone()),
        ("a pretty list", pretty(&list)),
        ("a list whose kind comes first", format!(r#"{{"kind":"EventList","items" : {array}}}"#)),
        ("two lists and an event", {
            let one = |event: &str| format!(r#"{{"items":[{event}]}}"#);
            format!("{}{}\n{}", one(&all[0]), all[1], one(&all[2]))
        }),
        (
            "a list of lists",
            format!(r#"[{{"items":[{}]}},[[{}]],{{"items":null,"kind":"List"}},{}]"#, all[0], all[1], all[2]),
        ),
        ("empty lists around", format!("[]\n{{\"items\":[]}}\n{array}\n[ ]")),
        (
            "two lists in one object",
            format!(r#"{{"items":[{}],"x":1,"items":[{},{}]}}"#, all[0], all[1], all[2]),
        ),
        ("a watch with a bookmark", {
            let bookmark = r#"{"type":"BOOKMARK","object":{"kind":"Event","apiVersion":"v1","metadata":{"resourceVersion":"5"}}}"#;
            wrapped(r#"{"type":"ADDED","object":"#, "}") + bookmark
        }),
        ("a watch", wrapped(r#"{"type":"MODIFIED","object":"#, "}")),
        ("eventrouter", wrapped(r#"{"verb":"ADDED","old_event":{"reason":"Old"},"event":"#, "}")),
        ("a body", wrapped(r#"{"timestamp":1,"body":"#, r#","attributes":{}}"#)),
        ("a body of text", {
            all.clone().map(|event| serde_json::json!({"body": event}).to_string()).join("\n")
        }),
        ("a watch in a log", wrapped(r#"{"body":{"type":"ADDED","object":"#, "}}")),
        (
            "an audit log",
            wrapped(
                r#"{"kind":"Event","apiVersion":"audit.k8s.io/v1","requestObject":{"reason":"Old"},"responseObject":"#,
                "}",
            ),
        ),
        (
            "an audit record of a list",
            format!(
                r#"{{"kind":"Event","apiVersion":"audit.k8s.io/v1","verb":"list","responseObject":{list}}}"#
            ),
        ),
    ]
}

#[test]
fn every_form_gives_the_same_events() {
    for (form, input) in forms() {
        assert_eq!(names(&input), ["a", "b", "c"], "{form}: {input}");
    }
}

/// The result does not depend on how the underlying reader splits the input.
#[test]
fn no_boundary_of_a_buffer_changes_anything() {
    let odd = "Warning: old\n[info] up\n[1, null, x]\n{broken}\n{\"items\":[{\"a\\\"\\\\\": \"\\n\"}]}";
    let inputs = forms().into_iter().chain([("odd", odd.to_owned())]);
    for (form, input) in inputs {
        let debug = |size| {
            let reader = BufReader::with_capacity(size, input.as_bytes());
            EventReader::new(reader).map(|found| format!("{found:?}")).collect::<Vec<_>>()
        };
        let expected = debug(input.len());
        for size in [1, 2, 3, 7, 64] {
            assert_eq!(debug(size), expected, "{form} in pieces of {size}");
        }
    }
}

#[test]
fn other_spellings_of_other_programs_are_the_same_event() {
    let event = |text: &str| {
        let found: Vec<_> = EventReader::new(text.as_bytes()).collect();
        assert_eq!(found.len(), 1, "{text}");
        found.into_iter().next().unwrap().unwrap().event
    };
    let expected = Event::from_json(
        r#"{"reason":"R","count":2,"series":{"count":3},"metadata":{"name":"n"},"message":"m"}"#,
    );
    let read = event(
        r#"{"reason":"R","count":2.0,"series":{"count":3.0,"lastObservedTime":{}},"eventTime":{},"lastTimestamp":{},
        "metadata":{"name":"n","creationTimestamp":{}},"message":"old","message":"m"}"#,
    );
    assert_eq!(read, expected.unwrap());
    assert_eq!(event(r#"{"regarding":{"name":"n"},"deprecatedCount":4.0}"#).count, 4);
    assert_eq!(event(r#"{"reason":"a\ud800b \ud83d\ude00 \\ud800"}"#).reason, "a\u{fffd}b \u{1f600} \\ud800");
    let found: Vec<_> = EventReader::new(&b"{\"reason\":\"a\xffb\"}"[..]).collect();
    assert_eq!(found[0].as_ref().unwrap().event.reason, "a\u{fffd}b");
    for bad in
        [r#"{"reason":"R","count":2.5}"#, r#"{"reason":"R","count":3e9}"#, r#"{"reason":"R","eventTime":[]}"#]
    {
        assert_eq!(read_kinds(bad), [Kind::Invalid], "{bad}");
    }
}

fn read_kinds(input: &str) -> Vec<Kind> {
    read(input).errors.into_iter().map(|(kind, _)| kind).collect()
}

#[test]
fn a_deletion_is_marked_in_every_form() {
    for (before, behind) in [
        (r#"{"type":"DELETED","object":"#, "}"),
        (r#"{"verb":"DELETED","event":"#, "}"),
        (r#"{"body":{"type":"deleted","object":"#, "}}"),
        (r#"{"kind":"Event","apiVersion":"audit.k8s.io/v1","verb":"delete","responseObject":"#, "}"),
    ] {
        let input = format!("{before}{}{behind}", event("a"));
        let read = EventReader::new(input.as_bytes()).next().unwrap().unwrap();
        assert!(read.is_deleted && read.event.metadata.name == "a", "{input}");
    }
    // An event's own `type` field does not make it an envelope.
    let own = event("a").replacen('{', r#"{"type":"Deleted","count":2.0,"#, 1);
    assert!(!EventReader::new(own.as_bytes()).next().unwrap().unwrap().is_deleted);
    assert!(!EventReader::new(event("a").as_bytes()).next().unwrap().unwrap().is_deleted);
}

#[test]
fn an_error_names_a_document_that_is_no_event() {
    let text = |input: &str| {
        let error = EventReader::new(input.as_bytes()).next().unwrap().unwrap_err();
        assert!(!error.kind().is_loss(), "{error}");
        error.to_string()
    };
    assert_eq!(text(r#"{"kind":"Pod","apiVersion":"v1"}"#), "line 1: a Pod, not an Event");
    assert_eq!(
        text(r#"{"type":"ERROR","object":{"kind":"Status","message":"too old"}}"#),
        "line 1: a Status (too old), not an Event"
    );
    assert_eq!(
        text(r#"{"kind":"Event","apiVersion":"audit.k8s.io/v1","level":"Metadata"}"#),
        "line 1: an audit record without a response, not an Event"
    );
    assert_eq!(text("{}"), "line 1: a document without 'involvedObject' and 'reason', not an Event");
    assert_eq!(text("[7]"), "line 1: a number, not an Event");
    assert_eq!(text("\n[\"x\"]"), "line 2: a text, not an Event");
    assert_eq!(text("[07:30] hello"), "line 1: '[07:30] hello' is not JSON");
    assert_eq!(text("null"), "line 1: 'null' is not JSON");
    assert_eq!(text("\u{1b}[31mred"), r"line 1: '\u{1b}[31mred' is not JSON");
}
