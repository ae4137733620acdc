//! The command `correlate`: prints the correlator's decision about each event, in the format of
//! `tests/vectors`, to compare it with other correlators.

mod compare;
mod vectors;

use std::error::Error;
use std::io::{self, BufWriter, Write};

use compare::Comparison;
use vectors::{Rig, Vector};

use crate::support::bad_input::BadInput;
use crate::support::lines::Lines;
use crate::support::text::plain;

const AFTER_HELP: &str = "\
Input, in JSON lines: first {\"options\": {...}} with client-go's names
(lruCacheSize, burstSize, qps, maxEvents, maxIntervalInSeconds; 0 or absent is
the default), then for each event {\"at\": TIME, \"event\": {...}, \"server\": {...}}.
The time is the clock's, and the event is of core/v1. Each write succeeds, and
the correlator gets the store's answer. The server can change that: {\"name\": ..,
\"resourceVersion\": ..} is the store's answer, {\"fail\": true} makes the write
fail. Blank lines are skipped.

Output, for each event: one line
{\"skip\": .., \"event\": .., \"patch\": .., \"error\": ..}. With --compare, each event
of the input has such an object as \"expect\", and the output is the first
differences.

Exit status: 0 when all is well, 1 when something differs or cannot be written,
2 for bad usage and for a line that cannot be read. The error has the number of
the line.

Examples:
  eventcast correlate < events.jsonl > answers.jsonl
  eventcast correlate --compare < tests/vectors/aggregate.jsonl";

/// Runs events from stdin through the correlator, and writes its answers to stdout.
#[derive(Clone, Copy, Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Args {
    /// Compare with the expected answers in the input instead, and show the first differences.
    #[arg(long)]
    compare: bool,
}

/// The reason why the command ends early.
enum Stop {
    Output(io::Error),
    /// The input is wrong, with the reason.
    Input(String),
}

impl From<io::Error> for Stop {
    fn from(error: io::Error) -> Self {
        Self::Output(error)
    }
}

/// Prints or compares the decisions about all events. Returns whether everything was as expected.
pub(crate) fn run(args: Args) -> Result<bool, Box<dyn Error>> {
    match answer_all(args.compare) {
        Ok(is_as_expected) => Ok(is_as_expected),
        // The reader of the output has closed it, as in `| head`.
        Err(Stop::Output(error)) if error.kind() == io::ErrorKind::BrokenPipe => Ok(true),
        Err(Stop::Output(error)) => Err(format!("cannot write to stdout: {error}").into()),
        Err(Stop::Input(error)) => Err(BadInput(error).into()),
    }
}

fn answer_all(compare: bool) -> Result<bool, Stop> {
    let mut out = BufWriter::new(io::stdout().lock());
    let mut comparison = compare.then(Comparison::default);
    let mut lines = Lines::new(io::stdin().lock());
    let mut rig: Option<Rig> = None;
    while let Some((number, line)) =
        lines.next().map_err(|error| Stop::Input(format!("cannot read: {error}")))?
    {
        let at_line = |error: String| Stop::Input(format!("line {number}: {}", plain(&error)));
        let line = line.map_err(|error| at_line(error.to_string()))?;
        if line.trim().is_empty() {
            continue;
        }
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
