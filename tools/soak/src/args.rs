//! Parses the command line and formats error messages for invalid arguments.

use std::env;
use std::process::ExitCode;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use clap::Parser;
use eventcast::escape::escape;
use jiff::fmt::friendly::SpanParser;

use super::output::{complain, say};

/// Exercises all features at the same time for a given duration, and checks order, accounting,
/// gaps and memory. Prints a status line every second, and up to 20 violations at the end.
///
/// A DURATION is one or more numbers with units, such as 500ms, 1m30s or 8h. Ctrl-C ends the run
/// early, and a second Ctrl-C exits immediately.
///
/// Exit status: 0 if there were no violations, 1 if there were any, 2 for bad usage.
#[derive(Debug, Parser)]
#[command(name = "eventcast-soak", verbatim_doc_comment)]
pub(crate) struct Args {
    /// How long to run
    #[arg(long = "for", value_name = "DURATION", default_value = "60s", value_parser = duration)]
    pub(crate) length: Duration,
    /// Seed for the random choices, but not the timing
    /// [default: from the clock]
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
}

impl Args {
    /// Returns the given seed, or a seed from the clock.
    pub(crate) fn seed(&self) -> u64 {
        let since = || SystemTime::now().duration_since(UNIX_EPOCH);
        self.seed.unwrap_or_else(|| since().map_or(0, |since| u64::from(since.subsec_nanos())))
    }
}

/// Parses the command line. If there is nothing to run, returns the exit status.
pub(crate) fn read() -> Result<Args, ExitCode> {
    // Arguments may contain control characters. clap prints control characters unescaped, or
    // removes them if its `color` feature is on, which depends on the other programs in the same
    // build.
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
