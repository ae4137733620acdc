//! Tests of several processes that use the same file.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use eventcast::EventSink;
use eventcast::sink::{SinkErrorKind, SinkOp};
use eventcast_sqlite::SqliteSink;
use tempfile::tempdir;
use test_support::{child, test_name};

use super::{apply, check, event, start};

const BATCHES: usize = 40;
/// The event's count after the last patch.
const LAST: i32 = 41;
const BATCH: usize = 25;

/// Runs in the child process. Writes batches, and reports the versions in each batch when the store
/// acknowledges the batch. Each batch also increments the count of one event.
fn write(path: &Path, who: &str) {
    let sink = SqliteSink::open(path).unwrap();
    child::say("ready");
    assert_eq!(child::listen(), "go");
    for (batch, count) in (0..BATCHES).zip(2..) {
        let mut ops: Vec<_> =
            (0..BATCH).map(|i| SinkOp::Create(event(&format!("{who}-{batch}-{i}"), 1))).collect();
        let counted = event(&format!("{who}-0-0"), count);
        ops.push(SinkOp::Patch(counted));
        let versions: Vec<_> =
            apply(&sink, ops).iter().map(|stored| stored.resource_version.to_string()).collect();
        child::say(&versions.join(" "));
    }
}

#[test]
fn a_second_process_follows_while_one_writes() {
    if let Some(orders) = child::orders() {
        return write(orders[0].as_ref(), &orders[1]);
    }
    let folder = tempdir().unwrap();
    let path = folder.path().join("events.db");
    let mut writer = start(test_name!(), &path, "w");
    let reader = SqliteSink::open_read_only(&path).unwrap();
    assert!(reader.is_empty().unwrap());
    assert_eq!(reader.create(&event("a", 1)).unwrap_err().kind(), SinkErrorKind::Rejected);
    writer.tell("go");

    let mut seen: BTreeMap<String, i32> = BTreeMap::new();
    let mut version = 0;
    let mut told = 0;
    while seen.len() < BATCHES * BATCH {
        // The reader checks the file after each line from the writer.
        if told < BATCHES {
            let line = writer.hear().expect("it writes all batches");
            told += 1;
            let newest: u64 = line.split(' ').next_back().unwrap().parse().unwrap();
            let changes = reader.changes_since(version).unwrap();
            // Acknowledged events are visible to all readers.
            assert!(changes.version >= newest);
            let versions: Vec<u64> =
                changes.events.iter().map(|e| e.metadata.resource_version().parse().unwrap()).collect();
            assert!(
                versions.is_sorted() && versions.iter().all(|v| (version + 1..=changes.version).contains(v))
            );
            for event in changes.events {
                seen.insert(event.metadata.name.to_string(), event.count);
            }
            version = changes.version;
            // A transaction becomes visible as a whole.
            assert_eq!(seen.len() % BATCH, 0);
        }
    }
    assert_eq!(seen["w-0-0"], LAST);
    assert_eq!(reader.len().unwrap(), BATCHES * BATCH);
    assert!(reader.changes_since(version).unwrap().events.is_empty());
    writer.end();
    // The writer has exited, but the events that it wrote can still be read.
    assert_eq!(reader.len().unwrap(), BATCHES * BATCH);
    drop(reader);
    check(&path);
}

#[test]
fn two_processes_write_concurrently_and_lose_nothing() {
    if let Some(orders) = child::orders() {
        return write(orders[0].as_ref(), &orders[1]);
    }
    let folder = tempdir().unwrap();
    let path = folder.path().join("events.db");
    let test = test_name!();
    let mut writers = ["a", "b"].map(|who| start(test, &path, who));
    for writer in &mut writers {
        writer.tell("go");
    }
    let mut versions = BTreeSet::new();
    for writer in writers {
        let said = writer.end();
        assert_eq!(said.len(), BATCHES);
        for line in said {
            for version in line.split(' ') {
                assert!(versions.insert(version.parse::<u64>().unwrap()), "{version} was given out twice");
            }
        }
    }
    let sink = SqliteSink::open(&path).unwrap();
    let stats = sink.stats().unwrap();
    let (created, updated) = (2 * BATCHES * BATCH, 2 * BATCHES);
    assert_eq!(
        (stats.stored, stats.created, stats.updated),
        (created as u64, created as u64, updated as u64)
    );
    let uids: BTreeSet<_> = sink.events().unwrap().iter().map(|e| e.metadata.uid().clone()).collect();
    assert_eq!(uids.len(), created);
    for who in ["a", "b"] {
        let counted = sink.get("default", &format!("{who}-0-0")).unwrap().unwrap();
        assert_eq!(counted.count, LAST);
    }
    drop(sink);
    check(&path);
}

/// The file is created once, by the first process that opens it.
#[test]
fn many_processes_open_a_new_file_concurrently() {
    for round in 0..5 {
        let folder = tempdir().unwrap();
        let path = folder.path().join("events.db");
        std::thread::scope(|scope| {
            for who in 0..6 {
                let path = &path;
                scope.spawn(move || {
                    let sink = SqliteSink::open(path).unwrap();
                    sink.create(&event(&format!("{who}"), 1)).unwrap();
                    assert!(sink.len().unwrap() >= 1);
                });
            }
        });
        let sink = SqliteSink::open(&path).unwrap();
        assert_eq!(sink.stats().unwrap().created, 6, "round {round}");
        drop(sink);
        check(&path);
    }
}
