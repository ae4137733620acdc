//! The `size` command, which finds out how long a queue must be. The command publishes a given load
//! to given watchers on a real bus. It then prints the queue length that would have been enough,
//! and each watcher's losses, including where and why they occurred.
#![allow(clippy::cast_precision_loss, reason = "counts and nanoseconds here are far below 2^53")]
#![allow(clippy::cast_sign_loss, reason = "no rate, count or time is negative")]

mod accounting;
mod answer;
mod arguments;
mod dice;
mod drawing;
mod finding;
mod group;
mod help;
mod json;
mod learn;
mod load;
mod reader;
mod refusal;
mod report;
mod run;
mod seeds;
mod shadow;
mod shown;
mod spend;
mod sweep;
mod sweep_report;
mod table;
mod times;
mod warnings;

use std::error::Error;
use std::fs::{self, OpenOptions};
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use signal_hook::consts::TERM_SIGNALS;

use arguments::Request;
use finding::Finding;
use sweep::Sweep;

use crate::plot;
use crate::support::bad_input::BadInput;
use crate::support::output::{complain, say};
use crate::support::progress::Progress;
use crate::support::text::quoted;

pub(crate) use arguments::Args;

/// Runs the command. Returns whether all counts add up.
pub(crate) fn run(args: Args) -> Result<bool, Box<dyn Error>> {
    let request = args.request().map_err(BadInput)?;
    if let Some(path) = &request.output {
        // Opens the file before the runs, so that an error is reported before the runs instead of
        // after them.
        let opened = OpenOptions::new().append(true).create(true).open(path);
        opened.map_err(|error| unwritable(path, &error))?;
    }
    let stop = Arc::new(AtomicBool::new(false));
    for signal in TERM_SIGNALS {
        // When a second signal arrives, the flag is already set, so the second signal terminates
        // the program.
        signal_hook::flag::register_conditional_shutdown(*signal, 130, stop.clone())?;
        signal_hook::flag::register(*signal, stop.clone())?;
    }
    complain("publishing, press Ctrl-C to stop early");
    let progress = Progress::new();
    match &request.sweep {
        Some(sweep) => run_sweep(&request, sweep, &stop, &progress),
        None => run_once(&request, &stop, &progress),
    }
}

fn run_once(request: &Request, stop: &AtomicBool, progress: &Progress) -> Result<bool, Box<dyn Error>> {
    let outcome = run::run(&request.settings, stop, progress, "")?;
    let findings = Finding::all(&outcome);
    progress.clear();
    say(&if request.json {
        format!("{}\n", json::run(&outcome, &findings))
    } else {
        report::text(&outcome, &findings)
    })?;
    Ok(accounting::faults(&outcome).is_empty())
}

fn run_sweep(
    request: &Request,
    sweep: &Sweep,
    stop: &AtomicBool,
    progress: &Progress,
) -> Result<bool, Box<dyn Error>> {
    let points = sweep.run(&request.settings, stop, progress)?;
    progress.clear();
    say(&if request.json {
        format!("{}\n", sweep_report::json(sweep, &request.settings, &points, stop.load(Ordering::Relaxed)))
    } else {
        sweep_report::text(sweep, &request.settings, &points)
    })?;
    if let (Some(path), false) = (&request.output, points.is_empty()) {
        let svg = plot::svg(&drawing::of(sweep, &points, &request.settings.load))?;
        fs::write(path, svg).map_err(|error| unwritable(path, &error))?;
    }
    Ok(sweep_report::faults(&points).is_empty())
}

fn unwritable(path: &Path, error: &io::Error) -> String {
    format!("cannot write {}: {error}", quoted(&path.to_string_lossy()))
}
