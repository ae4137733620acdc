//! Tests of the limits on the number and age of events, and of missing indexes.

use std::time::{Duration, SystemTime};

use eventcast::EventSink;
use eventcast::sink::{SinkBatch, SinkErrorKind, SinkOp};
use eventcast::testing::FakeClock;
use eventcast_sqlite::{SqliteErrorKind, SqliteSink, SqliteSinkOptions};
use tempfile::tempdir;

use super::{clock, event, names, open, store};

fn limited(max_events: usize) -> SqliteSinkOptions {
    SqliteSinkOptions::default().max_events(max_events)
}

fn create_all(sink: &SqliteSink, name: &str, count: usize) {
    let ops = (0..count).map(|i| SinkOp::Create(event(&format!("{name}-{i}")))).collect();
    assert!(SinkBatch::perform(ops, sink).iter().all(Result::is_ok));
}

/// If a process does not set a limit, it uses the file's limit. The process therefore neither
/// discards events that another process would keep nor keeps more events than another process
/// would.
#[test]
fn the_file_has_one_limit_for_all_who_write_to_it() {
    let folder = tempdir().unwrap();
    let clock = clock();
    let maker = open(&folder, &clock, limited(150_000));
    let other = open(&folder, &clock, SqliteSinkOptions::default());
    assert_eq!((maker.stats().unwrap().max_events, other.stats().unwrap().max_events), (150_000, 150_000));
    drop((maker, other));

    // An explicit limit becomes the file's limit, and also applies to stores that already have the
    // file open.
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
    // A new file without an explicit limit holds up to a hundred thousand events.
    let new = SqliteSink::open(folder.path().join("new.db")).unwrap();
    assert_eq!(new.stats().unwrap().max_events, 100_000);
    // Opening the file for reading only does not set a limit.
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
    // The limit is enforced after a batch of any length.
    create_all(&sink, "c", 9000);
    assert_eq!(sink.len().unwrap(), 100);
    assert_eq!(sink.events().unwrap()[99].metadata.name, "c-8999");
}

/// A single write with a wrong clock does not remove events that have not expired.
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
    // After an hour without a write, all events that were written with the correct clock have
    // expired.
    clock.advance(Duration::from_secs(3600));
    sink.create(&event("d")).unwrap();
    assert_eq!(names(&sink.events().unwrap()), ["b", "d"]);
}

/// If nothing has been written to the store for longer than the time to live, the second write
/// removes the expired events.
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
    // An expired event that is removed because of the limit counts as expired.
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
        "eventsByNamespace",
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
        assert!(error.to_string().contains(&format!("the index {index} has been altered")), "{error}");
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
