//! Tests of files that were written by older versions, and of files whose creation was interrupted.

use std::fs;
use std::path::Path;

use eventcast::sink::{EventQuery, SinkErrorKind};
use eventcast::{EventSink, ObjectReference};
use eventcast_sqlite::{SqliteErrorKind, SqliteSink, SqliteSinkOptions};
use rusqlite::Connection;
use tempfile::{TempDir, tempdir};

use crate::support::contents;

use super::stores::{crashed, event, filled};
use super::{assert_not_written, assert_not_written_by, at_birth, full_check, sql};

/// A file as written by the first version.
const VERSION_1: &str = include_str!("version-1.sql");

/// A file as written by the fourth version. The fourth version was the last version with plain
/// indexes by name, object and namespace.
const VERSION_4: &str = include_str!("version-4.sql");

fn version_1(path: &Path) {
    sql(path, VERSION_1);
}

fn indexes(path: &Path) -> i64 {
    let count = "SELECT count(*) FROM sqlite_master WHERE type = 'index'";
    Connection::open(path).unwrap().query_row(count, [], |row| row.get(0)).unwrap()
}

#[test]
fn a_file_of_an_older_version_is_brought_up_to_date() {
    let folder = tempdir().unwrap();
    let path = folder.path().join("events.db");
    version_1(&path);
    let error = SqliteSink::open_read_only(&path).unwrap_err();
    assert_eq!(error.kind(), SqliteErrorKind::Older, "{error}");
    assert_eq!(indexes(&path), 2);

    let sink = SqliteSink::with_clock(&path, SqliteSinkOptions::default(), at_birth().clock()).unwrap();
    let events = sink.events().unwrap();
    assert_eq!(events.len(), 2);
    assert_eq!(events[0].message, "it's \"started\"");
    assert_eq!(events[1].metadata.labels()["team"], "blue");
    let third = sink.create(&event("third")).unwrap();
    assert_eq!(third.metadata.resource_version(), "6");
    assert_eq!(third.metadata.uid(), "17979cfe-362a-4000-8000-000000000004");
    assert_eq!(sink.stats().unwrap().created, 4);
    drop(sink);
    assert_eq!(indexes(&path), 7);
    let version: i32 =
        Connection::open(&path).unwrap().pragma_query_value(None, "user_version", |row| row.get(0)).unwrap();
    assert_eq!(version, 5);
}

#[test]
fn the_indexes_of_an_older_version_are_made_anew() {
    let folder = tempdir().unwrap();
    let path = folder.path().join("events.db");
    sql(&path, VERSION_4);
    assert_eq!(SqliteSink::open_read_only(&path).unwrap_err().kind(), SqliteErrorKind::Older);
    let definition = |name: &str| -> String {
        let sql = "SELECT sql FROM sqlite_master WHERE name = ?";
        Connection::open(&path).unwrap().query_row(sql, [name], |row| row.get(0)).unwrap()
    };
    assert!(!definition("eventsByObject").contains("resourceVersion / 4096"));

    let sink = SqliteSink::with_clock(&path, SqliteSinkOptions::default(), at_birth().clock()).unwrap();
    for (name, column) in
        [("eventsByName", "substr(name, -16)"), ("eventsByObject", "resourceVersion / 4096")]
    {
        assert!(definition(name).contains(column), "{name}");
    }
    let shown = |query: &EventQuery| -> Vec<(String, i32)> {
        let found = sink.find(query).unwrap();
        found.iter().map(|event| (event.metadata.name.to_string(), event.count)).collect()
    };
    let web_0 = EventQuery::default().object(ObjectReference::new("pod", "web-0"));
    let names = ["web-0.17979cfe362a0000", "web-0.17979cfe362a0000", "web-0.17979cfe362a0001", "short"];
    assert_eq!(shown(&web_0), names.map(|name| (name.to_owned(), 1)));
    assert_eq!(shown(&web_0.namespace("blog")), [(names[0].to_owned(), 1)]);
    // The names are still taken in their namespaces.
    for name in names {
        let again = sink.get("shop", name).unwrap().unwrap();
        assert_eq!(sink.create(&again).unwrap_err().kind(), SinkErrorKind::AlreadyExists);
    }
    let mut again = sink.get("shop", "web-1.17979cfe362a0000").unwrap().unwrap();
    again.count = 8;
    assert_eq!(sink.patch(&again).unwrap().metadata.resource_version(), "7");
    again.metadata.namespace = "blog".into();
    again.involved_object.namespace = "blog".into();
    sink.create(&again).unwrap();
    assert_eq!(sink.len().unwrap(), 6);
}

#[test]
fn a_limit_ends_the_search_in_a_namespace() {
    let folder = tempdir().unwrap();
    filled(&folder.path().join("events.db"), 10);
    let connection = Connection::open(folder.path().join("events.db")).unwrap();
    let sql = "EXPLAIN QUERY PLAN SELECT * FROM events WHERE +expires > '' AND namespace = 'a' \
               AND resourceVersion / 4096 = 7 AND resourceVersion BETWEEN 4 AND 9 ORDER BY resourceVersion DESC";
    let mut statement = connection.prepare(sql).unwrap();
    let plan = statement.query_map([], |row| row.get::<_, String>(3)).unwrap();
    let plan: Vec<String> = plan.map(Result::unwrap).collect();
    let search =
        "SEARCH events USING INDEX eventsByNamespace (<expr>=? AND namespace=? AND rowid>? AND rowid<?)";
    assert_eq!(plan, [search], "and no sorting");
}

#[test]
fn a_step_that_fails_changes_nothing() {
    let folder = tempdir().unwrap();
    let path = folder.path().join("events.db");
    version_1(&path);
    // The last index of the second step already exists.
    sql(&path, "CREATE INDEX eventsByLastSeen ON events (name)");
    let before = contents(&folder);
    let error = SqliteSink::open(&path).unwrap_err();
    assert!(error.to_string().contains("eventsByLastSeen"), "{error}");
    assert!(contents(&folder) == before || indexes(&path) == 3);
    sql(&path, "DROP INDEX eventsByLastSeen");
    assert!(SqliteSink::open(&path).is_ok());
}

/// A process was killed between the two steps that turn a file into a store. The file is marked as
/// a store, and the journal next to the file records that the database was empty before. The next
/// process that opens the file recreates the store.
#[test]
fn a_file_whose_making_was_broken_off_is_made_anew() {
    let folder = tempdir().unwrap();
    let path = folder.path().join("events.db");
    filled(&path, 1);
    // The header of a rollback journal with the magic number, a page count of zero, and a size of
    // zero for the original database.
    let mut journal = vec![0; 512];
    journal[..8].copy_from_slice(&[0xd9, 0xd5, 0x05, 0xf9, 0x20, 0xa1, 0x63, 0xd7]);
    journal[20..24].copy_from_slice(&512_u32.to_be_bytes());
    journal[24..28].copy_from_slice(&4096_u32.to_be_bytes());
    fs::write(folder.path().join("events.db-journal"), journal).unwrap();

    let sink = SqliteSink::open(&path).unwrap();
    assert!(sink.events().unwrap().is_empty());
    sink.create(&event("new")).unwrap();
    drop(sink);
    assert_eq!(SqliteSink::open_read_only(&path).unwrap().len().unwrap(), 1);
}

/// Reading the whole file takes a long time, so the store reads the whole file only if the file may
/// be damaged. The file may be damaged after an unclean shutdown, which leaves a log.
#[test]
fn the_whole_file_is_read_after_an_unclean_end_only() {
    let live = tempdir().unwrap();
    filled(&live.path().join("events.db"), 200);
    let damage = |folder: &TempDir| {
        let path = folder.path().join("events.db");
        let mut bytes = fs::read(&path).unwrap();
        bytes[100_000..140_000].fill(0x5A);
        fs::write(path, bytes).unwrap();
    };
    let clean = crashed(&live);
    damage(&clean);
    let sink = SqliteSink::open(live.path().join("events.db")).unwrap();
    sink.create(&event("last")).unwrap();
    let unclean = crashed(&live);
    damage(&unclean);
    assert_not_written(&unclean, SqliteErrorKind::Corrupt);
    assert_not_written_by(&clean, full_check(), SqliteErrorKind::Corrupt);

    // After a clean shutdown, the store finds the damage only when it reads the damaged part, and
    // does not acknowledge writes to that part.
    let sink = SqliteSink::open(clean.path().join("events.db")).unwrap();
    assert_eq!(sink.events().unwrap_err().kind(), SqliteErrorKind::Corrupt);
}

/// Files written by the second version had no limit. The events that such a file already contains
/// are not discarded.
#[test]
fn an_older_file_keeps_what_it_holds() {
    for (created, limit) in [(7, 100_000), (300_009, 300_003)] {
        let folder = tempdir().unwrap();
        let path = folder.path().join("events.db");
        version_1(&path);
        sql(&path, &format!("UPDATE store SET created = {created}, expired = 2, evicted = 4"));
        let sink = SqliteSink::with_clock(&path, SqliteSinkOptions::default(), at_birth().clock()).unwrap();
        assert_eq!(sink.stats().unwrap().max_events, limit);
    }
}
