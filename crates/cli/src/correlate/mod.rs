//! The `correlate` command, which prints the correlator's decision about each event in the format
//! of `tests/vectors`, so that the decisions can be compared with other correlators' decisions.

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
Input: JSON lines. The first line is {\"options\": {...}} with client-go's names
(lruCacheSize, burstSize, qps, maxEvents, maxIntervalInSeconds). An option that
is 0 or absent has its default. Each further line is an event:
{\"at\": TIME, \"event\": {...}, \"server\": {...}}. The clock is set to TIME, and the
event is a core/v1 Event. By default, each write succeeds and the correlator
receives the stored event. \"server\" overrides this: {\"name\": ..,
\"resourceVersion\": ..} sets fields of the stored event, and {\"fail\": true} makes
the write fail. Blank lines are skipped.

Output: one line for each event,
{\"skip\": .., \"event\": .., \"patch\": .., \"error\": ..}. With --compare, each event
in the input must contain such an object as \"expect\", and the command prints the
first differences instead.

Exit status: 0 on success, 1 if a decision differs or the output cannot be
written, 2 for bad usage or an invalid line. The error message includes the line
number.

Examples:
  eventcast correlate < events.jsonl > answers.jsonl
  eventcast correlate --compare < tests/vectors/aggregate.jsonl";

/// Run events from stdin through the correlator, and write its decisions to stdout
#[derive(Clone, Copy, Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Args {
    /// Compare the decisions with the expected ones in the input, and print the first differences
    #[arg(long)]
    compare: bool,
}

/// The reason why the command stopped early.
enum Stop {
    Output(io::Error),
    /// The input is invalid, for the given reason.
    Input(String),
}

impl From<io::Error> for Stop {
    fn from(error: io::Error) -> Self {
        Self::Output(error)
    }
}

/// Prints or compares the decisions about all events. Returns whether all decisions matched the
/// expected decisions.
pub(crate) fn run(args: Args) -> Result<bool, Box<dyn Error>> {
    match answer_all(args.compare) {
        Ok(is_as_expected) => Ok(is_as_expected),
        // The reader of the output has closed the pipe, as in `| head`.
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
