//! Prints what the correlator answers, event by event, in the form of `tests/vectors`, to compare
//! it with other correlators.
//!
//! ```sh
//! cargo run --release --example correlate -- --compare < tests/vectors/aggregate.jsonl
//! ```
#![allow(clippy::print_stderr, reason = "a program, not part of the library")]

mod compare;
#[path = "../support/lines.rs"]
mod lines;
#[allow(dead_code, reason = "shared with the other examples")]
#[path = "../support/text.rs"]
mod text;
mod vectors;

use std::io::{self, BufWriter, Write};
use std::process::ExitCode;

use compare::Comparison;
use lines::Lines;
use text::plain;
use vectors::{Rig, Vector};

const HELP: &str = "\
Runs events through the correlator, and writes its answers.

Usage: correlate [--compare] < FILE

Reads JSON lines on standard input: first {\"options\": {...}} with client-go's names
(lruCacheSize, burstSize, qps, maxEvents, maxIntervalInSeconds; 0 or absent is the
default), then for each event {\"at\": TIME, \"event\": {...}, \"server\": {...}}. `at` is the
time of the clock, `event` a core/v1 Event. Each write succeeds, and the correlator gets the
store's answer. `server` can change that: {\"name\": .., \"resourceVersion\": ..} is the store's
answer, {\"fail\": true} makes the write fail.

Writes for each event one line {\"skip\": .., \"event\": .., \"patch\": .., \"error\": ..}.

Options:
      --compare   Compare with the `expect` of each line instead, which has that
                  same form, and show the first differences
  -h, --help      Print this
  -V, --version   Print the version

Exit status: 0 when all is well, 1 when something differs or cannot be written, 2 for bad
usage and for a line that cannot be read; the error has its number.
";

/// The reason why the program ends early.
enum Stop {
    /// Nobody reads the output any more.
    NobodyReads,
    Output(io::Error),
    /// The input is wrong, with the reason.
    Input(String),
}

impl From<io::Error> for Stop {
    fn from(error: io::Error) -> Self {
        if error.kind() == io::ErrorKind::BrokenPipe { Self::NobodyReads } else { Self::Output(error) }
    }
}

fn main() -> ExitCode {
    match parse(lexopt::Parser::from_env()).map_err(Stop::Input).and_then(run) {
        Ok(true) | Err(Stop::NobodyReads) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(Stop::Output(error)) => {
            eprintln!("correlate: cannot write: {error}");
            ExitCode::FAILURE
        }
        Err(Stop::Input(error)) => {
            eprintln!("correlate: {error}");
            ExitCode::from(2)
        }
    }
}

#[derive(Clone, Copy)]
enum Request {
    Say(&'static str),
    Answer,
    Compare,
}

fn parse(mut parser: lexopt::Parser) -> Result<Request, String> {
    use lexopt::prelude::{Long, Short};
    let mut request = Request::Answer;
    let wrong = |error: lexopt::Error| format!("{}\nTry 'correlate --help'.", plain(&error.to_string()));
    while let Some(argument) = parser.next().map_err(wrong)? {
        match argument {
            Short('h') | Long("help") => return Ok(Request::Say(HELP)),
            Short('V') | Long("version") => {
                return Ok(Request::Say(concat!("correlate (eventcast ", env!("CARGO_PKG_VERSION"), ")\n")));
            }
            Long("compare") => request = Request::Compare,
            other => return Err(wrong(other.unexpected())),
        }
    }
    Ok(request)
}

/// Carries out the request. Returns whether everything was as expected.
fn run(request: Request) -> Result<bool, Stop> {
    let mut out = BufWriter::new(io::stdout().lock());
    if let Request::Say(text) = request {
        out.write_all(text.as_bytes())?;
        out.flush()?;
        return Ok(true);
    }
    let mut comparison = matches!(request, Request::Compare).then(Comparison::default);
    let mut lines = Lines::new(io::stdin().lock());
    let mut rig: Option<Rig> = None;
    while let Some((number, line)) =
        lines.next().map_err(|error| Stop::Input(format!("cannot read: {error}")))?
    {
        let at_line = |error: String| Stop::Input(format!("line {number}: {}", plain(&error)));
        let line = line.map_err(at_line)?;
        let Some(rig) = &mut rig else {
            rig = Some(Rig::new(&line).map_err(at_line)?);
            continue;
        };
        let vector = Vector::read(&line).map_err(at_line)?;
        let answer = rig.answer(&vector);
        match &mut comparison {
            None => writeln!(out, "{}", answer.to_json())?,
            Some(comparison) => {
                let Some(expected) = &vector.expect else {
                    return Err(at_line("cannot compare: missing field `expect`".to_owned()));
                };
                comparison.add(number, expected, &answer);
            }
        }
    }
    if rig.is_none() {
        return Err(Stop::Input("line 1: cannot read the options: the input is empty".to_owned()));
    }
    let is_as_expected = comparison.as_ref().is_none_or(Comparison::is_equal);
    if let Some(comparison) = comparison {
        write!(out, "{comparison}")?;
    }
    out.flush()?;
    Ok(is_as_expected)
}
