//! The command `correlate`.

use std::error::Error;

/// Runs events from stdin through the correlator, and writes its answers to stdout.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {}

#[allow(clippy::unnecessary_wraps, reason = "the shape of every command")]
pub(crate) fn run(_args: Args) -> Result<bool, Box<dyn Error>> {
    Ok(true)
}
