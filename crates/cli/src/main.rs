//! The `eventcast` command.

mod cli;
mod correlate;
mod events;
#[cfg(feature = "analysis")]
mod input;
#[cfg(feature = "help")]
mod manual;
mod nats;
#[cfg(feature = "analysis")]
mod plot;
#[cfg(feature = "analysis")]
mod replay;
#[cfg(feature = "analysis")]
mod size;
mod supervise;
mod support;
mod top;

use std::process::ExitCode;

use clap::Parser;

use cli::Cli;
use support::bad_input::BadInput;
use support::bad_usage::BadUsage;
use support::output::complain;
use support::text::plain;

fn main() -> ExitCode {
    if let Some(status) = supervise::become_command() {
        return status;
    }
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return cli::usage(error),
    };
    match cli::run(cli.command) {
        Ok(status) => status,
        Err(error) if error.is::<BadUsage>() => cli::bad_usage(&error.to_string()),
        Err(error) => {
            complain(&format!("eventcast: {}", plain(&error.to_string())));
            if error.is::<BadInput>() { ExitCode::from(2) } else { ExitCode::FAILURE }
        }
    }
}
