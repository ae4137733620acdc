//! The command `eventcast`.

mod cli;
mod correlate;
mod events;
mod plot;
mod replay;
mod size;
mod supervise;
mod support;

use std::process::ExitCode;

use clap::Parser;

use cli::Cli;
use support::bad_input::BadInput;
use support::output::complain;
use support::text::plain;

fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return cli::usage(&error),
    };
    match cli::run(cli.command) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            complain(&format!("eventcast: {}", plain(&error.to_string())));
            if error.is::<BadInput>() { ExitCode::from(2) } else { ExitCode::FAILURE }
        }
    }
}
