//! Tests of several processes that use the same file. The tests cover readers alongside a writer,
//! two concurrent writers, many processes opening the file at the same time, and a process that
//! takes the file away while it is open.

mod taken_away;
mod together;

use std::path::Path;

use eventcast::Event;
use eventcast::sink::{SinkBatch, SinkOp, Stored};
use eventcast_sqlite::SqliteSink;
use rusqlite::Connection;
use test_support::child;

fn event(name: &str, count: i32) -> Event {
    let mut event = Event::default();
    event.metadata.name = name.to_owned().into();
    event.reason = "Started".into();
    event.count = count;
    event
}

fn check(path: &Path) {
    let connection = Connection::open(path).unwrap();
    let answer: String = connection.query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
    assert_eq!(answer, "ok");
}

fn apply(sink: &SqliteSink, ops: Vec<SinkOp>) -> Vec<Stored> {
    SinkBatch::perform(ops, sink).into_iter().map(Result::unwrap).collect()
}

fn start(test: &str, path: &Path, who: &str) -> child::Running {
    let mut child = child::Running::start(test, &[path.to_str().unwrap(), who]);
    assert_eq!(child.hear().as_deref(), Some("ready"));
    child
}
