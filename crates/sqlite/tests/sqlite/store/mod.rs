//! Tests the contents, results and queries of the store in a file through its public interface.

mod content;
mod life;
mod limits;
mod parts;
mod strict;

use std::time::{Duration, SystemTime};

use eventcast::testing::FakeClock;
use eventcast::{Event, EventType, ObjectReference};
use eventcast_sqlite::{SqliteSink, SqliteSinkOptions};
use tempfile::TempDir;

fn clock() -> FakeClock {
    FakeClock::new(SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000))
}

fn open(folder: &TempDir, clock: &FakeClock, options: SqliteSinkOptions) -> SqliteSink {
    SqliteSink::with_clock(folder.path().join("events.db"), options, clock.clock()).unwrap()
}

fn store(folder: &TempDir) -> SqliteSink {
    SqliteSink::open(folder.path().join("events.db")).unwrap()
}

fn event(name: &str) -> Event {
    let mut event = Event::default();
    event.metadata.name = name.to_owned().into();
    event.involved_object = ObjectReference::new("Pod", "web-0");
    event.type_ = EventType::Normal.into();
    event.reason = "Started".into();
    event.message = "started".into();
    event.count = 1;
    event
}

fn names(events: &[Event]) -> Vec<&str> {
    events.iter().map(|event| event.metadata.name.as_str()).collect()
}
