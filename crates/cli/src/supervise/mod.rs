//! The `supervise` command.
//!
//! Only Unix has process groups and signals, so the implementation of the command is in `unix`.

mod args;
#[cfg(unix)]
mod unix;

pub(crate) use args::Args;
#[cfg(unix)]
pub(crate) use unix::{become_command, run};

#[cfg(not(unix))]
pub(crate) fn become_command() -> Option<std::process::ExitCode> {
    None
}

#[cfg(not(unix))]
pub(crate) fn run(_: &Args) -> Result<std::process::ExitCode, Box<dyn std::error::Error>> {
    Err("cannot run commands: supervise requires process groups and signals, which only Unix has".into())
}
