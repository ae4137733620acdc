//! The `replay` command, which shows what the correlator would have done with a cluster's events,
//! and plots the effect of other option values.

mod args;
mod input;
mod progress;
mod report;
mod run;
mod states;
mod sweep;

use std::error::Error;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::{fs, io};

use clap::ValueHint;

use args::CorrelatorArgs;
use input::Input;
use progress::Replayed;
use sweep::Sweep;

use crate::input::Source;
use crate::support::bad_input::BadInput;
use crate::support::number::{self, counted};
use crate::support::output::{complain, say};
use crate::support::signals::flag_of_signals;
use crate::support::terminal;
use crate::support::text::{plain, quoted};

const AFTER_HELP: &str = "\
Reads the output of kubectl, jq, watches, exporters and audit logs: JSON (one
or more documents, lists, JSON lines) and YAML, in UTF-8 or UTF-16, optionally
compressed with gzip. Documents with the same namespace, name and uid are
treated as states of the same event. A JSON document can have up to 16 MiB. A
YAML document is held in memory as a whole, and can have up to 256 MiB.

Each event is replayed at its own time, with a count of 1, through the
correlator of the program that reported it. Input that cannot be read is
skipped, with one line per reason on stderr. Ctrl-C stops reading and prints the
result for the events read so far. A second Ctrl-C exits immediately.

A DURATION is one or more numbers with units, such as 500ms, 5s, 1m30s or 1h.

Exit status: 0 if the result was written, even if text or documents that are not
events were skipped, 1 if events could not be read, the input was truncated or
the result could not be written, 2 for bad usage, if there are no events, or
with --strict if an event cannot be read.

Examples:
  kubectl get events -A -o json | eventcast replay -
  eventcast replay --burst 50 --max-events 5 events.json
  eventcast replay --sweep burst=5..100 --output burst.svg events.json";

/// Show how the correlator would have handled a cluster's events
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Args {
    /// File with the events (core/v1 or events.k8s.io/v1). A dash means stdin, which is also the
    /// default in a pipe
    #[arg(value_hint = ValueHint::FilePath)]
    file: Option<PathBuf>,
    #[command(flatten)]
    correlator: CorrelatorArgs,
    #[command(flatten)]
    output: OutputArgs,
}

/// Flags for the input as a whole, and for the output.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Output")]
struct OutputArgs {
    /// Replay an event with a count of N as N events, evenly spread between its first and last
    /// time. The limit is 5,000,000 events in total
    #[arg(long)]
    expand: bool,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
    /// Replay with up to 64 values from a range, and draw the results as an SVG. OPTION is
    /// max-events, max-interval (in seconds), burst or cache-size
    #[arg(long, value_name = "OPTION=A..B", value_parser = Sweep::parse)]
    sweep: Option<Sweep>,
    /// Write the SVG to this file, or to stdout for a dash [default: stdout]
    #[arg(short, long, value_name = "FILE", requires = "sweep", value_hint = ValueHint::FilePath)]
    output: Option<PathBuf>,
    /// Fail without a result if an event cannot be read
    #[arg(long)]
    strict: bool,
    /// Number of events to keep in memory for recognizing their other states. With 0, each document
    /// is a separate event
    #[arg(long, value_name = "N", default_value = "1000000")]
    #[arg(value_parser = |text: &str| number::parse("--remember", 0..=u64::from(u32::MAX), text))]
    remember: u64,
}

/// Replays the events. Returns whether all events could be read.
pub(crate) fn run(args: Args) -> Result<bool, Box<dyn Error>> {
    let Args { file, correlator, mut output } = args;
    output.output = output.output.filter(|path| path.as_os_str() != "-");
    let source = Source::of(file, "replay")?;
    let input = read(&source, &output)?;
    let is_whole = name_problems(&input, &output)?;
    if input.number == 0 {
        return Err(BadInput(nothing(&input)).into());
    }
    let runs = output.sweep.map_or(1, |sweep| sweep.values().len());
    let replayed = Replayed::new(input.events.len() * runs);
    if let Some(sweep) = output.sweep {
        let points = sweep.run(&correlator, &input, &replayed).map_err(BadInput)?;
        replayed.clear();
        return write_sweep(sweep, &points, source.path(), &output).map(|()| is_whole);
    }
    let outcome = run::run(&correlator.options(), &input.events, &replayed).map_err(BadInput)?;
    replayed.clear();
    if output.json {
        return say(&report::json(&input, &outcome)).map(|()| is_whole);
    }
    let columns = terminal::width(io::stdout());
    say(&report::text(&input, &outcome, columns)).map(|()| is_whole)
}

/// Reads events until the input ends or a signal arrives.
fn read(source: &Source, output: &OutputArgs) -> Result<Input, Box<dyn Error>> {
    let is_over = flag_of_signals().map_err(|error| format!("cannot wait for signals: {error}"))?;
    let cannot = |error: String| BadInput(format!("cannot read {}: {}", source.name(), plain(&error)));
    let remembered = usize::try_from(output.remember).unwrap_or(usize::MAX);
    let input = source.open(is_over.clone())?;
    let mut input = input::read(input, output.expand, remembered).map_err(cannot)?;
    // From now on, a signal terminates the program.
    if is_over.swap(true, Ordering::Relaxed) {
        complain("eventcast: interrupted: the results cover the events read so far");
    }
    input.finish().map_err(BadInput)?;
    Ok(input)
}

/// Returns the reason why there are no events to replay.
fn nothing(input: &Input) -> String {
    if input.deleted > 0 {
        return format!("no events to replay: the input has only {}", counted(input.deleted, "deletion"));
    }
    "no events to replay: pass the output of 'kubectl get events -A -o json', for example".to_owned()
}

/// Prints the problems. Returns whether all events could be read. If `--strict` is set, a lost
/// event is an error.
fn name_problems(input: &Input, output: &OutputArgs) -> Result<bool, BadInput> {
    for line in input.problems.lines() {
        complain(&format!("eventcast: {line}"));
    }
    // With `--remember 0`, the user did not request a comparison.
    if input.forgotten > 0 && output.remember > 0 {
        let forgotten = counted(input.forgotten, "document");
        complain(&format!(
            "eventcast: {forgotten} could not be compared with earlier documents and count as separate events: \
             increase --remember"
        ));
    }
    let lost = input.problems.lost();
    if output.strict && lost > 0 {
        return Err(BadInput(format!(
            "{} could not be read: omit --strict to replay the rest",
            counted(lost, "part")
        )));
    }
    Ok(lost == 0)
}

/// Writes the drawing. With `--json`, writes the drawing's data as JSON, and writes the drawing
/// itself only if `--output` names a file.
fn write_sweep(
    sweep: Sweep,
    points: &[(u32, run::Outcome)],
    source: Option<&Path>,
    output: &OutputArgs,
) -> Result<(), Box<dyn Error>> {
    if output.json {
        say(&sweep.json(points))?;
    }
    if output.json && output.output.is_none() {
        return Ok(());
    }
    let svg = sweep.svg(points, source)?;
    match &output.output {
        None => say(&svg)?,
        Some(path) => fs::write(path, svg)
            .map_err(|error| format!("cannot write {}: {error}", quoted(&path.to_string_lossy())))?,
    }
    Ok(())
}
