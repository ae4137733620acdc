//! Flags that take a value, and what a program makes of the result.

use std::error::Error;
use std::ffi::OsString;
use std::ops::RangeInclusive;
use std::process::ExitCode;
use std::time::Duration;

use super::duration;
use super::output::{complain, say};
use super::text::{plain, quoted};

/// The parser of a command line, from which each function below reads.
pub(crate) use lexopt::Parser;

/// Runs a program. `read` makes settings of the arguments, or `None` if help is asked for. `run`
/// returns whether all is well. Exit status 2 means bad usage, and 1 everything else that is wrong.
pub(crate) fn main<S>(
    name: &str,
    help: &str,
    read: impl FnOnce(Parser) -> Result<Option<S>, String>,
    run: impl FnOnce(&S) -> Result<bool, Box<dyn Error>>,
) -> ExitCode {
    let done = match read(Parser::from_env()) {
        Ok(Some(settings)) => run(&settings),
        Ok(None) => say(help).map(|()| true),
        Err(error) => {
            complain(&format!("{name}: {error}\nTry '{name} --help'."));
            return ExitCode::from(2);
        }
    };
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            complain(&format!("{name}: {}", plain(&error.to_string())));
            ExitCode::FAILURE
        }
    }
}

/// Returns the next argument, or what is wrong with it.
pub(crate) fn next(parser: &mut Parser) -> Result<Option<lexopt::Arg<'_>>, String> {
    parser.next().map_err(|error| plain(&error.to_string()))
}

/// Returns the message that there is no such argument.
pub(crate) fn unknown(argument: lexopt::Arg<'_>) -> String {
    plain(&argument.unexpected().to_string())
}

/// Reads the value of an option that takes a duration.
pub(crate) fn duration(parser: &mut Parser, option: &str) -> Result<Duration, String> {
    let text = parser.value().map_err(|_| format!("{option} needs a duration, as in {option} 5s"))?;
    duration::parse(option, &utf8(text)?)
}

/// Reads the value of an option that takes a number.
pub(crate) fn number(parser: &mut Parser, option: &str, allowed: RangeInclusive<u64>) -> Result<u64, String> {
    let range = format!("a number from {} to {}", allowed.start(), allowed.end());
    let text = utf8(parser.value().map_err(|_| format!("{option} needs {range}"))?)?;
    let number = text.parse().ok().filter(|number| allowed.contains(number));
    number.ok_or_else(|| format!("{option} must be {range}, got {}", quoted(&text)))
}

pub(crate) fn utf8(text: OsString) -> Result<String, String> {
    text.into_string().map_err(|text| {
        format!("the argument {} is not UTF-8: write it in UTF-8", quoted(&text.to_string_lossy()))
    })
}
