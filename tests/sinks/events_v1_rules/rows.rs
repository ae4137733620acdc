//! The rules, one per row. Each row has a change to a valid event and the message with which a
//! store refuses the changed event.

use eventcast::event::EventSeries;
use eventcast::{Event, ObjectReference, Text, Timestamp};

pub(crate) type Change = fn(&mut Event);

pub(crate) fn at(seconds: i64) -> Timestamp {
    Timestamp::new(seconds, 0).unwrap()
}

pub(crate) fn good() -> Event {
    let mut event = Event::default();
    event.metadata.name = "web-0.1".into();
    event.involved_object.namespace = "blue".into();
    event.metadata.namespace = "blue".into();
    event.reason = "Started".into();
    event.message = "started".into();
    event.type_ = "Normal".into();
    event.reporting_controller = "example.com/probe".into();
    event.reporting_instance = "probe-1".into();
    event.set_action("Starting");
    event.set_event_time(at(1));
    event
}

pub(crate) fn repeated(count: i32) -> EventSeries {
    EventSeries::new(count, at(5))
}

pub(crate) fn untimed(count: i32) -> EventSeries {
    let mut series = repeated(count);
    series.last_observed_time = None;
    series
}

/// The checks that both APIs make on an event with an event time.
pub(crate) const ALWAYS: [(Change, &str); 17] = [
    (|e| e.reporting_controller = "".into(), "controller must be a qualified name, got \"\""),
    (|e| e.reporting_controller = "a b/c d".into(), "must be a qualified name, got \"a b/c d\""),
    (|e| e.reporting_controller = "a/b/c".into(), "must be a qualified name, got \"a/b/c\""),
    (|e| e.reporting_controller = "Example.com/probe".into(), "must be a qualified name"),
    (|e| e.reporting_controller = "c".repeat(64).into(), "must be a qualified name"),
    (|e| e.reporting_controller = format!("{}/c", "a".repeat(254)).into(), "must be a qualified name"),
    (|e| e.reporting_instance = "".into(), "reporting instance must be 1 to 128 bytes, got 0"),
    (|e| e.reporting_instance = "i".repeat(129).into(), "instance must be 1 to 128 bytes, got 129"),
    (|e| e.set_action(""), "action must be 1 to 128 bytes, got 0"),
    (|e| e.set_action("a".repeat(129)), "action must be 1 to 128 bytes, got 129"),
    (|e| e.reason = "".into(), "reason must be 1 to 128 bytes, got 0"),
    (|e| e.reason = "r".repeat(129).into(), "reason must be 1 to 128 bytes, got 129"),
    (|e| e.message = "m".repeat(1025).into(), "message must be 0 to 1024 bytes, got 1025"),
    (|e| e.message = "\u{20ac}".repeat(342).into(), "message must be 0 to 1024 bytes, got 1026"),
    (|e| e.involved_object.namespace = "".into(), "the object is in another namespace"),
    (|e| e.metadata.name = "".into(), "a name is required"),
    (|e| e.metadata.name = "a/b".into(), "cannot be used in a URL path"),
];

/// The checks that the stores make on a new event only if they are configured to. A server also
/// checks labels and annotations of events sent through core/v1.
pub(crate) const NEW: [(Change, &str); 23] = [
    (|e| e.type_ = "Debug".into(), "the type must be Normal or Warning, got \"Debug\""),
    (|e| e.type_ = "".into(), "the type must be Normal or Warning, got \"\""),
    (|e| e.type_ = "normal".into(), "the type must be Normal or Warning, got \"normal\""),
    (|e| e.set_series(repeated(1)), "the count of the series must be at least 2, got 1"),
    (|e| e.set_series(repeated(0)), "the count of the series must be at least 2, got 0"),
    (|e| e.set_series(repeated(-2)), "the count of the series must be at least 2, got -2"),
    (|e| e.set_series(untimed(2)), "the last observed time of the series must be set"),
    (|e| e.count = 1, "the count must be unset"),
    (|e| e.source.component = "probe".into(), "the source must be unset"),
    (|e| e.source.host = "node-1".into(), "the source must be unset"),
    (|e| e.first_timestamp = Some(at(1)), "the first time must be unset"),
    (|e| e.last_timestamp = Some(at(1)), "the last time must be unset"),
    // Only the exact second counts as unset.
    (|e| e.last_timestamp = "0001-01-01T00:00:00.5Z".parse().ok(), "the last time must be unset"),
    (|e| e.metadata.name = "Bad_Name".into(), "the name must be a DNS subdomain, got \"Bad_Name\""),
    (|e| e.metadata.name = "n".repeat(254).into(), "the name must be a DNS subdomain"),
    (
        |e| {
            e.metadata.name = "".into();
            e.metadata.set_generate_name("Bad_");
        },
        "the name must be a DNS subdomain, got \"Bad_\"",
    ),
    (
        |e| {
            e.metadata.name = "".into();
            e.metadata.set_generate_name("web.");
        },
        "the name must be a DNS subdomain, got \"web.\"",
    ),
    (|e| e.metadata.set_generate_name("Web-"), "the name must be a DNS subdomain, got \"Web-\""),
    (
        |e| {
            e.metadata.namespace = "Blue".into();
            e.involved_object.namespace = "Blue".into();
        },
        "the namespace must be a DNS subdomain, got \"Blue\"",
    ),
    (|e| label(e, "a b", "c"), "a label must be a qualified name with a value like one, got \"a b\""),
    (|e| label(e, "a", "c/d"), "a label must be a qualified name with a value like one, got \"a\""),
    (|e| annotation(e, "a\n", "c".into()), "an annotation's key must be a qualified name, got \"a\\n\""),
    (
        |e| annotation(e, "a", "x".repeat(262_144).into()),
        "the annotations must be at most 262144 bytes, got 262145",
    ),
];

/// Changes that both APIs accept.
pub(crate) const ACCEPTED: [Change; 13] = [
    |_| (),
    |e| e.reporting_controller = "c".repeat(63).into(),
    |e| e.reporting_instance = "i".repeat(128).into(),
    |e| e.set_action("a".repeat(128)),
    |e| e.reason = "r".repeat(128).into(),
    |e| e.message = "m".repeat(1024).into(),
    |e| e.message = "".into(),
    |e| e.set_series(repeated(2)),
    |e| e.metadata.namespace = "red".into(),
    |e| {
        e.involved_object.namespace = "".into();
        e.metadata.namespace = "kube-system".into();
    },
    |e| {
        e.metadata.name = "".into();
        e.metadata.set_generate_name("web-");
    },
    |e| {
        label(e, "example.com/A", "B_1");
        label(e, "empty", "");
        annotation(e, "Example.com/A", "x".repeat(262_131).into());
    },
    // Neither API checks the related object.
    |e| e.set_related(ObjectReference::default()),
];

/// Changes that an update through events.k8s.io/v1 must not make.
pub(crate) const FIXED: [(Change, &str); 13] = [
    (|e| e.involved_object.name = "web-1".into(), "involved object"),
    (|e| e.reason = "Stopped".into(), "reason"),
    (|e| e.message = "other".into(), "message"),
    (|e| e.source.component = "probe".into(), "source"),
    (|e| e.first_timestamp = Some(at(1)), "first time"),
    (|e| e.last_timestamp = Some(at(1)), "last time"),
    (|e| e.count = 2, "count"),
    (|e| e.type_ = "Warning".into(), "type"),
    (|e| e.set_event_time(at(2)), "event time"),
    (|e| e.set_action("Stopping"), "action"),
    (|e| e.set_related(ObjectReference::new("Node", "n")), "related object"),
    (|e| e.reporting_controller = "other".into(), "reporting controller"),
    (|e| e.reporting_instance = "probe-2".into(), "reporting instance"),
];

pub(crate) fn label(event: &mut Event, key: &'static str, value: &'static str) {
    event.metadata.labels_mut().insert(key.into(), value.into());
}

pub(crate) fn annotation(event: &mut Event, key: &'static str, value: Text) {
    event.metadata.annotations_mut().insert(key.into(), value);
}

pub(crate) fn changed(event: &Event, change: Change) -> Event {
    let mut event = event.clone();
    change(&mut event);
    event
}
