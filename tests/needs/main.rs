//! Tests that need the events of real clusters, which are not available on every machine. Without
//! these events the tests are ignored.

mod clusters;
#[path = "../record/correlator/vectors.rs"]
mod correlator_vectors;
#[path = "../record/event/json.rs"]
#[allow(dead_code, unused_imports, reason = "the tests of the JSON use more of it")]
mod event_json;

use std::process::ExitCode;

use test_support::tests;

fn main() -> ExitCode {
    test_support::run([
        (clusters::missing_replayed(), tests![clusters::replayed_clusters]),
        (clusters::missing_recorded(), tests![clusters::real_events_survive_reading_and_writing]),
    ])
}
