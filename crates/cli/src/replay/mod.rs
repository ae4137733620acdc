//! The command `replay`.

use std::error::Error;

/// Shows what the correlator makes of a cluster's events.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {}

#[allow(clippy::unnecessary_wraps, reason = "the shape of every command")]
pub(crate) fn run(_args: Args) -> Result<bool, Box<dyn Error>> {
    Ok(true)
}
