//! The command `events`.

use std::error::Error;

/// Lists, describes and follows the events in a store.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {}

#[allow(clippy::unnecessary_wraps, reason = "the shape of every command")]
pub(crate) fn run(_args: Args) -> Result<bool, Box<dyn Error>> {
    Ok(true)
}
