//! Shows what the correlator would have made of a cluster's events, and draws what other options
//! would do.
//!
//! ```sh
//! kubectl get events -A -o json | cargo run --release --example replay
//! cargo run --release --example replay -- --sweep burst=5..100 --output burst.svg events.json
//! ```
#![allow(clippy::print_stderr, reason = "a program, not part of the library")]

mod args;
#[allow(dead_code, reason = "shared with the other examples")]
#[path = "../support/duration.rs"]
mod duration;
mod input;
#[path = "../support/lines.rs"]
mod lines;
#[path = "../support/number.rs"]
mod number;
mod report;
mod run;
mod sweep;
#[allow(dead_code, reason = "shared with the other examples")]
#[path = "../support/text.rs"]
mod text;

use std::fs::File;
use std::io::{self, BufRead, BufReader, IsTerminal, Write};
use std::process::ExitCode;

use indicatif::{ProgressBar, ProgressStyle};

use args::{Options, Request};
use input::Input;
use text::{plain, quoted};

/// The number of events below which a run ends before a bar is seen.
const LONG: usize = 20_000;

/// The reason why the program ends early.
pub(crate) enum Stop {
    /// Nobody reads the output any more.
    NobodyReads,
    /// The program cannot do what was asked.
    Failed(String),
    /// The arguments or the input are wrong.
    Input(String),
}

impl From<io::Error> for Stop {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::BrokenPipe => Self::NobodyReads,
            _ => Self::Failed(format!("cannot write: {error}")),
        }
    }
}

fn main() -> ExitCode {
    let request = args::parse(std::env::args_os().skip(1))
        .map_err(|error| Stop::Input(format!("{error}\nTry 'replay --help'.")));
    let done = request.and_then(|request| match request {
        Request::Say(text) => Ok(io::stdout().lock().write_all(text.as_bytes())?),
        Request::Replay(options) => replay(&options),
    });
    match done {
        Ok(()) | Err(Stop::NobodyReads) => ExitCode::SUCCESS,
        Err(Stop::Failed(error)) => {
            eprintln!("replay: {error}");
            ExitCode::FAILURE
        }
        Err(Stop::Input(error)) => {
            eprintln!("replay: {error}");
            ExitCode::from(2)
        }
    }
}

fn replay(options: &Options) -> Result<(), Stop> {
    let input = read(options)?;
    for problem in input.problems.iter().take(input::SHOWN) {
        eprintln!("replay: {problem}");
    }
    if input.unreadable > input.problems.len().min(input::SHOWN) {
        eprintln!("replay: cannot read {} of the events", input.unreadable);
    }
    if options.is_strict && input.unreadable > 0 {
        return Err(Stop::Input(format!(
            "cannot read {} of the events: leave --strict out to replay the \
                                        others",
            input.unreadable
        )));
    }
    if input.events.is_empty() {
        return Err(Stop::Input("no events to replay".to_owned()));
    }
    let runs = options.sweep.as_ref().map_or(1, |sweep| sweep.values().len());
    let bar = bar(input.events.len() * runs);
    if let Some(sweep) = &options.sweep {
        let points = sweep.run(&options.correlator, &input, &bar).map_err(Stop::Input)?;
        bar.finish_and_clear();
        return sweep::write(sweep, &points, options);
    }
    let outcome = run::run(&options.correlator, &input.events, &bar).map_err(Stop::Input)?;
    bar.finish_and_clear();
    let report = if options.json { report::json(&input, &outcome) } else { report::text(&input, &outcome) };
    Ok(io::stdout().lock().write_all(report.as_bytes())?)
}

fn read(options: &Options) -> Result<Input, Stop> {
    let reader: Box<dyn BufRead> = match &options.file {
        Some(path) => {
            let name = quoted(&path.to_string_lossy());
            let file =
                File::open(path).map_err(|error| Stop::Input(format!("cannot open {name}: {error}")))?;
            Box::new(BufReader::new(file))
        }
        None => Box::new(io::stdin().lock()),
    };
    input::read(reader, options.is_expanded).map_err(|error| Stop::Input(plain(&error)))
}

/// Returns a progress bar, which is hidden unless stderr is a terminal and the run takes long.
fn bar(events: usize) -> ProgressBar {
    if events < LONG || !io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let bar = ProgressBar::new(events as u64);
    if let Ok(style) = ProgressStyle::with_template("{bar:40} {human_pos} of {human_len} events, {eta} left")
    {
        bar.set_style(style);
    }
    bar
}
