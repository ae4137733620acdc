//! The command `replay`: shows what the correlator would have made of a cluster's events, and
//! draws what other options would do.

mod args;
mod input;
mod progress;
mod report;
mod run;
mod sweep;

use std::error::Error;
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, IsTerminal};
use std::path::{Path, PathBuf};

use clap::ValueHint;

use args::CorrelatorArgs;
use input::Input;
use progress::Replayed;
use sweep::Sweep;

use crate::support::bad_input::BadInput;
use crate::support::output::{complain, say};
use crate::support::text::{plain, quoted};

const AFTER_HELP: &str = "\
Each event runs through the correlator at its own time, with a count of 1. The command names events
that it cannot read, and leaves them out. A line is at most 16 MiB long: 'jq .' breaks a longer list
into lines. A DURATION is numbers with units: 500ms, 5s, 1m30s, 1h.

Exit status: 0 when the command wrote the result, 1 when it could not, 2 for bad usage, when there
are no events, or with --strict for an event that cannot be read.

Examples:
  kubectl get events -A -o json | eventcast replay -
  eventcast replay --burst 50 --max-events 5 events.json
  eventcast replay --sweep burst=5..100 --output burst.svg events.json";

/// Shows what the correlator makes of a cluster's events.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Args {
    /// The events (core/v1 or events.k8s.io/v1): a list, as kubectl writes it, or one event in each
    /// line. A dash stands for stdin, which is also the default in a pipe.
    #[arg(value_hint = ValueHint::FilePath)]
    file: Option<PathBuf>,
    #[command(flatten)]
    correlator: CorrelatorArgs,
    #[command(flatten)]
    output: OutputArgs,
}

/// The flags for the events as a whole, and for the output.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Output")]
struct OutputArgs {
    /// Take an event with a count of N as N events, evenly spread between its first and last time.
    #[arg(long)]
    expand: bool,
    /// Write figures for machines.
    #[arg(long)]
    json: bool,
    /// Draw the result for each value as an SVG. OPTION is max-events, max-interval (in seconds),
    /// burst or lru-cache-size.
    #[arg(long, value_name = "OPTION=A..B", value_parser = Sweep::parse)]
    sweep: Option<Sweep>,
    /// Write the SVG there, with a dash to stdout [default: stdout].
    #[arg(short, long, value_name = "FILE", requires = "sweep", value_hint = ValueHint::FilePath)]
    output: Option<PathBuf>,
    /// Stop if anything cannot be read.
    #[arg(long)]
    strict: bool,
}

/// Replays the events. Returns whether all is well.
pub(crate) fn run(args: Args) -> Result<bool, Box<dyn Error>> {
    let Args { file, correlator, mut output } = args;
    output.output = output.output.filter(|path| path.as_os_str() != "-");
    let source = Source::of(file, io::stdin().is_terminal())?;
    let input = source.read(output.expand)?;
    name_problems(&input, output.strict)?;
    if input.events.is_empty() {
        return Err(BadInput("no events to replay".to_owned()).into());
    }
    let options = correlator.options();
    let runs = output.sweep.map_or(1, |sweep| sweep.values().len());
    let replayed = Replayed::new(input.events.len() * runs);
    if let Some(sweep) = output.sweep {
        let points = sweep.run(&options, &input, &replayed).map_err(BadInput)?;
        replayed.clear();
        return write_sweep(sweep, &points, source.path(), &output);
    }
    let outcome = run::run(&options, &input.events, &replayed).map_err(BadInput)?;
    replayed.clear();
    if output.json {
        return say(&report::json(&input, &outcome)).map(|()| true);
    }
    let columns = terminal_size::terminal_size_of(io::stdout()).map(|(width, _)| width.0.into());
    say(&report::text(&input, &outcome, columns)).map(|()| true)
}

/// Says which events cannot be read. With `--strict` one of these is an error.
fn name_problems(input: &Input, is_strict: bool) -> Result<(), BadInput> {
    for problem in &input.problems {
        complain(&format!("eventcast: {problem}"));
    }
    let unreadable = input.unreadable;
    if unreadable > input.problems.len() {
        complain(&format!("eventcast: cannot read {unreadable} of the events"));
    }
    if is_strict && unreadable > 0 {
        return Err(BadInput(format!(
            "cannot read {unreadable} of the events: leave --strict out to replay the others"
        )));
    }
    Ok(())
}

/// Writes the drawing. With `--json`, writes the figures behind the drawing, and then the drawing
/// only if it has a file.
fn write_sweep(
    sweep: Sweep,
    points: &[(u32, run::Outcome)],
    source: Option<&Path>,
    output: &OutputArgs,
) -> Result<bool, Box<dyn Error>> {
    if output.json {
        say(&sweep.json(points))?;
    }
    if output.json && output.output.is_none() {
        return Ok(true);
    }
    let svg = sweep.svg(points, source)?;
    match &output.output {
        None => say(&svg)?,
        Some(path) => fs::write(path, svg)
            .map_err(|error| format!("cannot write {}: {error}", quoted(&path.to_string_lossy())))?,
    }
    Ok(true)
}

/// The place that the events come from.
#[derive(Debug)]
enum Source {
    Stdin,
    File(PathBuf),
}

impl Source {
    /// Returns the file, or stdin for `-` and if there is no name.
    fn of(file: Option<PathBuf>, stdin_is_terminal: bool) -> Result<Self, BadInput> {
        match file {
            Some(path) if path.as_os_str() == "-" => Ok(Self::Stdin),
            Some(path) => Ok(Self::File(path)),
            None if stdin_is_terminal => Err(BadInput(
                "cannot read events from a terminal: name a file, or run `kubectl get events -A -o json | \
                 eventcast replay -`"
                    .to_owned(),
            )),
            None => Ok(Self::Stdin),
        }
    }

    fn path(&self) -> Option<&Path> {
        match self {
            Self::Stdin => None,
            Self::File(path) => Some(path),
        }
    }

    fn read(&self, is_expanded: bool) -> Result<Input, BadInput> {
        let (reader, name): (Box<dyn BufRead>, String) = match self {
            Self::Stdin => (Box::new(io::stdin().lock()), "stdin".to_owned()),
            Self::File(path) => {
                let name = quoted(&path.to_string_lossy());
                let file =
                    File::open(path).map_err(|error| BadInput(format!("cannot open {name}: {error}")))?;
                (Box::new(BufReader::new(file)), name)
            }
        };
        input::read(reader, &name, is_expanded).map_err(|error| BadInput(plain(&error)))
    }
}

#[cfg(test)]
mod tests {
    use super::Source;
    use std::path::{Path, PathBuf};

    #[test]
    fn nobody_is_made_to_type_events() {
        let error = Source::of(None, true).unwrap_err();
        assert!(error.to_string().starts_with("cannot read events from a terminal: name a file"), "{error}");
        let of = |file: Option<&str>, is_terminal| Source::of(file.map(PathBuf::from), is_terminal).unwrap();
        assert!(matches!(of(None, false), Source::Stdin));
        assert!(matches!(of(Some("-"), true), Source::Stdin));
        assert_eq!(of(Some("events.json"), true).path(), Some(Path::new("events.json")));
    }
}
