//! Queries to the in-memory store, and a comparison of the store with a plain list of events.

mod conditions;
mod pages;
mod plain;
mod readings;

use std::time::{Duration, SystemTime};

use eventcast::Event;
use eventcast::testing::FakeClock;

fn clock() -> FakeClock {
    FakeClock::new(SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000))
}

fn names(events: &[Event]) -> Vec<&str> {
    events.iter().map(|event| event.metadata.name.as_str()).collect()
}
