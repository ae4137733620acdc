//! Tests that events are read back from a store as they were written.

use std::time::Duration;

use eventcast::event::EventSeries;
use eventcast::sink::{EventQuery, SinkBatch, SinkErrorKind, SinkOp};
use eventcast::{Event, EventSink, ObjectReference, Text, Timestamp};
use eventcast_sqlite::SqliteSinkOptions;
use tempfile::tempdir;

use crate::support::contents;

use super::{clock, event, names, open, store};

/// Returns an event in which every field is set to a different value.
fn full(name: &str, text: &str) -> Event {
    let at = |seconds, nanos| Timestamp::new(seconds, nanos);
    let text = |field: &str| Text::from(format!("{field} {text}"));
    let mut event = event(name);
    event.set_kind(text("kind"));
    event.set_api_version(text("apiVersion"));
    event.metadata.set_generate_name(text("generateName"));
    event.metadata.set_self_link(text("selfLink"));
    event.metadata.labels_mut().insert(text("key"), text("value"));
    event.metadata.labels_mut().insert(text("other"), "".into());
    event.metadata.annotations_mut().insert("".into(), text("annotation"));
    event.involved_object.kind = text("object kind");
    event.involved_object.namespace = text("namespace");
    event.involved_object.name = text("object name");
    event.involved_object.uid = text("object uid");
    event.involved_object.api_version = text("object version");
    event.involved_object.resource_version = text("object resource version");
    event.involved_object.field_path = text("path");
    event.reason = text("reason");
    event.message = text("message");
    event.source.component = text("component");
    event.source.host = text("host");
    event.first_timestamp = at(-62_167_219_200, 0);
    event.last_timestamp = at(253_402_300_799, 0);
    event.count = i32::MIN;
    event.type_ = text("type");
    event.reporting_controller = text("controller");
    event.reporting_instance = text("instance");
    event.set_action(text("action"));
    event.set_event_time(at(1_700_000_000, 123_456_000));
    event.set_series(EventSeries::new(i32::MAX, at(-1, 999_999_000).unwrap()));
    event.set_related(ObjectReference::new(text("related kind"), text("related name")));
    event
}

/// Truncates the event's fields to the API server's limits for events with an event time.
fn within_limits(mut event: Event) -> Event {
    let cut = |text: &Text, bytes: usize| -> Text {
        let end = (0..=text.len().min(bytes)).rev().find(|end| text.is_char_boundary(*end)).unwrap();
        text[..end].to_owned().into()
    };
    event.reporting_controller = "example.com/controller".into();
    event.reporting_instance = cut(&event.reporting_instance, 128);
    event.set_action(cut(event.action(), 128));
    event.reason = cut(&event.reason, 128);
    event.message = cut(&event.message, 1024);
    event
}

#[test]
fn events_survive_a_restart() {
    let folder = tempdir().unwrap();
    let sink = store(&folder);
    let a = sink.create(&event("a")).unwrap();
    let b = sink.create(&event("b")).unwrap();
    assert_eq!((a.metadata.resource_version().as_str(), b.metadata.resource_version().as_str()), ("1", "2"));
    assert_ne!(a.metadata.uid(), b.metadata.uid());
    drop(sink);

    // After a clean close, only the database file remains.
    assert_eq!(contents(&folder).len(), 1);
    let sink = store(&folder);
    assert_eq!(sink.events().unwrap(), [a.clone(), b]);
    let mut again = a.clone();
    again.count = 2;
    let a = sink.patch(&again).unwrap();
    assert_eq!(a.metadata.resource_version(), "3");
    let c = sink.create(&event("c")).unwrap();
    assert_eq!(c.metadata.uid().split_at(24).0, a.metadata.uid().split_at(24).0);
    assert_eq!(sink.stats().unwrap().to_string().split_at(25).0, "stored 3, created 3, upda");
    assert_eq!(sink.get("default", "c").unwrap(), Some(c));
    assert_eq!(sink.get("elsewhere", "c").unwrap(), None);
}

#[test]
fn every_field_and_every_character_is_read_back_unchanged() {
    let folder = tempdir().unwrap();
    let sink = store(&folder);
    let every: String = (0..=0x2FF)
        .chain([0x2028, 0x202E, 0xFEFF, 0xFFFD, 0xFFFF, 0x1F600])
        .filter_map(char::from_u32)
        .collect();
    let texts = [
        "",
        "plain",
        "'); DROP TABLE events;--",
        "\"; DELETE FROM events; --",
        "?1 :a @b $c %s {}",
        "\0",
        "before\0after",
        "\u{1b}[2J\r\n\u{9b}31m",
        &every,
        &"x".repeat(100_000),
    ];
    let mut stored = Vec::new();
    for (number, text) in texts.iter().enumerate() {
        stored.push(sink.create(&within_limits(full(&format!("{number}"), text))).unwrap());
        // In an event without an event time, each field may contain any string.
        let mut event = full(&format!("{number} whole"), text);
        event.set_event_time(None);
        stored.push(sink.create(&event).unwrap());
        let mut named = self::event(&text.replace('/', ""));
        named.message = (*text).to_owned().into();
        match sink.create(&named) {
            Ok(event) => stored.push(event),
            Err(error) => assert!(named.metadata.name.is_empty(), "{error}"),
        }
    }
    assert_eq!(stored.len(), 3 * texts.len() - 1);
    assert_eq!(sink.events().unwrap(), stored);
    drop(sink);
    let sink = store(&folder);
    assert_eq!(sink.events().unwrap(), stored);
    for event in &stored {
        let (namespace, name) = (&event.metadata.namespace, &event.metadata.name);
        assert_eq!(sink.get(namespace, name).unwrap().as_ref(), Some(event));
        let query =
            EventQuery::default().object(&event.involved_object).type_(&event.type_).reason(&event.reason);
        assert!(sink.find(&query).unwrap().contains(event));
        let mut again = event.clone();
        again.count = 7;
        assert_eq!(sink.patch(&again).unwrap().count, 7);
    }
}

#[test]
fn an_event_expires_an_hour_after_its_last_write_by_any_process() {
    let folder = tempdir().unwrap();
    let clock = clock();
    let sink = open(&folder, &clock, SqliteSinkOptions::default());
    sink.create(&event("kept")).unwrap();
    let idle = sink.create(&event("idle")).unwrap();
    clock.advance(Duration::from_secs(3599));
    let mut again = event("kept");
    again.count = 2;
    sink.patch(&again).unwrap();
    assert_eq!(sink.len().unwrap(), 2);
    drop(sink);

    // Time passes while no process is running.
    clock.advance(Duration::from_secs(1));
    let long = SqliteSinkOptions::default().ttl(Duration::from_secs(7200));
    let sink = open(&folder, &clock, long);
    assert_eq!(names(&sink.events().unwrap()), ["kept"]);
    assert_eq!(sink.get("default", "idle").unwrap(), None);
    let stats = sink.stats().unwrap();
    assert_eq!((stats.stored, stats.created, stats.expired), (1, 2, 1));
    assert_eq!(sink.patch(&idle).unwrap_err().kind(), SinkErrorKind::NotFound);
    // The name is available again, and the new event has the time to live of the store that wrote
    // it.
    sink.create(&event("idle")).unwrap();
    clock.advance(Duration::from_secs(3599));
    assert_eq!(names(&sink.events().unwrap()), ["idle"]);
    clock.advance(Duration::from_secs(3601));
    assert!(sink.is_empty().unwrap());
    let stats = sink.stats().unwrap();
    assert_eq!(stats.created, stats.stored + stats.expired + stats.evicted);
}

/// The store contains more expired events than one transaction removes. The remaining expired
/// events are not returned, and their names are available.
#[test]
fn expired_events_do_not_block_writers() {
    let folder = tempdir().unwrap();
    let clock = clock();
    let sink = open(&folder, &clock, SqliteSinkOptions::default());
    let ops = (0..10_000).map(|i| SinkOp::Create(event(&format!("{i}")))).collect();
    assert!(SinkBatch::perform(ops, &sink).iter().all(Result::is_ok));
    clock.advance(Duration::from_secs(3600));
    assert!(sink.is_empty().unwrap());
    for name in ["9999", "9998", "5000", "0"] {
        sink.create(&event(name)).unwrap();
        let stats = sink.stats().unwrap();
        assert_eq!(stats.created, stats.stored + stats.expired + stats.evicted);
    }
    assert_eq!(names(&sink.events().unwrap()), ["9999", "9998", "5000", "0"]);
    let path = folder.path().join("events.db");
    let rows = "SELECT count(*) FROM events";
    let rows: i64 = rusqlite::Connection::open(path).unwrap().query_row(rows, [], |row| row.get(0)).unwrap();
    assert_eq!(rows, 4);
}

/// The columns and their format are part of the API for users who read the file by hand.
#[test]
fn it_can_be_read_by_hand() {
    let folder = tempdir().unwrap();
    let clock = clock();
    let sink = open(&folder, &clock, SqliteSinkOptions::default());
    let mut event = within_limits(full("a", ""));
    event.metadata.name = "web-0.1".into();
    event.first_timestamp = Timestamp::new(1_700_000_000, 999);
    sink.create(&event).unwrap();
    drop(sink);
    let connection = rusqlite::Connection::open(folder.path().join("events.db")).unwrap();
    let text = |column: &str| -> String {
        let sql = format!("SELECT CAST({column} AS TEXT) FROM events WHERE name = 'web-0.1'");
        connection.query_row(&sql, [], |row| row.get(0)).unwrap()
    };
    for (column, expected) in [
        ("resourceVersion", "1"),
        ("namespace", "namespace "),
        ("uid", "17979cfe-362a-4000-8000-000000000001"),
        ("creationTimestamp", "2023-11-14T22:13:20Z"),
        ("type", "type "),
        ("reason", "reason "),
        ("message", "message "),
        ("count", "-2147483648"),
        ("firstTimestamp", "2023-11-14T22:13:20Z"),
        ("lastTimestamp", "9999-12-31T23:59:59Z"),
        ("eventTime", "2023-11-14T22:13:20.123456Z"),
        ("action", "action "),
        ("sourceComponent", "component "),
        ("sourceHost", "host "),
        ("reportingComponent", "example.com/controller"),
        ("reportingInstance", "instance "),
        ("involvedObjectKind", "object kind "),
        ("involvedObjectNamespace", "namespace "),
        ("involvedObjectName", "object name "),
        ("involvedObjectUid", "object uid "),
        ("involvedObjectApiVersion", "object version "),
        ("involvedObjectResourceVersion", "object resource version "),
        ("involvedObjectFieldPath", "path "),
        ("lastSeen", "1969-12-31T23:59:59.999999Z"),
        ("expires", "2023-11-14T23:13:20.000000Z"),
        ("json_extract(rest, '$.series.count')", "2147483647"),
        ("json_extract(rest, '$.metadata.labels.\"key \"')", "value "),
    ] {
        assert_eq!(text(column), expected, "{column}");
    }
    let mode: String = connection.pragma_query_value(None, "journal_mode", |row| row.get(0)).unwrap();
    assert_eq!(mode, "wal");
}

#[test]
fn queries_use_the_indexes() {
    let folder = tempdir().unwrap();
    drop(store(&folder));
    let connection = rusqlite::Connection::open(folder.path().join("events.db")).unwrap();
    for (condition, index) in [
        ("substr(name, -16) = substr(?2, -16) AND namespace = ?1 AND name = ?2", "eventsByName"),
        (
            "involvedObjectName = ? AND involvedObjectKind = ? COLLATE NOCASE \
             AND resourceVersion / 4096 = ? AND resourceVersion BETWEEN ? AND ?",
            "eventsByObject",
        ),
        ("type = ?", "eventsByType"),
        ("reason = ?", "eventsByReason"),
    ] {
        let sql = format!(
            "EXPLAIN QUERY PLAN SELECT * FROM events WHERE +expires > ? AND {condition} \
             ORDER BY resourceVersion DESC"
        );
        let mut statement = connection.prepare(&sql).unwrap();
        let values = vec!["x"; statement.parameter_count()];
        let plan: Vec<String> = statement
            .query_map(rusqlite::params_from_iter(values), |row| row.get(3))
            .unwrap()
            .map(Result::unwrap)
            .collect();
        assert!(plan[0].contains(index), "{condition}: {plan:?}");
        assert!(plan.len() == 1, "it is sorted: {plan:?}");
    }
}
