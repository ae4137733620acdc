//! The command line: the commands, and the text of what is wrong with one.

use std::error::Error;
use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand};
use clap_complete::Shell;

use crate::support::output::{complain, say};
use crate::support::text::plain;
use crate::{correlate, events, replay, size, supervise};

/// Records events, reads them, and finds out how long a queue must be.
#[derive(Debug, Parser)]
#[command(name = "eventcast", version, max_term_width = 100, arg_required_else_help = true)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Supervise(supervise::Args),
    Events(events::Args),
    Replay(replay::Args),
    Correlate(correlate::Args),
    Size(size::Args),
    /// Prints the completions of a shell.
    Completions {
        /// The shell.
        shell: Shell,
    },
    /// Prints the man page.
    Man,
}

/// Runs a command. Returns whether all is well.
pub(crate) fn run(command: Command) -> Result<bool, Box<dyn Error>> {
    match command {
        Command::Supervise(args) => supervise::run(args),
        Command::Events(args) => events::run(args),
        Command::Replay(args) => replay::run(args),
        Command::Correlate(args) => correlate::run(args),
        Command::Size(args) => size::run(args),
        Command::Completions { shell } => {
            let mut text = Vec::new();
            clap_complete::generate(shell, &mut Cli::command(), "eventcast", &mut text);
            say(&String::from_utf8(text)?).map(|()| true)
        }
        Command::Man => {
            let mut text = Vec::new();
            clap_mangen::Man::new(Cli::command()).render(&mut text)?;
            say(&String::from_utf8(text)?).map(|()| true)
        }
    }
}

/// Shows the help on stdout, or what is wrong with the arguments on stderr. Exit status 2 means bad
/// usage.
pub(crate) fn usage(error: &clap::Error) -> ExitCode {
    let text = error.render().to_string();
    if !error.use_stderr() {
        return match say(&text) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                complain(&format!("eventcast: {error}"));
                ExitCode::FAILURE
            }
        };
    }
    // An argument may hold control characters, and clap shows it as it is.
    let lines: Vec<String> = text.trim_end().lines().map(plain).collect();
    complain(&lines.join("\n"));
    ExitCode::from(2)
}
