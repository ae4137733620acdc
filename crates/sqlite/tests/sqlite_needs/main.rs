//! Tests that require permission to mount a disk. These tests are ignored if the permission is
//! missing.

#[cfg(target_os = "linux")]
mod disks;
#[cfg(target_os = "linux")]
#[path = "../sqlite/files/stores.rs"]
mod stores;
#[cfg(target_os = "linux")]
#[path = "../../../../tests/sinks/support.rs"]
#[allow(dead_code, reason = "the other tests use more of it")]
mod support;

use std::process::ExitCode;

fn main() -> ExitCode {
    test_support::run([
        #[cfg(target_os = "linux")]
        (
            disks::missing(),
            test_support::tests![
                disks::a_full_disk_is_reported_and_survived,
                disks::a_store_that_cannot_be_written_is_refused,
            ],
        ),
    ])
}
