//! Tests that a store survives crashes. A process that writes to the store is killed a hundred
//! times, at random points. After each kill, the file can be opened, is consistent, and contains
//! every event whose write was acknowledged.
//!
//! `EVENTCAST_SEED` selects different points, and `EVENTCAST_CASES` multiplies the number of
//! points.

use std::collections::BTreeMap;
use std::env;
use std::path::Path;

use eventcast::Event;
use eventcast::sink::{SinkBatch, SinkOp};
use eventcast_sqlite::{SqliteSink, SqliteSinkOptions};
use rusqlite::Connection;
use tempfile::tempdir;
use test_support::{Rng, child, test_name};

use crate::support::contents;

/// The number of files, and the number of times that each file's writer is killed.
const FILES: u64 = 10;
const KILLS: u64 = 10;

fn number(name: &str, default: u64) -> u64 {
    env::var(name).map_or(default, |text| text.parse().expect("a number"))
}

fn open(path: &Path) -> SqliteSink {
    SqliteSink::with_options(path, SqliteSinkOptions::default().max_events(1_000_000)).unwrap()
}

fn event(name: &str, count: i32) -> Event {
    let mut event = Event::default();
    event.metadata.name = name.to_owned().into();
    event.reason = "Started".into();
    event.message = format!("{name} {}", "x".repeat(name.len() * 37 % 1500)).into();
    event.count = count;
    event
}

/// Runs in the child process. Writes batches indefinitely, and reports each batch when the store
/// acknowledges it. Occasionally, the child closes and reopens the file. Closing the file
/// checkpoints the log.
fn write(path: &Path, life: &str, seed: u64) {
    let mut random = Rng(seed);
    let mut counts: Vec<(String, i32)> = Vec::new();
    for session in 0.. {
        let sink = open(path);
        child::say("open");
        for batch in 0..=random.below(8) {
            let mut ops = Vec::new();
            let mut told = Vec::new();
            for i in 0..=random.below(40) {
                let name = format!("{life}-{session}-{batch}-{i}");
                ops.push(SinkOp::Create(event(&name, 1)));
                told.push(format!("{name}=1"));
            }
            let known = counts.len() as u64;
            for _ in 0..known.min(5) {
                let (name, count) = &mut counts[random.below(known) as usize];
                *count += 1;
                let again = event(name, *count);
                ops.push(SinkOp::Patch(again));
                told.push(format!("{name}={count}"));
            }
            child::say(&format!("try {}", told.join(" ")));
            for answer in SinkBatch::perform(ops, &sink) {
                answer.unwrap();
            }
            counts.extend(
                told.iter().filter_map(|told| told.strip_suffix("=1")).map(|name| (name.to_owned(), 1)),
            );
            child::say(&told.join(" "));
        }
    }
}

/// Returns the names in a line from the child, with their counts.
fn counted(line: &str) -> Vec<(String, i32)> {
    let told = line.split(' ').filter_map(|told| told.split_once('='));
    told.map(|(name, count)| (name.to_owned(), count.parse().unwrap())).collect()
}

/// Asserts that SQLite's integrity check passes, and that the counters match the rows.
fn assert_consistent(path: &Path) {
    let connection = Connection::open(path).unwrap();
    let answer: String = connection.query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
    assert_eq!(answer, "ok");
    let balance: i64 = connection
        .query_row(
            "SELECT (SELECT created - expired - evicted FROM store) - (SELECT count(*) FROM events)",
            [],
            |row| row.get(0),
        )
        .unwrap();
    assert_eq!(balance, 0);
    let behind: i64 = connection
        .query_row(
            "SELECT (SELECT resourceVersion FROM store) - (SELECT coalesce(max(resourceVersion), 0) FROM events)",
            [],
            |row| row.get(0),
        )
        .unwrap();
    assert_eq!(behind, 0);
}

/// Opens the file, and asserts that it contains the acknowledged events. Returns the counts of all
/// events in the file.
fn assert_kept(path: &Path, known: &BTreeMap<String, i32>, tried: &[(String, i32)]) -> BTreeMap<String, i32> {
    let stored = open(path).events().unwrap();
    let counts: BTreeMap<String, i32> =
        stored.iter().map(|event| (event.metadata.name.to_string(), event.count)).collect();
    for (name, count) in known {
        let found = counts.get(name);
        assert!(found >= Some(count), "{name} was acknowledged as {count}, is {found:?}");
    }
    for stored in &stored {
        let written = event(&stored.metadata.name, stored.count);
        assert_eq!(stored.message, written.message);
    }
    // The last batch may have been committed without being acknowledged, or may not have been
    // committed. The file contains either the whole batch or none of it.
    let is_stored = |(name, count): &&(String, i32)| counts.get(name) >= Some(count);
    let of_last = tried.iter().filter(is_stored).count();
    assert!([0, tried.len()].contains(&of_last), "{of_last} of a batch of {}", tried.len());
    counts
}

#[test]
fn a_killed_process_keeps_its_acknowledged_events() {
    if let Some(orders) = child::orders() {
        return write(orders[0].as_ref(), &orders[1], orders[2].parse().unwrap());
    }
    let seed = number("EVENTCAST_SEED", 1);
    println!("EVENTCAST_SEED={seed}");
    let mut random = Rng(seed);
    let (mut acknowledged, mut unfinished) = (0, 0);
    for _ in 0..FILES * number("EVENTCAST_CASES", 1) {
        let folder = tempdir().unwrap();
        let path = folder.path().join("events.db");
        let mut known: BTreeMap<String, i32> = BTreeMap::new();
        for life in 0..KILLS {
            let orders = [path.to_str().unwrap(), &life.to_string(), &random.below(u64::MAX).to_string()];
            let mut child = child::Running::start(test_name!(), &orders);
            let mut tried = Vec::new();
            let mut hear = |line: String| match line.strip_prefix("try ") {
                Some(line) => tried = counted(line),
                None => known.extend(counted(&line)),
            };
            // The first processes are killed while they are creating the file, or soon afterwards.
            for _ in 0..random.below(1 + 6 * life) {
                hear(child.hear().expect("it writes until it is killed"));
            }
            for _ in 0..random.below(300_000) {
                std::hint::spin_loop();
            }
            child.kill();
            while let Some(line) = child.hear() {
                hear(line);
            }

            // The first check closes the file cleanly, which would repair damage that the second
            // check should find. The first check is therefore skipped half of the time.
            if !known.is_empty() && random.below(2) == 0 {
                assert_consistent(&path);
            }
            let counts = assert_kept(&path, &known, &tried);
            unfinished += counts.len() - known.len();
            acknowledged = acknowledged.max(known.len());
            known.extend(counts);
            assert_consistent(&path);
        }
    }
    println!("up to {acknowledged} acknowledged in one file; {unfinished} committed and not told");
    assert!(acknowledged > 100, "{acknowledged}: hardly anything was written");
}

/// SQLite checkpoints the log page by page, so the first page may already specify a length that the
/// file has not reached yet. If the process is killed at this point, the header in the file is
/// correct only in combination with the log.
#[test]
fn killed_while_the_log_is_written_back_it_opens() {
    let live = tempdir().unwrap();
    let sink = open(&live.path().join("events.db"));
    let ops = (0..100).map(|i| SinkOp::Create(event(&format!("{i}"), 1))).collect();
    assert!(SinkBatch::perform(ops, &sink).iter().all(Result::is_ok));
    let stored = sink.events().unwrap();
    assert_eq!(stored.len(), 100);
    let folder = tempdir().unwrap();
    for (name, mut bytes) in contents(&live) {
        if name == "events.db" {
            bytes[28..32].copy_from_slice(&1000_u32.to_be_bytes());
        }
        std::fs::write(folder.path().join(&name), bytes).unwrap();
    }
    assert_eq!(contents(&folder).len(), 3);
    let path = folder.path().join("events.db");
    assert_eq!(SqliteSink::open_read_only(&path).unwrap().events().unwrap(), stored);
    let sink = open(&path);
    assert_eq!(sink.events().unwrap(), stored);
    drop(sink);
    assert_consistent(&path);
}
