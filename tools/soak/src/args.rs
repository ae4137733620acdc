//! The command line, and the error for an invalid one.

use std::env;
use std::process::ExitCode;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use clap::Parser;
use eventcast::escape::escape;
use jiff::fmt::friendly::SpanParser;

use super::output::{complain, say};

/// Runs all features at the same time for a given time, and checks order, accounting, gaps and
/// memory. Prints one line a second, and at the end each violation.
///
/// A DURATION is numbers with units: 500ms, 1m30s, 8h. Ctrl-C ends the run early, and a second one
/// ends it immediately.
///
/// Exit status: 0 when nothing was violated, 1 when something was, 2 for bad usage.
#[derive(Debug, Parser)]
#[command(name = "eventcast-soak", verbatim_doc_comment)]
pub(crate) struct Args {
    /// How long
    #[arg(long = "for", value_name = "DURATION", default_value = "60s", value_parser = duration)]
    pub(crate) length: Duration,
    /// Repeat the choices (not the timing) of another run [default: from the clock]
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
}

impl Args {
    /// Returns the seed that was given, or one from the clock.
    pub(crate) fn seed(&self) -> u64 {
        let since = || SystemTime::now().duration_since(UNIX_EPOCH);
        self.seed.unwrap_or_else(|| since().map_or(0, |since| u64::from(since.subsec_nanos())))
    }
}

/// Reads the command line. If there is nothing to run, returns the status with which to exit.
pub(crate) fn read() -> Result<Args, ExitCode> {
    // An argument may hold control characters. clap shows them as they are, or removes them if its
    // feature `color` is on, which another program of the same build decides.
    let args = env::args_os().map(|arg| escape(&arg.to_string_lossy()).to_string());
    Args::try_parse_from(args).map_err(|error| {
        let text = error.render().to_string();
        if !error.use_stderr() {
            return if say(&text).is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE };
        }
        text.trim_end().lines().for_each(complain);
        ExitCode::from(2)
    })
}

fn duration(text: &str) -> Result<Duration, &'static str> {
    let parsed = SpanParser::new().parse_unsigned_duration(text);
    parsed.map_err(|_| "must be a duration such as 250ms or 1m30s")
}
