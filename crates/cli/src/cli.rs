//! The command-line interface, with the subcommands and the error messages for invalid arguments.

use std::env;
use std::error::Error;
use std::process::ExitCode;

use clap::builder::StyledStr;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{CommandFactory as _, Parser, Subcommand};

#[cfg(feature = "help")]
use crate::manual;
#[cfg(not(all(feature = "analysis", feature = "help")))]
use crate::support::feature::{AnyArgs, missing};
use crate::support::output::{complain, say};
use crate::support::text::{plain, quoted};
use crate::{correlate, events, nats, supervise, top};
#[cfg(feature = "analysis")]
use crate::{replay, size};

/// Record, inspect and replay events, and find out how long a queue must be
#[derive(Debug, Parser)]
#[command(name = "eventcast", version, propagate_version = true, max_term_width = 100)]
#[command(arg_required_else_help = true, after_help = AFTER_HELP)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

const AFTER_HELP: &str = "\
Examples:
  eventcast supervise --for 5s 'sleep 0.3' 'false' 'echo hello'
  eventcast events get --types Warning
  eventcast supervise --help

Exit status: 0 on success, 1 if something failed or events were lost, 2 for bad
usage or unusable input, 3 if `supervise` gave up on a command.";

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Supervise(supervise::Args),
    Events(events::Args),
    #[cfg(feature = "analysis")]
    Replay(replay::Args),
    /// Show how the correlator would have handled a cluster's events
    #[cfg(not(feature = "analysis"))]
    #[command(before_help = "This build does not include the `analysis` feature.")]
    Replay(AnyArgs),
    Correlate(correlate::Args),
    #[cfg(feature = "analysis")]
    Size(size::Args),
    /// Find out how long a queue must be
    #[cfg(not(feature = "analysis"))]
    #[command(before_help = "This build does not include the `analysis` feature.")]
    Size(AnyArgs),
    Publish(nats::PublishArgs),
    Watch(nats::WatchArgs),
    Top(top::Args),
    #[cfg(feature = "help")]
    Completions(manual::CompletionsArgs),
    /// Generate a completion script for a shell
    #[cfg(not(feature = "help"))]
    #[command(before_help = "This build does not include the `help` feature.")]
    Completions(AnyArgs),
    #[cfg(feature = "help")]
    Man(manual::ManArgs),
    /// Print a man page, or write all man pages to a directory
    #[cfg(not(feature = "help"))]
    #[command(before_help = "This build does not include the `help` feature.")]
    Man(AnyArgs),
}

/// Runs a command and returns its exit status.
pub(crate) fn run(command: Command) -> Result<ExitCode, Box<dyn Error>> {
    let is_well = match command {
        Command::Supervise(args) => return supervise::run(&args),
        Command::Events(args) => events::run(args),
        #[cfg(feature = "analysis")]
        Command::Replay(args) => replay::run(args),
        #[cfg(not(feature = "analysis"))]
        Command::Replay(_) => Err(missing("eventcast replay", "analysis").into()),
        Command::Correlate(args) => correlate::run(args),
        #[cfg(feature = "analysis")]
        Command::Size(args) => size::run(args),
        #[cfg(not(feature = "analysis"))]
        Command::Size(_) => Err(missing("eventcast size", "analysis").into()),
        Command::Publish(args) => nats::publish(&args),
        Command::Watch(args) => nats::watch(&args),
        Command::Top(args) => top::run(&args),
        #[cfg(feature = "help")]
        Command::Completions(args) => manual::completions(&args, &mut Cli::command()),
        #[cfg(not(feature = "help"))]
        Command::Completions(_) => Err(missing("eventcast completions", "help").into()),
        #[cfg(feature = "help")]
        Command::Man(args) => manual::man(&args, Cli::command()),
        #[cfg(not(feature = "help"))]
        Command::Man(_) => Err(missing("eventcast man", "help").into()),
    }?;
    Ok(if is_well { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Prints the help to stdout, or the argument error to stderr. The exit status for bad usage is 2.
pub(crate) fn usage(mut error: clap::Error) -> ExitCode {
    if !error.use_stderr() {
        return match say(&error.render().to_string()) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                complain(&format!("eventcast: {error}"));
                ExitCode::FAILURE
            }
        };
    }
    if error.kind() == ErrorKind::ValueValidation {
        // Our value parsers already include the option and the value in their messages.
        if let Some(cause) = error.source() {
            return bad_usage(&cause.to_string());
        }
    }
    let arguments: Vec<String> = env::args_os().map(|arg| arg.to_string_lossy().into_owned()).collect();
    if let Some(problem) = negative_value(&error, &arguments) {
        return bad_usage(&problem);
    }
    escape_arguments(&mut error);
    complain(error.render().to_string().trim_end());
    ExitCode::from(2)
}

/// Returns the error message for a negative number or duration that the parser mistook for an
/// option. The parser's own message suggests `--`, which would not help in this case.
fn negative_value(error: &clap::Error, arguments: &[String]) -> Option<String> {
    let Some(ContextValue::String(unknown)) = error.get(ContextKind::InvalidArg) else { return None };
    let is_negative = unknown.strip_prefix('-')?.starts_with(|c: char| c.is_ascii_digit());
    if error.kind() != ErrorKind::UnknownArgument || !is_negative {
        return None;
    }
    // If the argument is `-1s`, the parser's error names only `-1`.
    let at = arguments.iter().position(|argument| argument.starts_with(unknown.as_str()))?;
    let (value, option) = (&arguments[at], arguments.get(at.checked_sub(1)?)?);
    takes_value(&Cli::command(), option)
        .then(|| format!("{option} must not begin with '-', got {}", quoted(value)))
}

/// Returns whether the command or one of its subcommands has this option and the option takes a
/// value.
fn takes_value(command: &clap::Command, option: &str) -> bool {
    let is_named = |argument: &clap::Arg| match option.strip_prefix("--") {
        Some(long) => argument.get_long() == Some(long),
        None => argument.get_short().is_some_and(|short| option == format!("-{short}")),
    };
    let takes = |argument: &clap::Arg| argument.get_action().takes_values() && is_named(argument);
    command.get_arguments().any(takes)
        || command.get_subcommands().any(|command| takes_value(command, option))
}

/// Reports invalid arguments in the parser's own format.
pub(crate) fn bad_usage(problem: &str) -> ExitCode {
    complain(&format!("error: {}\n\nFor more information, try '--help'.", plain(problem)));
    ExitCode::from(2)
}

/// Escapes the arguments in an error. The parser prints arguments unescaped, and they may contain
/// any characters.
fn escape_arguments(error: &mut clap::Error) {
    let escaped: Vec<(ContextKind, ContextValue)> = error
        .context()
        .filter(|(kind, _)| *kind != ContextKind::Usage)
        .map(|(kind, value)| (kind, escaped(value)))
        .collect();
    for (kind, value) in escaped {
        error.insert(kind, value);
    }
}

fn escaped(value: &ContextValue) -> ContextValue {
    let styled = |text: &StyledStr| StyledStr::from(plain(&text.to_string()));
    match value {
        ContextValue::String(text) => ContextValue::String(plain(text)),
        ContextValue::Strings(texts) => ContextValue::Strings(texts.iter().map(|text| plain(text)).collect()),
        ContextValue::StyledStr(text) => ContextValue::StyledStr(styled(text)),
        ContextValue::StyledStrs(texts) => ContextValue::StyledStrs(texts.iter().map(styled).collect()),
        other => other.clone(),
    }
}
