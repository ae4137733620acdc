//! Queries to the store in memory, `describe`, and a comparison of the store with a plain list of
//! events.

mod conditions;
mod pages;
mod plain;
mod readings;

use std::time::{Duration, SystemTime};

use eventcast::sink::MemorySinkOptions;
use eventcast::testing::FakeClock;
use eventcast::{Event, MemorySink, Timestamp};

fn clock() -> FakeClock {
    FakeClock::new(SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000))
}

fn now(clock: &FakeClock) -> Timestamp {
    clock.clock().now().into()
}

fn store(clock: &FakeClock) -> MemorySink {
    MemorySink::with_clock(MemorySinkOptions::default(), clock.clock()).unwrap()
}

fn names(events: &[Event]) -> Vec<&str> {
    events.iter().map(|event| event.metadata.name.as_str()).collect()
}
