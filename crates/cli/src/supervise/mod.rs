//! The command `supervise`.

use std::error::Error;

/// Runs commands, starts those that end again, and records what happens to them as events.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {}

#[allow(clippy::unnecessary_wraps, reason = "the shape of every command")]
pub(crate) fn run(_args: Args) -> Result<bool, Box<dyn Error>> {
    Ok(true)
}
