//! Creates stores that the tests use as a starting point.

use std::fs;
use std::path::Path;

use eventcast::sink::{SinkBatch, SinkOp};
use eventcast::{Event, ObjectReference};
use eventcast_sqlite::SqliteSink;
use tempfile::{TempDir, tempdir};

use crate::support::contents;

pub(crate) fn event(name: &str) -> Event {
    let mut event = Event::default();
    event.metadata.name = name.to_owned().into();
    event.involved_object = ObjectReference::new("Pod", "web-0");
    event.reason = "Started".into();
    event.message = "m".repeat(1000).into();
    event
}

/// Creates a store with the given number of events, and closes it.
pub(crate) fn filled(path: &Path, events: usize) {
    let sink = SqliteSink::open(path).unwrap();
    let ops = (0..events).map(|i| SinkOp::Create(event(&format!("{i}")))).collect();
    assert!(SinkBatch::perform(ops, &sink).iter().all(Result::is_ok));
}

/// Copies the files in a directory while a process has them open. The copies are in the state that
/// a crash would leave.
pub(crate) fn crashed(from: &TempDir) -> TempDir {
    let to = tempdir().unwrap();
    for (name, bytes) in contents(from) {
        fs::write(to.path().join(&name), bytes).unwrap();
    }
    to
}
