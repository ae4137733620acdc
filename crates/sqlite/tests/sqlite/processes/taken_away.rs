//! Tests of files that are moved, removed or replaced while they are open.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use eventcast::sink::SinkErrorKind;
use eventcast::{EventBroadcaster, EventSink, EventType, ObjectReference, RetryPolicy};
use eventcast_sqlite::{SqliteErrorKind, SqliteSink, SqliteSinkOptions};
use rusqlite::Connection;
use tempfile::tempdir;
use test_support::{child, test_name};

use super::{check, event, start};

#[cfg(unix)]
fn names(sink: &SqliteSink) -> Vec<String> {
    sink.events().unwrap().iter().map(|event| event.metadata.name.to_string()).collect()
}

#[cfg(unix)]
fn beside(path: &Path, end: &str) -> PathBuf {
    PathBuf::from(format!("{}{end}", path.display()))
}

/// Writes six events. Each write either fails with a retryable error or stores the event at the
/// path. Returns the names of the stored events.
#[cfg(unix)]
fn write_on(sink: &SqliteSink, what: &str) -> Vec<String> {
    let mut stored = Vec::new();
    for number in 0..6 {
        let name = format!("after-{number}");
        match sink.create(&event(&name, 1)) {
            Ok(_) => stored.push(name),
            Err(error) => {
                assert_eq!(error.kind(), SinkErrorKind::Retry, "{what}: {error}");
                assert!(error.to_string().contains("was removed, moved or replaced"), "{what}: {error}");
                assert!(stored.is_empty(), "{what}: {error}");
            }
        }
    }
    stored
}

#[cfg(unix)]
fn remove_all(path: &Path) {
    for end in ["", "-wal", "-shm"] {
        fs::remove_file(beside(path, end)).unwrap();
    }
}

/// A change to a store's files. The tuple contains a description, the function that makes the
/// change, and the suffix of the old database's new name if the old database still exists.
#[cfg(unix)]
type Theft = (&'static str, fn(&Path), Option<&'static str>);

#[cfg(unix)]
fn thefts() -> [Theft; 8] {
    [
        ("all removed", remove_all, None),
        ("the database removed", |path| fs::remove_file(path).unwrap(), None),
        ("the log removed", |path| fs::remove_file(beside(path, "-wal")).unwrap(), Some("")),
        ("the index removed", |path| fs::remove_file(beside(path, "-shm")).unwrap(), Some("")),
        ("the database renamed", |path| fs::rename(path, beside(path, ".1")).unwrap(), Some(".1")),
        (
            "the database renamed, and made anew",
            |path| {
                fs::rename(path, beside(path, ".1")).unwrap();
                fs::write(path, "").unwrap();
            },
            Some(".1"),
        ),
        (
            "all renamed",
            |path| {
                for end in ["", "-wal", "-shm"] {
                    fs::rename(beside(path, end), beside(path, &format!(".1{end}"))).unwrap();
                }
            },
            Some(".1"),
        ),
        (
            "all removed, and another store in its place",
            |path| {
                remove_all(path);
                SqliteSink::open(path).unwrap().create(&event("other", 1)).unwrap();
            },
            None,
        ),
    ]
}

/// The files are moved, removed or replaced, as a clean-up program, a log rotator or a well-meaning
/// user might do. The store must not acknowledge a write that cannot be found afterwards.
#[cfg(unix)]
#[test]
fn a_file_that_is_taken_away_swallows_nothing_that_is_acknowledged() {
    for (what, take, kept) in thefts() {
        let folder = tempdir().unwrap();
        let path = folder.path().join("events.db");
        let sink = SqliteSink::open(&path).unwrap();
        sink.create(&event("before", 1)).unwrap();
        take(&path);
        let stored = write_on(&sink, what);
        assert!((1..6).contains(&stored.len()), "{what}: it is told once, and then goes on: {stored:?}");
        let found = names(&SqliteSink::open_read_only(&path).unwrap());
        assert!(found.ends_with(&stored), "{what}: {stored:?} were acknowledged, there are {found:?}");
        assert_eq!(names(&sink), found, "{what}");
        drop(sink);
        assert_eq!(names(&SqliteSink::open(&path).unwrap()), found, "{what}");
        check(&path);
        // If the old database still exists, it contains the event that was acknowledged before the
        // change.
        if let Some(end) = kept {
            let found = names(&SqliteSink::open(beside(&path, end)).unwrap());
            assert!(found.contains(&"before".to_owned()), "{what}: {found:?}");
        }
    }
}

/// Two independent stores have the file open when it is taken away. In the end, both stores write
/// to the same new file.
#[cfg(unix)]
#[test]
fn two_writers_meet_again_after_their_file_was_taken_away() {
    for (what, take, _) in thefts() {
        let folder = tempdir().unwrap();
        let path = folder.path().join("events.db");
        let sinks = [SqliteSink::open(&path).unwrap(), SqliteSink::open(&path).unwrap()];
        for (number, sink) in sinks.iter().enumerate() {
            sink.create(&event(&format!("before-{number}"), 1)).unwrap();
        }
        take(&path);
        let mut stored = BTreeSet::new();
        let mut refused = [0, 0];
        for round in 0..8 {
            for (number, sink) in sinks.iter().enumerate() {
                let name = format!("after-{number}-{round}");
                match sink.create(&event(&name, 1)) {
                    Ok(_) => drop(stored.insert(name)),
                    Err(error) => {
                        assert_eq!(error.kind(), SinkErrorKind::Retry, "{what}: {error}");
                        refused[number] += 1;
                    }
                }
            }
        }
        // Each store refuses at least one write, and then continues.
        assert!(refused.iter().all(|refused| (1..7).contains(refused)), "{what}: {refused:?}");
        let found: BTreeSet<_> = names(&SqliteSink::open_read_only(&path).unwrap()).into_iter().collect();
        let lost: Vec<_> = stored.difference(&found).collect();
        assert!(lost.is_empty(), "{what}: {lost:?} were acknowledged");
        drop(sinks);
        check(&path);
    }
}

/// Runs in the child process. Writes an event for each name that the process receives, and reports
/// whether the write was acknowledged.
#[cfg(unix)]
fn write_what_is_told(path: &Path) {
    let sink = SqliteSink::open(path).unwrap();
    child::say("ready");
    loop {
        let name = child::listen();
        if name.is_empty() {
            return;
        }
        match sink.create(&event(&name, 1)) {
            Ok(_) => child::say("acknowledged"),
            Err(error) => child::say(&error.to_string()),
        }
    }
}

/// Repeats the previous scenario with two processes, which share only the files.
#[cfg(unix)]
#[test]
fn two_processes_meet_again_after_their_file_was_taken_away() {
    let test = test_name!();
    if let Some(orders) = child::orders() {
        return write_what_is_told(orders[0].as_ref());
    }
    for (what, take, _) in thefts() {
        let folder = tempdir().unwrap();
        let path = folder.path().join("events.db");
        let mut children = ["a", "b"].map(|who| start(test, &path, who));
        let mut write = |number: usize, name: &str| {
            children[number].tell(name);
            children[number].hear().expect("it answers")
        };
        for (number, name) in ["before-a", "before-b"].into_iter().enumerate() {
            assert_eq!(write(number, name), "acknowledged");
        }
        take(&path);
        let mut stored = BTreeSet::new();
        let mut refused = [0, 0];
        for round in 0..8 {
            for (number, refused) in refused.iter_mut().enumerate() {
                let name = format!("after-{number}-{round}");
                if write(number, &name) == "acknowledged" {
                    stored.insert(name);
                } else {
                    *refused += 1;
                }
            }
        }
        assert!(refused.iter().all(|refused| (1..7).contains(refused)), "{what}: {refused:?}");
        let found: BTreeSet<_> = names(&SqliteSink::open_read_only(&path).unwrap()).into_iter().collect();
        let lost: Vec<_> = stored.difference(&found).collect();
        assert!(lost.is_empty(), "{what}: {lost:?} were acknowledged");
        for mut child in children {
            child.tell("");
            child.end();
        }
        check(&path);
    }
}

/// Only the log is removed, while a reader still has the file open. The store checkpoints the
/// events in the log into the database before closing the database.
#[cfg(unix)]
#[test]
fn a_reader_does_not_keep_a_removed_log_from_being_written_back() {
    let folder = tempdir().unwrap();
    let path = folder.path().join("events.db");
    let sink = SqliteSink::open(&path).unwrap();
    let reader = SqliteSink::open_read_only(&path).unwrap();
    sink.create(&event("before", 1)).unwrap();
    assert_eq!(reader.len().unwrap(), 1);
    fs::remove_file(beside(&path, "-wal")).unwrap();
    assert_eq!(write_on(&sink, "the log removed").len(), 5);
    assert_eq!(sink.len().unwrap(), 6);
    drop((reader, sink));
    assert_eq!(names(&SqliteSink::open(&path).unwrap())[0], "before");
}

/// If the store refuses events, a recording retries them, so each recorded event is in at least one
/// of the two files.
#[cfg(unix)]
#[test]
fn a_recording_continues_in_the_new_file() {
    let folder = tempdir().unwrap();
    let path = folder.path().join("events.db");
    let events = EventBroadcaster::new().unwrap();
    let retry = RetryPolicy::default().delay(Duration::ZERO);
    let recording = events.recording().retry(retry).start(SqliteSink::open(&path).unwrap()).unwrap();
    let recorder = events.recorder("test");
    let record = |reason: &'static str| {
        let object = ObjectReference::new("Pod", reason);
        assert!(recorder.event(&object, EventType::Normal, reason, "m").is_accepted());
        assert!(events.flush(Duration::from_secs(180)).is_ok());
    };
    record("Before");
    remove_all(&path);
    record("After");
    assert!(events.shutdown().complete);
    let stats = recording.stats();
    assert_eq!((stats.created, stats.rejected, stats.exhausted), (2, 0, 0), "{stats:?}");
    assert!(stats.retried > 0);
    let sink = SqliteSink::open_read_only(&path).unwrap();
    assert_eq!(sink.events().unwrap().iter().map(|e| e.reason.to_string()).collect::<Vec<_>>(), ["After"]);
}

/// The file is removed during a write, while the writer is waiting for a lock.
#[cfg(unix)]
#[test]
fn a_file_that_is_taken_away_during_a_write_does_not_acknowledge_it() {
    for _ in 0..20 {
        let folder = tempdir().unwrap();
        let path = folder.path().join("events.db");
        let options = SqliteSinkOptions::default().busy_timeout(Duration::from_secs(600));
        let sink = SqliteSink::with_options(&path, options).unwrap();
        let other = Connection::open(&path).unwrap();
        other.execute_batch("BEGIN IMMEDIATE").unwrap();
        let (begun, begins) = std::sync::mpsc::channel();
        let error = std::thread::scope(|scope| {
            let sink = &sink;
            let writer = scope.spawn(move || {
                begun.send(()).unwrap();
                sink.create(&event("during", 1))
            });
            begins.recv().unwrap();
            // Give the writer time to block on the lock. If this time is not long enough, the store
            // refuses the write before it begins.
            for _ in 0..200 {
                std::thread::yield_now();
            }
            remove_all(&path);
            other.execute_batch("ROLLBACK").unwrap();
            writer.join().unwrap().unwrap_err()
        });
        assert_eq!(error.kind(), SinkErrorKind::Retry, "{error}");
        sink.create(&event("after", 1)).unwrap();
        assert_eq!(names(&SqliteSink::open_read_only(&path).unwrap()), ["after"]);
    }
}

/// The directory is removed and recreated. While the directory does not exist, every error permits
/// a retry. From the second write on, the store reports that no write can succeed at present.
#[cfg(unix)]
#[test]
fn a_store_outlives_its_folder() {
    let folder = tempdir().unwrap();
    let inner = folder.path().join("inner");
    fs::create_dir(&inner).unwrap();
    let path = inner.join("events.db");
    let sink = SqliteSink::open(&path).unwrap();
    sink.create(&event("before", 1)).unwrap();
    fs::remove_dir_all(&inner).unwrap();
    for kind in [SinkErrorKind::Retry, SinkErrorKind::Unavailable, SinkErrorKind::Unavailable] {
        assert_eq!(sink.create(&event("meanwhile", 1)).unwrap_err().kind(), kind);
    }
    assert_eq!(sink.events().unwrap_err().kind(), SqliteErrorKind::Moved);
    fs::create_dir(&inner).unwrap();
    sink.create(&event("after", 1)).unwrap();
    assert_eq!(names(&SqliteSink::open_read_only(&path).unwrap()), ["after"]);
}

/// A backup replaces the database of an open store. The existing log belongs to the previous
/// database.
#[cfg(unix)]
#[test]
fn another_database_beside_the_old_log_is_not_written() {
    let folder = tempdir().unwrap();
    let (path, backup) = (folder.path().join("events.db"), folder.path().join("backup.db"));
    SqliteSink::open(&backup).unwrap().create(&event("saved", 1)).unwrap();
    let sink = SqliteSink::open(&path).unwrap();
    sink.create(&event("before", 1)).unwrap();
    let whole = fs::read(&backup).unwrap();
    fs::rename(&backup, &path).unwrap();
    for _ in 0..3 {
        let error = sink.create(&event("after", 1)).unwrap_err();
        assert_eq!(error.kind(), SinkErrorKind::Retry, "{error}");
    }
    drop(sink);
    assert!(fs::read(&path).unwrap() == whole);
}

/// A store is opened through a symbolic link. The log and its index are next to the real file, not
/// next to the link.
#[cfg(unix)]
#[test]
fn a_store_opened_through_a_link_stays_with_its_file() {
    let folder = tempdir().unwrap();
    let (real, other, link) =
        (folder.path().join("real.db"), folder.path().join("other.db"), folder.path().join("link.db"));
    drop(SqliteSink::open(&real).unwrap());
    std::os::unix::fs::symlink(&real, &link).unwrap();
    let sink = SqliteSink::open(&link).unwrap();
    sink.create(&event("first", 1)).unwrap();
    sink.create(&event("second", 1)).unwrap();
    fs::remove_file(&link).unwrap();
    std::os::unix::fs::symlink(&other, &link).unwrap();
    fs::write(&other, "").unwrap();
    assert_eq!(sink.create(&event("third", 1)).unwrap_err().kind(), SinkErrorKind::Retry);
    sink.create(&event("fourth", 1)).unwrap();
    assert_eq!(names(&SqliteSink::open(&other).unwrap()), ["fourth"]);
    assert_eq!(names(&SqliteSink::open(&real).unwrap()), ["first", "second"]);
}
