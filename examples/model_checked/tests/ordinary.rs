//! The same agent on real threads. These tests pass with the bug and without it.
#![cfg(not(eventcast_loom))]

use eventcast::BusOptions;
use model_checked::Agent;

#[test]
fn a_stop_waits_for_the_jobs() {
    let agent = Agent::start(BusOptions::default()).expect("the options are in range");
    assert!((0..10).all(|job| agent.submit(job)));
    assert_eq!(agent.stop(), 45);
}

/// The queue has room for many more jobs, so this test never sees the bug.
#[test]
fn a_stop_by_order_waits_for_the_jobs() {
    let agent = Agent::start(BusOptions::default()).expect("the options are in range");
    assert!((0..10).all(|job| agent.submit(job)));
    assert_eq!(agent.stop_by_order(), 45);
}
