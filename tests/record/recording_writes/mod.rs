//! How a recording writes: in batches, in order for each key, again after failures, and by several
//! workers.
#![allow(clippy::type_complexity, reason = "what a test notes, it notes in one place")]

mod errors;
mod names;
mod outages;
mod waiting;
mod workers;

use eventcast::sink::{SinkErrorKind, SinkOp};
use eventcast::testing::FakeClock;
use eventcast::{CorrelatorOptions, EventBroadcaster, RetryPolicy, SinkError};

use crate::support::event_of;

fn retry() -> SinkError {
    SinkError::retry("busy")
}

/// Returns the error of a store that is unavailable.
fn away() -> SinkError {
    SinkError::new(SinkErrorKind::Unavailable, "connection refused")
}

/// Returns a policy with ten seconds between attempts, none of them shortened.
fn every_ten_seconds() -> RetryPolicy {
    RetryPolicy::default().jitter(eventcast::record::Jitter::Never)
}

fn broadcaster(clock: &FakeClock, policy: RetryPolicy) -> EventBroadcaster {
    EventBroadcaster::builder().clock(clock.clock()).retry(policy).build().unwrap()
}

fn without_budget() -> CorrelatorOptions {
    CorrelatorOptions::default().spam_filter(None)
}

fn reason_of(op: &SinkOp) -> String {
    event_of(op).reason.to_string()
}

// ── what waits ──
