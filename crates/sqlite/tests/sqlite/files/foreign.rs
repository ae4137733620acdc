//! Tests of other programs' files, damaged files, and unusual paths.

use std::fs;
use std::path::Path;

use eventcast::EventSink;
use eventcast_sqlite::{SqliteErrorKind, SqliteSink, SqliteSinkOptions};
use rusqlite::Connection;
use tempfile::tempdir;
use test_support::{child, test_name};

use crate::support::contents;

use super::stores::{crashed, event, filled};
use super::{assert_not_written_by, assert_refused, full_check, names, sql};

#[test]
fn a_file_that_is_no_database_is_unchanged() {
    let header = b"SQLite format 3\0";
    let texts: [&[u8]; 7] = [
        b"x",
        b"not a database",
        &[0; 100],
        &[0; 5000],
        &[0xFF; 5000],
        &[header.as_slice(), &[0xFF; 5000]].concat(),
        &header[..10],
    ];
    for bytes in texts {
        let folder = tempdir().unwrap();
        fs::write(folder.path().join("events.db"), bytes).unwrap();
        let error = assert_refused(&folder, SqliteErrorKind::NotADatabase);
        assert!(error.contains("not an SQLite database, left unchanged"), "{error}");
    }
}

#[test]
fn the_database_of_another_program_is_left_alone() {
    for statements in [
        "CREATE TABLE t (x)",
        "PRAGMA application_id = 7",
        "PRAGMA user_version = 1",
        "PRAGMA journal_mode = wal; CREATE TABLE t (x); INSERT INTO t VALUES (1)",
        "PRAGMA application_id = 7; PRAGMA journal_mode = wal; CREATE TABLE events (x)",
    ] {
        let folder = tempdir().unwrap();
        sql(&folder.path().join("events.db"), statements);
        let error = assert_refused(&folder, SqliteErrorKind::Foreign);
        assert!(error.contains("another program's database, left unchanged"), "{error}");
    }
}

#[test]
fn so_is_one_whose_owner_crashed() {
    let live = tempdir().unwrap();
    let owner = Connection::open(live.path().join("events.db")).unwrap();
    owner.execute_batch("PRAGMA journal_mode = wal; CREATE TABLE t (x)").unwrap();
    // All of the other program's writes are in the log.
    let folder = crashed(&live);
    assert_eq!(names(&folder).len(), 3);
    assert_refused(&folder, SqliteErrorKind::Foreign);
}

#[test]
fn a_file_of_a_newer_version_is_left_alone() {
    let folder = tempdir().unwrap();
    filled(&folder.path().join("events.db"), 10);
    sql(&folder.path().join("events.db"), "PRAGMA user_version = 99");
    let error = assert_refused(&folder, SqliteErrorKind::Newer);
    assert!(error.contains("(version 99, supported are 1 to 5)"), "{error}");

    // A file is also refused if the newer version is only in its log.
    let live = tempdir().unwrap();
    filled(&live.path().join("events.db"), 10);
    let newer = Connection::open(live.path().join("events.db")).unwrap();
    newer.execute_batch("PRAGMA user_version = 99").unwrap();
    let folder = crashed(&live);
    assert_eq!(names(&folder).len(), 3);
    assert_refused(&folder, SqliteErrorKind::Newer);
}

#[test]
fn a_damaged_file_is_left_alone() {
    let whole = tempdir().unwrap();
    filled(&whole.path().join("events.db"), 200);
    let bytes = fs::read(whole.path().join("events.db")).unwrap();
    assert!(bytes.len() > 200_000);
    let mut wrong_page = bytes.clone();
    wrong_page[100_000..140_000].fill(0x5A);
    let mut wrong_schema = bytes.clone();
    wrong_schema[100..4096].fill(0x5A);
    for bytes in [wrong_page, wrong_schema, bytes[..bytes.len() / 2].to_vec(), bytes[..5000].to_vec()] {
        let folder = tempdir().unwrap();
        fs::write(folder.path().join("events.db"), bytes).unwrap();
        let error = assert_not_written_by(&folder, full_check(), SqliteErrorKind::Corrupt);
        assert!(error.contains("the file is damaged"), "{error}");
        let read = SqliteSink::open_read_only(folder.path().join("events.db")).and_then(|sink| sink.events());
        assert_eq!(read.unwrap_err().kind(), SqliteErrorKind::Corrupt);
    }
    // These files are valid databases, but their tables do not match their version.
    for statement in ["DROP TABLE store", "DELETE FROM store", "ALTER TABLE events DROP COLUMN rest"] {
        let folder = tempdir().unwrap();
        filled(&folder.path().join("events.db"), 10);
        sql(&folder.path().join("events.db"), statement);
        let before = contents(&folder);
        let error = SqliteSink::open(folder.path().join("events.db")).unwrap_err();
        assert_eq!(error.kind(), SqliteErrorKind::Corrupt, "{error}");
        assert!(contents(&folder) == before);
    }
}

#[test]
fn an_error_names_what_is_wrong_with_the_path() {
    let folder = tempdir().unwrap();
    let kind = |path: &Path| SqliteSink::open(path).unwrap_err().kind();
    let kind_read = |path: &Path| SqliteSink::open_read_only(path).unwrap_err().kind();
    fs::write(folder.path().join("file"), "").unwrap();
    assert_eq!(kind(folder.path()), SqliteErrorKind::NotAFile);
    assert_eq!(kind_read(folder.path()), SqliteErrorKind::NotAFile);
    assert_eq!(kind(&folder.path().join("no/events.db")), SqliteErrorKind::NoParent);
    assert_eq!(kind(&folder.path().join("file/events.db")), SqliteErrorKind::NoParent);
    assert_eq!(kind(Path::new("")), SqliteErrorKind::InvalidPath);
    assert_eq!(kind(&folder.path().join("a\0b")), SqliteErrorKind::InvalidPath);
    assert_eq!(kind_read(&folder.path().join("events.db")), SqliteErrorKind::Missing);
    assert_eq!(kind_read(&folder.path().join("file")), SqliteErrorKind::Older);
    // The directory exists, but its file system does not allow new files.
    #[cfg(target_os = "linux")]
    {
        let error = SqliteSink::open("/proc/events.db").unwrap_err();
        assert_eq!(error.kind(), SqliteErrorKind::ReadOnly, "{error}");
        let text = error.to_string();
        assert!(text.starts_with("/proc/events.db: it is not writable ("), "{text}");
        assert!(
            text.ends_with("; make the file and its directory writable, or choose another path"),
            "{text}"
        );
    }
    // The path is escaped in error messages.
    let error = SqliteSink::open(folder.path().join("\u{1b}[2J/events.db")).unwrap_err().to_string();
    assert!(error.contains(r"\u{1b}[2J") && !error.contains('\u{1b}'), "{error}");
    #[cfg(unix)]
    {
        std::os::unix::fs::symlink(folder.path().join("nowhere"), folder.path().join("link")).unwrap();
        let error = SqliteSink::open(folder.path().join("link")).unwrap_err();
        assert_eq!(error.kind(), SqliteErrorKind::NotAFile, "{error}");
        fs::remove_file(folder.path().join("link")).unwrap();
    }
    assert_eq!(names(&folder), [("file".to_owned(), 0)]);
}

#[test]
fn options_out_of_range_touch_nothing() {
    let folder = tempdir().unwrap();
    for json in [r#"{"max_events": 0}"#, r#"{"ttl": "0s"}"#, r#"{"busy_timeout": "61m"}"#] {
        let options: SqliteSinkOptions = serde_json::from_str(json).unwrap();
        let error = SqliteSink::with_options(folder.path().join("events.db"), options).unwrap_err();
        assert_eq!(error.kind(), SqliteErrorKind::InvalidOption);
        let cause = std::error::Error::source(&error).unwrap().to_string();
        assert!(
            error.to_string().contains(&cause) && json.contains(cause.split(' ').next().unwrap()),
            "{error}"
        );
    }
    assert!(contents(&folder).is_empty());
}

/// The test runs in a separate process, because it changes the current directory.
#[test]
fn a_path_is_never_a_uri_nor_a_special_name() {
    if let Some(orders) = child::orders() {
        std::env::set_current_dir(&orders[0]).unwrap();
        for name in
            [":memory:", "file:a?mode=memory", "file::memory:?cache=shared", "a%20b#c?d=e&immutable=1"]
        {
            let sink = SqliteSink::open(name).unwrap();
            sink.create(&event("a")).unwrap();
            drop(sink);
            assert!(Path::new(name).is_file(), "{name}");
            assert_eq!(SqliteSink::open(name).unwrap().len().unwrap(), 1);
            assert_eq!(SqliteSink::open_read_only(name).unwrap().len().unwrap(), 1);
        }
        return child::say("done");
    }
    let folder = tempdir().unwrap();
    let child = child::Running::start(test_name!(), &[folder.path().to_str().unwrap()]);
    assert_eq!(child.end(), ["done"]);
}

#[cfg(unix)]
#[test]
fn files_are_for_their_owner_only() {
    use std::os::unix::fs::PermissionsExt;

    let folder = tempdir().unwrap();
    let mode = |name: &str| fs::metadata(folder.path().join(name)).unwrap().permissions().mode() & 0o777;
    let sink = SqliteSink::open(folder.path().join("events.db")).unwrap();
    sink.create(&event("a")).unwrap();
    for name in ["events.db", "events.db-wal", "events.db-shm"] {
        assert_eq!(mode(name), 0o600, "{name}");
    }
    drop(sink);
    // If a file's mode was set explicitly, the store keeps that mode.
    fs::set_permissions(folder.path().join("events.db"), fs::Permissions::from_mode(0o640)).unwrap();
    let sink = SqliteSink::open(folder.path().join("events.db")).unwrap();
    sink.create(&event("b")).unwrap();
    assert_eq!((mode("events.db"), mode("events.db-wal")), (0o640, 0o640));
}
