//! A job system with watchers that each see only what they are there for: one the failures, one a
//! single user's jobs, and one everything. Another watcher comes late and begins with the state of
//! the jobs.
//!
//! ```sh
//! cargo run --release --example filtered
//! cargo run --release --example filtered -- --jobs 1000 --workers 8
//! ```
//!
//! The dispatcher calls the filters. An event that a filter refuses costs the watcher neither room
//! nor a wake-up, and is counted as filtered. A prefix is delivered before everything else. Names
//! show in the statistics and name the threads of handlers. At the end the program compares what
//! the watchers saw with the board.
#![cfg_attr(test, allow(dead_code, reason = "the tests include this program and do not call its main"))]

mod jobs;
#[path = "../support/mod.rs"]
mod support;

use std::error::Error;
use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::thread;

use eventcast::Delivery;
use eventcast::stats::WatcherStats;
use lexopt::prelude::{Long, Short};

use jobs::{Change, Job, JobEvent, JobSystem, picture};
use support::flags::{self, Parser};
use support::output::say;
use support::table;

const HELP: &str = "\
A job system whose watchers each see their own part of the events.

Usage: filtered [OPTIONS]

Options:
      --jobs N       Jobs to do [default: 50]
      --workers N    Threads that do them [default: 4]
  -h, --help         Print this

Exit status: 0 when everything adds up, 1 when not, 2 for bad usage.
";

struct Settings {
    jobs: u64,
    workers: u64,
}

fn main() -> ExitCode {
    flags::main("filtered", HELP, read, run)
}

fn read(mut parser: Parser) -> Result<Option<Settings>, String> {
    let mut settings = Settings { jobs: 50, workers: 4 };
    while let Some(argument) = flags::next(&mut parser)? {
        match argument {
            Short('h') | Long("help") => return Ok(None),
            Long("jobs") => settings.jobs = flags::number(&mut parser, "--jobs", 1..=1_000_000)?,
            Long("workers") => settings.workers = flags::number(&mut parser, "--workers", 1..=1000)?,
            _ => return Err(flags::unknown(argument)),
        }
    }
    Ok(Some(settings))
}

/// Runs the program. Returns whether everything adds up.
fn run(settings: &Settings) -> Result<bool, Box<dyn Error>> {
    let system = JobSystem::new()?;
    let builder = || system.bus.watch_builder();

    // A handler on its own thread, which is called `failures` too.
    let failures = builder().name("failures").filter(JobEvent::is_failure).spawn(|delivery| {
        if let Delivery::Event(event) = delivery {
            // The reader of this output may end: the jobs go on.
            let _ = say(&format!("failures: {event}\n"));
        }
    })?;
    let summed = Arc::new(AtomicU64::new(0));
    let total = summed.clone();
    let acme = builder()
        .name("acme")
        .filter(|event| event.job.tenant == "acme" && matches!(event.change, Change::Finished { .. }))
        .spawn(move |delivery| {
            if let Delivery::Event(JobEvent { change: Change::Finished { sum }, .. }) = delivery {
                total.fetch_add(*sum, Ordering::Relaxed);
            }
        })?;
    // Without a name the watcher is called `watcher-2`: the third one of this bus, counted from 0.
    let mut progress = system.bus.watch()?;

    let (jobs, queue) = mpsc::channel();
    let (first_end, wait_for_first_end) = mpsc::channel();
    let queue = Mutex::new(queue);
    let half = settings.jobs / 2;
    let (console, progress) = thread::scope(|scope| -> Result<_, Box<dyn Error>> {
        let progress = scope.spawn(move || {
            let ends = progress.events().filter(JobEvent::is_end);
            // The program waits only for the first end.
            let ended = ends.inspect(|_| first_end.send(()).unwrap_or_default()).count() as u64;
            (ended, progress.stats())
        });
        let workers: Vec<_> = (0..settings.workers).map(|_| scope.spawn(|| system.work(&queue))).collect();
        for number in 0..half {
            system.submit(&jobs, Job::new(number))?;
        }
        if half > 0 {
            wait_for_first_end.recv()?;
        }
        // At least one of these jobs is done by now. The workers go on with the others meanwhile.
        let (mut watcher, known) = system.follow("console")?;
        let console = scope.spawn(move || (picture(&mut watcher), known, watcher.stats()));
        for number in half..settings.jobs {
            system.submit(&jobs, Job::new(number))?;
        }
        drop(jobs);
        let panicked = workers.into_iter().map(thread::ScopedJoinHandle::join).any(|result| result.is_err());
        system.bus.close();
        match (console.join(), progress.join()) {
            (Ok(console), Ok(progress)) if !panicked => Ok((console, progress)),
            _ => Err("a thread has panicked".into()),
        }
    })?;
    let (picture, known, console) = console;
    let (ended, progress) = progress;
    let report = system.bus.shutdown();
    let board = system.board();

    let failed = failures.stats();
    let acme = acme.stats();
    let given_up = board.values().filter(|event| event.change == Change::GivenUp).count() as u64;
    let sum_on_board: u64 = board.values().filter(|event| event.job.tenant == "acme").map(sum).sum();
    let rows: Vec<Vec<String>> = [
        ["WATCHER", "OFFERED", "FILTERED", "DELIVERED", "WHAT IT SAW"].map(str::to_owned).to_vec(),
        row(&failed, "each attempt that failed, and each job that was given up"),
        row(&acme, &format!("acme's jobs, with {} as the sum", summed.load(Ordering::Relaxed))),
        row(&progress, &format!("everything: {ended} jobs came to an end")),
        row(&console, &format!("{known} jobs as they stood, and each change since")),
    ]
    .into();

    let accepted = report.bus.accepted;
    let right = report.complete
        && [&failed, &acme, &progress].iter().all(|stats| stats.offered + stats.filtered == accepted)
        && [&failed, &acme, &progress, &console].iter().all(|stats| stats.offered == stats.delivered)
        && ended == settings.jobs
        && summed.load(Ordering::Relaxed) == sum_on_board
        && picture == board;
    say(&format!(
        "\n{} jobs, {} of them given up, in {accepted} events\n\n{}\n{}\n",
        settings.jobs,
        given_up,
        table::render(&rows),
        if right {
            "the console's picture is the board's, and everything adds up"
        } else {
            "this does not add up"
        },
    ))?;
    Ok(right)
}

fn sum(event: &JobEvent) -> u64 {
    if let Change::Finished { sum } = event.change { sum } else { 0 }
}

fn row(stats: &WatcherStats, saw: &str) -> Vec<String> {
    vec![
        stats.name.clone(),
        stats.offered.to_string(),
        stats.filtered.to_string(),
        stats.delivered.to_string(),
        saw.to_owned(),
    ]
}
