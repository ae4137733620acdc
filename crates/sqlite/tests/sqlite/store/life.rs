//! Tests of options, of busy and corrupted files, and of several users of one store.

use std::time::Duration;

use eventcast::sink::{EventQuery, SinkBatch, SinkErrorKind, SinkOp};
use eventcast::{EventBroadcaster, EventSink, EventType, ObjectReference};
use eventcast_sqlite::{SqliteErrorKind, SqliteSink, SqliteSinkOptions, SqliteSinkStats};
use tempfile::tempdir;

use super::{event, store};

#[test]
fn options_that_were_read_hold_and_statistics_are_written() {
    let folder = tempdir().unwrap();
    let options = serde_json::from_str(r#"{"ttl": "90m", "synchronous": "normal"}"#).unwrap();
    let sink = SqliteSink::with_options(folder.path().join("events.db"), options).unwrap();
    assert_eq!(sink.ttl(), Some(Duration::from_secs(5400)));
    let stats = sink.stats().unwrap();
    assert!(stats.bytes > 0);
    let text = serde_json::to_string(&stats).unwrap();
    assert_eq!(serde_json::from_str::<SqliteSinkStats>(&text).unwrap(), stats);
}

/// Another process holds the lock for longer than the store's busy timeout.
#[test]
fn a_busy_file_may_be_tried_again() {
    let folder = tempdir().unwrap();
    let options = SqliteSinkOptions::default().busy_timeout(Duration::ZERO);
    let path = folder.path().join("events.db");
    let sink = SqliteSink::with_options(&path, options).unwrap();
    let other = rusqlite::Connection::open(&path).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let error = sink.create(&event("a")).unwrap_err();
    assert_eq!(error.kind(), SinkErrorKind::Unavailable);
    assert!(error.to_string().contains("another process has held the write lock for too long"), "{error}");
    // The write lock does not block readers.
    assert!(sink.is_empty().unwrap());
    other.execute_batch("ROLLBACK").unwrap();
    sink.create(&event("a")).unwrap();
}

/// If another program damages or removes the tables while the store is open, no operation panics,
/// and each operation still returns a result.
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
    // An event that cannot be read does not prevent another event from being written.
    let ops = vec![SinkOp::Patch(stored.clone()), SinkOp::Create(event("b"))];
    let answers = SinkBatch::perform(ops, &sink);
    assert_eq!(answers[0].as_ref().unwrap_err().error().kind(), SinkErrorKind::Rejected);
    assert!(answers[1].is_ok());
    other.execute_batch("DROP TABLE events").unwrap();
    let answers = SinkBatch::perform(["c", "d"].map(|name| SinkOp::Create(event(name))).to_vec(), &sink);
    assert_eq!(answers.len(), 2);
    assert!(answers.iter().all(Result::is_err));
    assert!(sink.events().is_err());
}

#[test]
fn a_broadcaster_records_into_it_and_the_next_run_reads_it() {
    let folder = tempdir().unwrap();
    let events = EventBroadcaster::new().unwrap();
    events.record_to(store(&folder)).unwrap();
    let recorder = events.recorder("test");
    for i in 0..20 {
        let object = ObjectReference::new("Pod", format!("web-{}", i % 4));
        assert!(recorder.event(&object, EventType::Warning, "BackOff", "restarting").is_accepted());
    }
    assert!(events.shutdown().complete);
    drop((events, recorder));
    let sink = SqliteSink::open_read_only(folder.path().join("events.db")).unwrap();
    let found = sink.find(&EventQuery::default().type_(EventType::Warning)).unwrap();
    assert_eq!(found.iter().map(|event| event.count).collect::<Vec<_>>(), [5; 4]);
    let about = sink.find(&EventQuery::default().object(&found[0].involved_object)).unwrap();
    assert_eq!(about, found[..1]);
    assert_eq!(sink.events().unwrap(), found);
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

/// If a row does not contain a valid event, the other rows can still be read.
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
        let ops = (0..20).map(|i| SinkOp::Create(event(&format!("{i}")))).collect();
        assert!(SinkBatch::perform(ops, &sink).iter().all(Result::is_ok));
        let stored = sink.events().unwrap();
        let others: Vec<_> = stored.iter().filter(|event| event.metadata.name != "7").cloned().collect();
        let by_hand = rusqlite::Connection::open(folder.path().join("events.db")).unwrap();
        assert_eq!(sink.stats().unwrap().unreadable, 0);
        let spoil = format!("UPDATE events SET {damage} WHERE name = '7'");
        assert_eq!(by_hand.execute(&spoil, []).unwrap(), 1);
        assert_eq!(sink.events().unwrap(), others, "{damage}");
        assert_eq!(sink.stats().unwrap().unreadable, 1, "{damage}");
        assert_eq!(sink.changes_since(0).unwrap().events, others, "{damage}");
        assert_eq!(sink.find(&EventQuery::default()).unwrap(), others, "{damage}");
        let about = EventQuery::default().object(&stored[0].involved_object);
        assert_eq!(sink.find(&about).unwrap(), others, "{damage}");
        assert_eq!(sink.stats().unwrap().unreadable, 4, "{damage}");
        assert_eq!(sink.get("default", "7").unwrap_err().kind(), SqliteErrorKind::Corrupt, "{damage}");
        let last = sink.find(&EventQuery::default().last(14)).unwrap();
        assert_eq!(last, others[others.len() - 14..], "{damage}: a limit counts events, not rows");
        // The name in the row remains taken until the row expires or is evicted.
        assert_eq!(sink.create(&event("7")).unwrap_err().kind(), SinkErrorKind::Rejected);
    }
}
