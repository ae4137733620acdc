//! How long a queue must be. Publishes as you say to watchers as you say, on the real bus, and
//! prints what each watcher lost, where, why, and what would have been enough.
//!
//! ```sh
//! cargo run --release --example drop_on_full
//! cargo run --release --example drop_on_full -- --rate 20000 --watchers 3:queue=64,handler=exp:40us --for 5s
//! cargo run --release --example drop_on_full -- --sweep queue=10..10000 --output loss.svg
//! ```
#![cfg_attr(test, allow(dead_code, reason = "the tests include this program and do not call its main"))]
#![allow(clippy::cast_precision_loss, reason = "counts and nanoseconds here are far below 2^53")]
#![allow(clippy::cast_sign_loss, reason = "no rate, count or time is negative")]

mod accounting;
mod arguments;
mod finding;
mod json;
mod learn;
mod load;
mod plot;
mod reader;
mod report;
mod run;
mod shadow;
mod spend;
#[path = "../support/mod.rs"]
mod support;
mod sweep;
mod times;

use std::error::Error;
use std::fs::{self, OpenOptions};
use std::io::{self, IsTerminal};
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use signal_hook::consts::TERM_SIGNALS;

use arguments::Request;
use finding::Finding;
use support::flags;
use support::output::{complain, say};
use support::text::quoted;
use sweep::Sweep;

const HELP: &str = "\
Finds out how long a queue must be. Publishes at your rate to handlers as slow as yours, on
the real bus. Prints what each watcher lost, where, why, and what would have been enough.

Usage: drop_on_full [OPTIONS]

Load [default: 300 events every 100ms]:
      --rate N               Events a second, evenly spread; 1 to 10000000
      --burst N              Events at once; 1 to 1000000. Adds to --rate
      --every TIME           From one burst to the next [default: 100ms]
      --for TIME             Publish for this time; up to 1h, and up to 20000000 events
                             [default: 6s; in a sweep 1s for each run]
      --incoming N           The length of the bus's own queue; 1 to 16777216
                             [default: 1000]

Watchers [default: four that differ in one setting each]:
      --watchers SPEC        Some watchers; can be given several times, up to 256 in all
      --queue N              The queue's length, if the SPEC has none, in events;
                             1 to 16777216 [default: 200]
      --policy POLICY        What a full queue does, if the SPEC does not say
                             [default: drop-incoming]
      --handler HANDLER      The handler's time for an event, if the SPEC does not say
                             [default: 200us]
      --seed N               The seed of the handlers' random times [default: 1]
      --grace TIME           At the end, how long watchers may handle what is queued
                             [default: 2s]

Output:
      --sweep RANGE          One run for each of some values; the values grow by a constant
                             factor: queue=10..10000 or handler=1us..1ms
      --points N             The number of values; 2 to 64 [default: 10]
  -o, --output FILE          Draw the sweep into this file, as an SVG
      --json                 One JSON document; docs/performance.md has its names
  -h, --help                 Print this

In the tables LOAD is the handler's time for the events of one second, in seconds: above 1 it
cannot keep up. LOST % is the share that was lost to a full queue. RATE % is the share of the
asked rate that the publisher reached.

A SPEC is a count and, after a colon, any of queue, policy, handler, name:
    3:queue=64,policy=drop-incoming,handler=exp:50us,name=slow
A POLICY is drop-incoming, drop-oldest, wait, or wait-for:TIME.
A HANDLER is a TIME up to 60s, always the same (20us or fixed:20us), or drawn for each event:
    uniform:10us..100us  anything between
    exp:50us             exponential with that mean
    pareto:50us          mostly quick, now and then very long: Pareto's distribution with
                         that mean and a shape of 1.5, cut at 1000 means
A TIME is numbers with units: 500us, 2ms, 5s, 1m30s.

How time is spent: the publisher goes by the clock, whatever becomes of the events. It still
publishes an event that is late, and latency counts from when the event was due. A handler
sleeps until it would be done. The system lets it oversleep (some 0.06 ms). The handler takes
less time for the queued events until it has made up for that, so it is never quicker than
it should be, and over many events as quick. Times below 0.1 ms are spun instead, by as many
handlers at once as leave one processor free; the others sleep. The tables show how late
handlers were. The enough length comes from arithmetic: each event's publish and its
handler's time, lost or not.

Ctrl-C ends the publishing early and prints the report (of a sweep, the runs before it). A
second one ends the program.

Exit status: 0 when everything adds up, 1 when not or when the program cannot write its
output, 2 for bad usage.
";

fn main() -> ExitCode {
    flags::main("drop_on_full", HELP, arguments::read, run)
}

/// Runs the program. Returns whether everything adds up.
fn run(request: &Request) -> Result<bool, Box<dyn Error>> {
    if let Some(path) = &request.output {
        // Opened now, so that an error does not come only after all the runs.
        let opened = OpenOptions::new().append(true).create(true).open(path);
        opened.map_err(|error| unwritable(path, &error))?;
    }
    let stop = Arc::new(AtomicBool::new(false));
    for signal in TERM_SIGNALS {
        // The second signal finds the flag set, and ends the program.
        signal_hook::flag::register_conditional_shutdown(*signal, 130, stop.clone())?;
        signal_hook::flag::register(*signal, stop.clone())?;
    }
    complain("publishing; Ctrl-C ends it early");
    let bar = bar();
    match &request.sweep {
        Some(sweep) => run_sweep(request, sweep, &stop, &bar),
        None => run_once(request, &stop, &bar),
    }
}

fn run_once(request: &Request, stop: &AtomicBool, bar: &ProgressBar) -> Result<bool, Box<dyn Error>> {
    let outcome = run::run(&request.settings, stop, bar, "")?;
    bar.finish_and_clear();
    let each = outcome.settings.watchers.iter().zip(&outcome.accounts);
    let findings: Vec<Finding> =
        each.map(|(watcher, account)| Finding::new(watcher, account, &outcome.published)).collect();
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
    bar: &ProgressBar,
) -> Result<bool, Box<dyn Error>> {
    let points = sweep.run(&request.settings, stop, bar)?;
    bar.finish_and_clear();
    say(&if request.json {
        format!("{}\n", sweep.json(&points, stop.load(Ordering::Relaxed)))
    } else {
        sweep.text(&request.settings, &points)
    })?;
    if let (Some(path), false) = (&request.output, points.is_empty()) {
        let svg = plot::svg(sweep, &points, &request.settings.load.to_string())?;
        fs::write(path, svg).map_err(|error| unwritable(path, &error))?;
    }
    Ok(sweep::faults(&points).is_empty())
}

fn unwritable(path: &Path, error: &io::Error) -> String {
    format!("cannot write {}: {error}", quoted(&path.to_string_lossy()))
}

/// Returns a progress bar, which is hidden unless stderr is a terminal.
fn bar() -> ProgressBar {
    if !io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let bar = ProgressBar::new_spinner();
    if let Ok(style) = ProgressStyle::with_template("{wide_msg}") {
        bar.set_style(style);
    }
    bar.enable_steady_tick(Duration::from_millis(100));
    bar
}
