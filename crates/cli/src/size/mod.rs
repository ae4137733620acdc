//! The command `size`.

use std::error::Error;

/// Finds out how long a queue must be.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {}

#[allow(clippy::unnecessary_wraps, reason = "the shape of every command")]
pub(crate) fn run(_args: Args) -> Result<bool, Box<dyn Error>> {
    Ok(true)
}
