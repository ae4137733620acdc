//! Tests that need something that not every machine has: permission to mount a disk, or the events
//! of real clusters. Where it is missing, the tests are ignored.

mod clusters;
#[path = "../record/correlator_vectors.rs"]
mod correlator_vectors;
#[cfg(all(feature = "sqlite-system", target_os = "linux"))]
mod disks;
#[path = "../record/event_json.rs"]
#[allow(dead_code, unused_imports, reason = "the tests of the JSON use more of it")]
mod event_json;
#[cfg(all(feature = "sqlite-system", target_os = "linux"))]
#[path = "../sinks/sqlite/files/stores.rs"]
mod stores;
#[cfg(all(feature = "sqlite-system", target_os = "linux"))]
#[path = "../sinks/support.rs"]
#[allow(dead_code, reason = "the tests of the sinks use more of it")]
mod support;

use std::process::ExitCode;

use test_support::tests;

fn main() -> ExitCode {
    test_support::run([
        (clusters::missing_replayed(), tests![clusters::replayed_clusters]),
        (clusters::missing_recorded(), tests![clusters::real_events_survive_reading_and_writing]),
        #[cfg(all(feature = "sqlite-system", target_os = "linux"))]
        (
            disks::missing(),
            tests![disks::a_full_disk_is_told_and_survived, disks::a_store_that_cannot_be_written_is_refused,],
        ),
    ])
}
