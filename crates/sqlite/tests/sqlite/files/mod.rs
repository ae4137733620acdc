//! Tests of files that are not stores, are damaged, or cannot grow. Each of these files results in
//! a clear error. A refused file remains unchanged, byte for byte, and no files are created next to
//! it.

mod disks;
mod foreign;
mod stores;
mod versions;

use std::path::Path;
use std::time::{Duration, SystemTime};

use eventcast::testing::FakeClock;
use eventcast_sqlite::{SqliteErrorKind, SqliteSink, SqliteSinkOptions};
use rusqlite::Connection;
use tempfile::TempDir;

use crate::support::contents;

fn sql(path: &Path, sql: &str) {
    Connection::open(path).unwrap().execute_batch(sql).unwrap();
}

/// Asserts that opening the file fails both for reading and for writing, and that nothing is
/// changed.
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

/// Returns all files except the shared-memory file next to a log. Any process that needs the shared
/// memory recreates this file.
fn kept(folder: &TempDir) -> Vec<(String, Vec<u8>)> {
    let is_kept = |name: &str| !folder.path().join("events.db-wal").exists() || !name.ends_with("-shm");
    contents(folder).into_iter().filter(|(name, _)| is_kept(name)).collect()
}

fn names(folder: &TempDir) -> Vec<(String, usize)> {
    contents(folder).into_iter().map(|(name, bytes)| (name, bytes.len())).collect()
}

fn at_birth() -> FakeClock {
    FakeClock::new(SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000))
}
