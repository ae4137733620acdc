//! Files that are not stores, are damaged, or cannot grow. Each is a clear error, and a file that
//! is refused stays as it is, byte for byte, with nothing beside it.

mod disks;
mod foreign;
mod versions;

use std::fs;
use std::path::Path;
use std::time::{Duration, SystemTime};

use eventcast::sink::{SinkOp, SqliteErrorKind, SqliteSinkOptions};
use eventcast::testing::FakeClock;
use eventcast::{Event, EventSink, ObjectReference, SqliteSink};
use rusqlite::Connection;
use tempfile::{TempDir, tempdir};

use crate::support::contents;

fn event(name: &str) -> Event {
    let mut event = Event::default();
    event.metadata.name = name.to_owned().into();
    event.involved_object = ObjectReference::new("Pod", "web-0");
    event.reason = "Started".into();
    event.message = "m".repeat(1000).into();
    event
}

/// Creates a store with the given number of events, and closes it.
fn filled(path: &Path, events: usize) {
    let sink = SqliteSink::open(path).unwrap();
    let mut ops: Vec<_> = (0..events).map(|i| SinkOp::Create(event(&format!("{i}")))).collect();
    assert!(sink.apply(&mut ops).iter().all(Result::is_ok));
}

fn sql(path: &Path, sql: &str) {
    Connection::open(path).unwrap().execute_batch(sql).unwrap();
}

/// Asserts that both ways of opening refuse the file, and that neither leaves a trace.
#[track_caller]
fn assert_refused(folder: &TempDir, kind: SqliteErrorKind) -> String {
    assert_not_read(folder, kind);
    assert_not_written(folder, kind)
}

#[track_caller]
fn assert_not_written(folder: &TempDir, kind: SqliteErrorKind) -> String {
    assert_not_written_by(folder, SqliteSinkOptions::default(), kind)
}

fn full_check() -> SqliteSinkOptions {
    SqliteSinkOptions::default().full_check(true)
}

#[track_caller]
fn assert_not_written_by(folder: &TempDir, options: SqliteSinkOptions, kind: SqliteErrorKind) -> String {
    let path = folder.path().join("events.db");
    let before = kept(folder);
    let error = SqliteSink::with_options(&path, options).unwrap_err();
    assert_eq!(error.kind(), kind, "{error}");
    assert_eq!(error.path(), path);
    assert!(error.to_string().starts_with(path.to_str().unwrap()), "{error}");
    assert!(kept(folder) == before, "{error}: the file was touched: {:?}", names(folder));
    error.to_string()
}

#[track_caller]
fn assert_not_read(folder: &TempDir, kind: SqliteErrorKind) {
    let before = kept(folder);
    let read = SqliteSink::open_read_only(folder.path().join("events.db")).and_then(|sink| sink.events());
    let error = read.unwrap_err();
    assert_eq!(error.kind(), kind, "{error}");
    assert!(kept(folder) == before, "{error}: the reader touched it: {:?}", names(folder));
}

/// Returns all files except the shared memory beside a log. Any process that needs this memory
/// makes it anew.
fn kept(folder: &TempDir) -> Vec<(String, Vec<u8>)> {
    let is_kept = |name: &str| !folder.path().join("events.db-wal").exists() || !name.ends_with("-shm");
    contents(folder).into_iter().filter(|(name, _)| is_kept(name)).collect()
}

fn names(folder: &TempDir) -> Vec<(String, usize)> {
    contents(folder).into_iter().map(|(name, bytes)| (name, bytes.len())).collect()
}

/// Copies the files of a folder while a process has them open, as a crash would leave them.
fn crashed(from: &TempDir) -> TempDir {
    let to = tempdir().unwrap();
    for (name, bytes) in contents(from) {
        fs::write(to.path().join(&name), bytes).unwrap();
    }
    to
}

fn at_birth() -> FakeClock {
    FakeClock::new(SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000))
}
