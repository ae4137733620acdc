//! Recordings: which events reach the store, in which order, how many times they are tried, and how
//! a recording ends. `tests/fuzz/delivery` tests the same behaviour with random programs.

mod attempts;
mod batches;
mod builder;
mod capacity;
mod destructors;
mod end;
mod failing;
mod flush;
mod groups;
mod hold;
mod identity;
mod order;
mod outage;
mod outcome;
mod pending;
mod refused;
mod stress;
mod writers;

use std::time::Duration;

use eventcast::sink::SinkOp;
use eventcast::testing::FakeClock;
use eventcast::{BusOptions, CorrelatorOptions, Event, EventBroadcaster, MemorySink, RetryPolicy, SinkError};

use crate::support::{clocked, every_ten_seconds};

/// Returns a broadcaster that waits exactly ten seconds between attempts.
fn broadcaster(clock: &FakeClock) -> EventBroadcaster {
    let bus = BusOptions::default().incoming_capacity(10_000);
    clocked(clock).bus(bus).retry(every_ten_seconds()).build().unwrap()
}

fn with_policy(clock: &FakeClock, policy: RetryPolicy) -> EventBroadcaster {
    clocked(clock).retry(policy).build().unwrap()
}

fn without_budget() -> CorrelatorOptions {
    CorrelatorOptions::default().spam_filter(None)
}

const PAUSE: Duration = Duration::from_secs(10);

fn retry() -> SinkError {
    SinkError::retry("busy")
}

fn reason_of(op: &SinkOp) -> String {
    op.event().reason.to_string()
}

fn with_correlator(options: CorrelatorOptions, clock: &FakeClock) -> EventBroadcaster {
    clocked(clock).correlator(options).build().unwrap()
}

/// Returns the only stored event.
fn only(store: &MemorySink) -> Event {
    let mut stored = store.events();
    assert_eq!(stored.len(), 1, "{stored:?}");
    stored.remove(0)
}

/// Returns the counts of the stored events.
fn counts(store: &MemorySink) -> Vec<i32> {
    store.events().iter().map(|event| event.count).collect()
}
