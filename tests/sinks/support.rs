//! Helpers shared by the sink tests.

use std::time::Duration;

use eventcast::{Event, EventBroadcaster, EventType, ObjectReference, RetryPolicy};
use tempfile::TempDir;

/// Returns a retry policy without pauses.
pub(crate) fn at_once() -> RetryPolicy {
    RetryPolicy::default().delay(Duration::ZERO)
}

/// Records an event about a pod. The event must be accepted.
#[track_caller]
pub(crate) fn record(events: &EventBroadcaster, name: &str, reason: &str) {
    let recorder = events.recorder("tester");
    let pod = ObjectReference::new("Pod", name.to_owned());
    assert!(recorder.event(pod, EventType::Normal, reason.to_owned(), "message").is_accepted());
}

/// Returns all files in a folder with their contents, sorted by name.
pub(crate) fn contents(folder: &TempDir) -> Vec<(String, Vec<u8>)> {
    let entries = std::fs::read_dir(folder.path()).unwrap().map(Result::unwrap);
    let mut files: Vec<_> = entries
        .map(|entry| (entry.file_name().into_string().unwrap(), std::fs::read(entry.path()).unwrap()))
        .collect();
    files.sort();
    files
}

/// Returns an event with this name about an object.
pub(crate) fn event(name: &str, kind: &'static str, object: &'static str) -> Event {
    let mut event = Event::default();
    event.metadata.name = name.to_owned().into();
    event.involved_object = ObjectReference::new(kind, object);
    event.type_ = "Normal".into();
    event.reason = "Started".into();
    event.count = 1;
    event
}
