//! The store in a file, through its public interface: the events that it keeps, its answers and its
//! queries.

use std::time::{Duration, SystemTime};

use eventcast::event::{EventPatch, EventSeries};
use eventcast::sink::{
    EventQuery, SinkErrorKind, SinkOp, SqliteErrorKind, SqliteSinkOptions, SqliteSynchronous,
};
use eventcast::stats::SqliteSinkStats;
use eventcast::testing::FakeClock;
use eventcast::{
    Event, EventBroadcaster, EventSink, EventType, ObjectReference, SqliteSink, Text, Timestamp,
};
use tempfile::{TempDir, tempdir};

use crate::support::contents;

fn clock() -> FakeClock {
    FakeClock::new(SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000))
}

fn open(folder: &TempDir, clock: &FakeClock, options: SqliteSinkOptions) -> SqliteSink {
    SqliteSink::with_clock(folder.path().join("events.db"), options, clock.clock()).unwrap()
}

fn store(folder: &TempDir) -> SqliteSink {
    SqliteSink::open(folder.path().join("events.db")).unwrap()
}

fn event(name: &str) -> Event {
    let mut event = Event::default();
    event.metadata.name = name.to_owned().into();
    event.involved_object = ObjectReference::new("Pod", "web-0");
    event.type_ = EventType::Normal.into();
    event.reason = "Started".into();
    event.message = "started".into();
    event.count = 1;
    event
}

fn names(events: &[Event]) -> Vec<&str> {
    events.iter().map(|event| event.metadata.name.as_str()).collect()
}

/// Returns an event in which every field is set, each to another value.
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

/// Returns the event within the limits of the API server for events that have an event time.
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
fn what_is_stored_is_there_after_the_next_start() {
    let folder = tempdir().unwrap();
    let sink = store(&folder);
    let a = sink.create(&event("a")).unwrap();
    let b = sink.create(&event("b")).unwrap();
    assert_eq!((a.metadata.resource_version().as_str(), b.metadata.resource_version().as_str()), ("1", "2"));
    assert_ne!(a.metadata.uid(), b.metadata.uid());
    drop(sink);

    // After an orderly close there is one file.
    assert_eq!(contents(&folder).len(), 1);
    let sink = store(&folder);
    assert_eq!(sink.events().unwrap(), [a.clone(), b]);
    let mut again = a.clone();
    again.count = 2;
    let a = sink.patch(&again, &EventPatch::new(&again)).unwrap();
    assert_eq!(a.metadata.resource_version(), "3");
    let c = sink.create(&event("c")).unwrap();
    assert_eq!(c.metadata.uid().split_at(24).0, a.metadata.uid().split_at(24).0);
    assert_eq!(sink.stats().unwrap().to_string().split_at(25).0, "stored 3, created 3, upda");
    assert_eq!(sink.get("default", "c").unwrap(), Some(c));
    assert_eq!(sink.get("elsewhere", "c").unwrap(), None);
}

#[test]
fn every_field_and_every_character_comes_back_as_it_was() {
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
        // Without an event time each text may be anything.
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
            EventQuery::new().object(&event.involved_object).type_(&event.type_).reason(&event.reason);
        assert!(sink.find(&query).unwrap().contains(event));
        let mut again = event.clone();
        again.count = 7;
        assert_eq!(sink.patch(&again, &EventPatch::new(&again)).unwrap().count, 7);
    }
}

#[test]
fn an_event_expires_an_hour_after_its_last_write_whoever_writes() {
    let folder = tempdir().unwrap();
    let clock = clock();
    let sink = open(&folder, &clock, SqliteSinkOptions::default());
    sink.create(&event("kept")).unwrap();
    let idle = sink.create(&event("idle")).unwrap();
    clock.advance(Duration::from_secs(3599));
    let mut again = event("kept");
    again.count = 2;
    sink.patch(&again, &EventPatch::new(&again)).unwrap();
    assert_eq!(sink.len().unwrap(), 2);
    drop(sink);

    // Time passes while no process runs.
    clock.advance(Duration::from_secs(1));
    let long = SqliteSinkOptions::default().ttl(Duration::from_secs(7200));
    let sink = open(&folder, &clock, long);
    assert_eq!(names(&sink.events().unwrap()), ["kept"]);
    assert_eq!(sink.get("default", "idle").unwrap(), None);
    let stats = sink.stats().unwrap();
    assert_eq!((stats.stored, stats.created, stats.expired), (1, 2, 1));
    assert_eq!(sink.patch(&idle, &EventPatch::new(&idle)).unwrap_err().kind(), SinkErrorKind::NotFound);
    // The name is free again, and the new event has the time to live of the store that wrote it.
    sink.create(&event("idle")).unwrap();
    clock.advance(Duration::from_secs(3599));
    assert_eq!(names(&sink.events().unwrap()), ["idle"]);
    clock.advance(Duration::from_secs(3601));
    assert!(sink.is_empty().unwrap());
    let stats = sink.stats().unwrap();
    assert_eq!(stats.created, stats.stored + stats.expired + stats.evicted);
}

/// More events have expired than one transaction removes. The remaining ones are not seen, and
/// their names are free.
#[test]
fn what_expired_while_nobody_looked_holds_nobody_up() {
    let folder = tempdir().unwrap();
    let clock = clock();
    let sink = open(&folder, &clock, SqliteSinkOptions::default());
    let ops: Vec<_> = (0..10_000).map(|i| SinkOp::Create(event(&format!("{i}")))).collect();
    assert!(sink.apply(&ops).iter().all(Result::is_ok));
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

#[test]
fn operations_in_a_batch_have_an_answer_each() {
    let folder = tempdir().unwrap();
    let sink = store(&folder);
    let batch = [
        SinkOp::Patch(event("a"), EventPatch::new(&event("a"))),
        SinkOp::Create(event("a")),
        SinkOp::Create(event("")),
        SinkOp::Create(event("a")),
        SinkOp::Update(event("b")),
    ];
    let answers = sink.apply(&batch);
    let kinds: Vec<_> =
        answers.iter().map(|answer| answer.as_ref().map_err(eventcast::SinkError::kind).err()).collect();
    assert_eq!(
        kinds,
        [
            Some(SinkErrorKind::NotFound),
            None,
            Some(SinkErrorKind::Rejected),
            Some(SinkErrorKind::AlreadyExists),
            None
        ]
    );
    let taken = answers[3].as_ref().unwrap_err();
    assert_eq!(taken.stored(), answers[1].as_ref().ok());
    assert_eq!(taken.to_string(), "already exists: events \"a\" in namespace default");
    assert_eq!(names(&sink.events().unwrap()), ["a", "b"]);
    assert!(sink.apply(&[]).is_empty());
}

/// The columns and their form are API for users who read the file by hand.
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
        ("namespace = ? AND name = ?", "eventsByName"),
        ("involvedObjectName = ? AND involvedObjectKind = ? COLLATE NOCASE", "eventsByObject"),
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

#[test]
fn options_are_read_from_text() {
    let options: SqliteSinkOptions =
        serde_json::from_str(r#"{"ttl": "90m", "synchronous": "normal", "busy_timeout": "250ms"}"#).unwrap();
    assert_eq!((options.get_max_events(), options.get_synchronous()), (None, SqliteSynchronous::Normal));
    let text = serde_json::to_string(&options).unwrap();
    assert_eq!(text, r#"{"ttl":"1h30m","synchronous":"normal","busy_timeout":"250ms","full_check":false}"#);
    let limited: SqliteSinkOptions = serde_json::from_str(r#"{"max_events": 7}"#).unwrap();
    assert_eq!(limited.get_max_events(), Some(7));
    assert_eq!(serde_json::from_str::<SqliteSinkOptions>(&text).unwrap(), options);
    for json in [r#"{"path": "x"}"#, r#"{"synchronous": "off"}"#, "[]"] {
        assert!(serde_json::from_str::<SqliteSinkOptions>(json).is_err(), "{json}");
    }
    let folder = tempdir().unwrap();
    let sink = SqliteSink::with_options(folder.path().join("events.db"), options).unwrap();
    let stats = sink.stats().unwrap();
    assert!(stats.bytes > 0);
    let text = serde_json::to_string(&stats).unwrap();
    assert_eq!(serde_json::from_str::<SqliteSinkStats>(&text).unwrap(), stats);
}

/// Another process holds the lock for longer than the store waits.
#[test]
fn a_busy_file_may_be_tried_again() {
    let folder = tempdir().unwrap();
    let options = SqliteSinkOptions::default().busy_timeout(Duration::ZERO);
    let path = folder.path().join("events.db");
    let sink = SqliteSink::with_options(&path, options).unwrap();
    let other = rusqlite::Connection::open(&path).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let error = sink.create(&event("a")).unwrap_err();
    assert_eq!((error.kind(), error.is_unreachable()), (SinkErrorKind::Retry, true));
    assert!(error.to_string().contains("another process is writing for too long"), "{error}");
    // The lock does not stop readers.
    assert!(sink.is_empty().unwrap());
    other.execute_batch("ROLLBACK").unwrap();
    sink.create(&event("a")).unwrap();
}

/// If another program damages or removes the tables while the store is open, each operation gets an
/// answer, and nothing panics.
#[test]
fn a_file_that_is_spoilt_while_it_is_open_is_an_error() {
    let folder = tempdir().unwrap();
    let path = folder.path().join("events.db");
    let sink = store(&folder);
    let stored = sink.create(&event("a")).unwrap();
    let other = rusqlite::Connection::open(&path).unwrap();
    other.execute_batch("UPDATE events SET lastTimestamp = 'yesterday', rest = '{'").unwrap();
    assert!(sink.events().unwrap().is_empty());
    assert_eq!(sink.get("default", "a").unwrap_err().kind(), SqliteErrorKind::Corrupt);
    // One event that cannot be read does not stop another from being written.
    let answers =
        sink.apply(&[SinkOp::Patch(stored.clone(), EventPatch::new(&stored)), SinkOp::Create(event("b"))]);
    assert_eq!(answers[0].as_ref().unwrap_err().kind(), SinkErrorKind::Rejected);
    assert!(answers[1].is_ok());
    other.execute_batch("DROP TABLE events").unwrap();
    let answers = sink.apply(&[SinkOp::Create(event("c")), SinkOp::Create(event("d"))]);
    assert_eq!(answers.len(), 2);
    assert!(answers.iter().all(Result::is_err));
    assert!(sink.events().is_err());
}

#[test]
fn a_broadcaster_records_into_it_and_the_next_run_reads_it() {
    let folder = tempdir().unwrap();
    let events = EventBroadcaster::new().unwrap();
    events.start_recording_to_sink(store(&folder)).unwrap();
    let recorder = events.new_recorder("test");
    for i in 0..20 {
        let object = ObjectReference::new("Pod", format!("web-{}", i % 4));
        assert!(recorder.event(&object, EventType::Warning, "BackOff", "restarting").is_accepted());
    }
    assert!(events.shutdown().complete);
    drop((events, recorder));
    let sink = SqliteSink::open_read_only(folder.path().join("events.db")).unwrap();
    let found = sink.find(&EventQuery::new().type_(EventType::Warning)).unwrap();
    assert_eq!(found.iter().map(|event| event.count).collect::<Vec<_>>(), [5; 4]);
    assert!(sink.describe(&found[0].involved_object).unwrap().contains("(x5 over"));
    assert_eq!(sink.table().unwrap().lines().count(), 5);
}

#[test]
fn clones_are_one_store_for_many_threads() {
    let folder = tempdir().unwrap();
    let sink = store(&folder);
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let sink = sink.clone();
            scope.spawn(move || {
                for i in 0..10 {
                    sink.create(&event(&format!("{thread}-{i}"))).unwrap();
                    assert!(sink.len().unwrap() > 0);
                }
            });
        }
    });
    let versions: Vec<u64> =
        sink.events().unwrap().iter().map(|e| e.metadata.resource_version().parse().unwrap()).collect();
    assert_eq!(versions, (1..=40).collect::<Vec<_>>());
    assert!(format!("{sink:?}").contains("events.db"));
}

/// One row that is not an event does not hide the rows that are events.
#[test]
fn a_row_that_cannot_be_read_is_left_out_and_counted() {
    for damage in [
        "lastTimestamp = 'yesterday'",
        "rest = '{'",
        "message = x'ff'",
        "reason = x'c328'",
        "count = 4294967296",
        "count = 'many'",
        "creationTimestamp = 7.5",
    ] {
        let folder = tempdir().unwrap();
        let sink = store(&folder);
        let ops: Vec<_> = (0..20).map(|i| SinkOp::Create(event(&format!("{i}")))).collect();
        let stored: Vec<_> = sink.apply(&ops).into_iter().map(Result::unwrap).collect();
        let others: Vec<_> = stored.iter().filter(|event| event.metadata.name != "7").cloned().collect();
        let by_hand = rusqlite::Connection::open(folder.path().join("events.db")).unwrap();
        assert_eq!(sink.stats().unwrap().unreadable, 0);
        let spoil = format!("UPDATE events SET {damage} WHERE name = '7'");
        assert_eq!(by_hand.execute(&spoil, []).unwrap(), 1);
        assert_eq!(sink.events().unwrap(), others, "{damage}");
        assert_eq!(sink.stats().unwrap().unreadable, 1, "{damage}");
        assert_eq!(sink.changes_since(0).unwrap().events, others, "{damage}");
        assert_eq!(sink.table().unwrap().lines().count(), 20, "{damage}");
        assert!(sink.describe(&stored[0].involved_object).unwrap().contains("started"));
        assert_eq!(sink.stats().unwrap().unreadable, 4, "{damage}");
        assert_eq!(sink.get("default", "7").unwrap_err().kind(), SqliteErrorKind::Corrupt, "{damage}");
        let last = sink.find(&EventQuery::new().limit(14)).unwrap();
        assert_eq!(last, others[others.len() - 14..], "{damage}: a limit counts events, not rows");
        // The row's name stays taken until the row is removed like any other.
        assert_eq!(sink.create(&event("7")).unwrap_err().kind(), SinkErrorKind::Rejected);
    }
}

fn limited(max_events: usize) -> SqliteSinkOptions {
    SqliteSinkOptions::default().max_events(max_events)
}

fn create_all(sink: &SqliteSink, name: &str, count: usize) {
    let ops: Vec<_> = (0..count).map(|i| SinkOp::Create(event(&format!("{name}-{i}")))).collect();
    assert!(sink.apply(&ops).iter().all(Result::is_ok));
}

/// A process without its own limit neither discards events that another process keeps nor keeps
/// more.
#[test]
fn the_file_has_one_limit_for_all_who_write_to_it() {
    let folder = tempdir().unwrap();
    let clock = clock();
    let maker = open(&folder, &clock, limited(150_000));
    let other = open(&folder, &clock, SqliteSinkOptions::default());
    assert_eq!((maker.stats().unwrap().max_events, other.stats().unwrap().max_events), (150_000, 150_000));
    drop((maker, other));

    // An explicit limit becomes the limit of the file, and holds for the stores that have the file
    // open.
    let sink = open(&folder, &clock, SqliteSinkOptions::default());
    let small = open(&folder, &clock, limited(20));
    assert_eq!(sink.stats().unwrap().max_events, 20);
    create_all(&sink, "a", 30);
    assert_eq!((sink.len().unwrap(), small.stats().unwrap().evicted), (20, 10));
    drop((sink, small));
    let sink = open(&folder, &clock, SqliteSinkOptions::default());
    let large = open(&folder, &clock, limited(25));
    create_all(&sink, "b", 30);
    assert_eq!((sink.len().unwrap(), large.stats().unwrap().evicted), (25, 35));
    // A new file without an explicit limit has room for a hundred thousand events.
    let new = SqliteSink::open(folder.path().join("new.db")).unwrap();
    assert_eq!(new.stats().unwrap().max_events, 100_000);
    // Opening the file only to read it sets no limit.
    let reader = SqliteSink::open_read_only(folder.path().join("events.db")).unwrap();
    assert_eq!(reader.stats().unwrap().max_events, 25);
}

#[test]
fn a_lowered_limit_is_reached_step_by_step() {
    let folder = tempdir().unwrap();
    let clock = clock();
    create_all(&open(&folder, &clock, limited(20_000)), "a", 10_000);
    let sink = open(&folder, &clock, limited(100));
    assert_eq!(sink.len().unwrap(), 10_000, "opening alone lets nothing go");
    let mut before = sink.stats().unwrap();
    for round in 0..4 {
        sink.create(&event(&format!("b-{round}"))).unwrap();
        let stats = sink.stats().unwrap();
        assert!(stats.evicted - before.evicted <= 4096 + 1, "{stats}");
        assert!(stats.stored < before.stored || stats.stored == 100, "{stats}");
        assert_eq!(stats.created, stats.stored + stats.expired + stats.evicted);
        before = stats;
    }
    assert_eq!(before.stored, 100);
    // The limit holds after a batch of any length.
    create_all(&sink, "c", 9000);
    assert_eq!(sink.len().unwrap(), 100);
    assert_eq!(sink.events().unwrap()[99].metadata.name, "c-8999");
}

/// One write under a wrong clock does not remove events that are alive.
#[test]
fn a_clock_that_jumps_ahead_takes_nothing_along() {
    let folder = tempdir().unwrap();
    let clock = clock();
    let sink = open(&folder, &clock, SqliteSinkOptions::default());
    create_all(&sink, "a", 5000);
    clock.advance(Duration::from_secs(60));
    let ahead = FakeClock::new(SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000 + 70 * 31_557_600));
    let wrong = open(&folder, &ahead, SqliteSinkOptions::default());
    wrong.create(&event("b")).unwrap();
    assert_eq!(wrong.len().unwrap(), 1, "by that clock the others have expired");
    assert_eq!(sink.len().unwrap(), 5001);
    let stats = sink.stats().unwrap();
    assert_eq!((stats.stored, stats.created, stats.expired, stats.evicted), (5001, 5001, 0, 0));
    sink.create(&event("c")).unwrap();
    assert_eq!(sink.len().unwrap(), 5002);
    // After an hour without a write, all events have expired that were written under the right
    // clock.
    clock.advance(Duration::from_secs(3600));
    sink.create(&event("d")).unwrap();
    assert_eq!(names(&sink.events().unwrap()), ["b", "d"]);
}

/// If nobody has written to the store for longer than events live, the second write removes the
/// expired events.
#[test]
fn the_second_write_after_a_long_silence_lets_go_what_has_expired() {
    let folder = tempdir().unwrap();
    let clock = clock();
    let sink = open(&folder, &clock, limited(10));
    create_all(&sink, "a", 10);
    clock.advance(Duration::from_secs(36_000));
    let rows = || -> i64 {
        let connection = rusqlite::Connection::open(folder.path().join("events.db")).unwrap();
        connection.query_row("SELECT count(*) FROM events", [], |row| row.get(0)).unwrap()
    };
    // An expired event that is removed to make room counts as expired.
    sink.create(&event("b")).unwrap();
    let stats = sink.stats().unwrap();
    assert_eq!((rows(), stats.stored, stats.expired, stats.evicted), (10, 1, 10, 0));
    sink.create(&event("c")).unwrap();
    let stats = sink.stats().unwrap();
    assert_eq!((rows(), stats.stored, stats.expired, stats.evicted), (2, 2, 10, 0));
}

#[test]
fn an_index_that_was_dropped_is_made_again() {
    for index in [
        "eventsByName",
        "eventsByExpiry",
        "eventsByObject",
        "eventsByType",
        "eventsByReason",
        "eventsByLastSeen",
    ] {
        let folder = tempdir().unwrap();
        let path = folder.path().join("events.db");
        store(&folder).create(&event("a")).unwrap();
        let by_hand = |sql: &str| rusqlite::Connection::open(&path).unwrap().execute_batch(sql).unwrap();
        by_hand(&format!("DROP INDEX {index}; CREATE INDEX mine ON events (message)"));
        let sink = store(&folder);
        assert_eq!(sink.create(&event("a")).unwrap_err().kind(), SinkErrorKind::AlreadyExists, "{index}");
        drop(sink);
        let sql = format!("SELECT count(*) FROM sqlite_master WHERE name IN ('{index}', 'mine')");
        let found: i64 =
            rusqlite::Connection::open(&path).unwrap().query_row(&sql, [], |row| row.get(0)).unwrap();
        assert_eq!(found, 2, "{index}");
        // Another index has the same name.
        by_hand(&format!("DROP INDEX {index}; CREATE INDEX {index} ON events (message)"));
        let error = SqliteSink::open(&path).unwrap_err();
        assert_eq!(error.kind(), SqliteErrorKind::Corrupt);
        assert!(error.to_string().contains(&format!("the index {index} is not as it was made")), "{error}");
    }
}

#[test]
fn names_that_are_there_twice_are_damage() {
    let folder = tempdir().unwrap();
    let path = folder.path().join("events.db");
    let sink = store(&folder);
    sink.create(&event("a")).unwrap();
    sink.create(&event("b")).unwrap();
    drop(sink);
    let by_hand = rusqlite::Connection::open(&path).unwrap();
    by_hand.execute_batch("DROP INDEX eventsByName; UPDATE events SET name = 'a'").unwrap();
    drop(by_hand);
    let error = SqliteSink::open(&path).unwrap_err();
    assert_eq!(error.kind(), SqliteErrorKind::Corrupt);
    assert!(error.to_string().contains("the index eventsByName was dropped"), "{error}");
    assert_eq!(SqliteSink::open_read_only(&path).unwrap().len().unwrap(), 2);
}
