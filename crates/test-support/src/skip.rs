//! A report of the tests that are skipped, which `.ci/run` repeats in its last lines.

use std::env;
use std::fs::OpenOptions;
use std::io::Write as _;

/// Says that a test is skipped, and why. The line goes to the standard error, which the test
/// harness shows with `--nocapture`, and to the file that `EVENTCAST_SKIPPED` names.
///
/// # Panics
///
/// If that file cannot be written.
#[allow(clippy::print_stderr, reason = "a test that could not look must say so")]
pub fn skipped(test: &str, why: &str) {
    eprintln!("{test} is SKIPPED: {why}");
    if let Some(path) = env::var_os("EVENTCAST_SKIPPED") {
        let mut file = OpenOptions::new()
            .append(true)
            .create(true)
            .open(path)
            .expect("EVENTCAST_SKIPPED can be written");
        writeln!(file, "  {test}: {why}").expect("EVENTCAST_SKIPPED can be written");
    }
}
