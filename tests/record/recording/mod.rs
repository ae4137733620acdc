//! Recordings: the demands of client-go's own tests, retries by the clock, the end, and accounting.

mod attempts;
mod counts;
mod end;
mod options;
mod outcomes;
mod panics;
mod refused_counts;
mod skipped_counts;
mod two_stores;

use eventcast::testing::FakeClock;
use eventcast::{EventBroadcaster, SinkError};

fn broadcaster(clock: &FakeClock) -> EventBroadcaster {
    EventBroadcaster::builder().clock(clock.clock()).build().unwrap()
}

fn retry() -> SinkError {
    SinkError::retry("busy")
}

// ── client-go's tests ──
