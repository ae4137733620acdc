//! Threads and tasks on one bus, as publishers and as readers. At Ctrl-C the program ends in order
//! and loses nothing.
//!
//! ```sh
//! cargo run --release --example async_tokio -- --for 2s
//! cargo run --release --example async_tokio -- --current-thread
//! ```
//!
//! The library knows no runtime: its futures wake the task that polls them, its threads wait as
//! threads do, and both meet on the same bus. All readers here ask the bus to wait for them, so
//! publishers are held to the pace of the slowest reader. The end goes from front to back: the
//! sources stop, the bus offers what it has accepted, and the readers read to the end. Then the
//! program compares all counts.
#![cfg_attr(test, allow(dead_code, reason = "the tests include this program and do not call its main"))]

mod sources;
#[path = "../support/mod.rs"]
mod support;
mod tally;

use std::error::Error;
use std::process::ExitCode;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use eventcast::{Broadcaster, BusOptions, OverflowPolicy};
use futures::StreamExt;
use lexopt::prelude::{Long, Short};
use tokio::runtime::Builder;
use tokio::sync::watch;
use tokio::task::{JoinSet, consume_budget, spawn_blocking};

use support::flags::{self, Parser};
use support::interrupt::Interrupt;
use support::output::{complain, say};
use support::table;
use tally::{Reading, Tally};

const HELP: &str = "\
Threads and tasks on one bus, as publishers and as readers.

Usage: async_tokio [OPTIONS]

Options:
      --threads N        Threads that publish [default: 2]
      --tasks N          Tasks that publish [default: 2]
      --events N         Each stops after this many events [default: at the end]
      --for DURATION     End after this time [default: at Ctrl-C or SIGTERM, or when
                         all publishers have stopped]
      --current-thread   Use a runtime of one thread
  -h, --help             Print this

A DURATION is numbers with units: 500ms, 5s, 1m30s, 1h. A second Ctrl-C does not
wait for the readers.

Exit status: 0 when nothing was lost, 1 when something was, 2 for bad usage.
";

/// The time that the bus has at the end to offer what it has accepted.
const DRAIN: Duration = Duration::from_secs(30);
/// The length of a reader's queue, in events.
const QUEUE: usize = 256;

struct Settings {
    threads: usize,
    tasks: usize,
    events: u64,
    length: Option<Duration>,
    current_thread: bool,
}

fn main() -> ExitCode {
    flags::main("async_tokio", HELP, read, |settings| {
        let mut runtime =
            if settings.current_thread { Builder::new_current_thread() } else { Builder::new_multi_thread() };
        runtime.enable_all().build()?.block_on(async {
            let mut interrupt = Interrupt::new()?;
            let (stop, stopped) = watch::channel(false);
            let mut work = Box::pin(run(settings, &stop, stopped));
            tokio::select! {
                done = &mut work => return done,
                () = interrupt.wait() => {}
                () = pause(settings.length) => {}
            }
            complain("stopping");
            stop.send_replace(true);
            tokio::select! {
                done = work => done,
                // The program waits for nothing any more, not even for the threads that
                // `spawn_blocking` runs.
                () = interrupt.wait() => std::process::exit(130),
            }
        })
    })
}

/// Waits for this time, or without end if there is none.
async fn pause(length: Option<Duration>) {
    match length {
        Some(length) => tokio::time::sleep(length).await,
        None => std::future::pending().await,
    }
}

fn read(mut parser: Parser) -> Result<Option<Settings>, String> {
    let mut settings =
        Settings { threads: 2, tasks: 2, events: u64::MAX, length: None, current_thread: false };
    while let Some(argument) = flags::next(&mut parser)? {
        match argument {
            Short('h') | Long("help") => return Ok(None),
            Long("threads") => {
                settings.threads = flags::number(&mut parser, "--threads", 0..=256)? as usize;
            }
            Long("tasks") => settings.tasks = flags::number(&mut parser, "--tasks", 0..=10_000)? as usize,
            Long("events") => settings.events = flags::number(&mut parser, "--events", 0..=u64::MAX)?,
            Long("for") => settings.length = Some(flags::duration(&mut parser, "--for")?),
            Long("current-thread") => settings.current_thread = true,
            _ => return Err(flags::unknown(argument)),
        }
    }
    Ok(Some(settings))
}

/// Runs until all sources have stopped, and everything that they published has been read. Returns
/// `false` if something is missing.
async fn run(
    settings: &Settings,
    stop: &watch::Sender<bool>,
    stopped: watch::Receiver<bool>,
) -> Result<bool, Box<dyn Error>> {
    let sources = settings.threads + settings.tasks;
    let options = BusOptions::default().queue_len(QUEUE).overflow(OverflowPolicy::Wait);
    let bus = Broadcaster::<Reading>::with_options(options)?;

    // A task that reads the watcher as a stream.
    let mut journal = bus.watch_builder().name("journal").watch_async().await?;
    let journal = tokio::spawn(async move {
        let mut tally = Tally::of(sources);
        while let Some(delivery) = journal.next().await {
            tally.take(delivery.as_ref());
            // A stream that always has something does not let other tasks have their turn.
            consume_budget().await;
        }
        tally
    });
    // A thread that takes all waiting events at once.
    let mut archive = bus.watch_builder().name("archive").watch_async().await?;
    let archive = spawn_blocking(move || {
        let mut tally = Tally::of(sources);
        while let Ok(batch) = archive.recv_batch() {
            tally.lost += batch.lagged;
            batch.into_iter().for_each(|reading| tally.add(*reading));
        }
        tally
    });
    // A handler that is awaited. The bus waits for it at the end.
    let totals = Arc::new(Mutex::new(Tally::of(sources)));
    let seen = totals.clone();
    let runner = bus.watch_builder().name("totals").runner(move |delivery| {
        seen.lock().unwrap_or_else(PoisonError::into_inner).take(delivery);
    })?;
    let totals_task = tokio::spawn(runner);

    let mut tasks = JoinSet::new();
    for source in 0..settings.threads {
        let (publisher, stopped, events) = (bus.publisher(), stopped.clone(), settings.events);
        tasks.spawn_blocking(move || (source, sources::thread(source, events, &publisher, &stopped)));
    }
    for source in settings.threads..sources {
        let (publisher, stopped, events) = (bus.publisher(), stopped.clone(), settings.events);
        tasks.spawn(async move { (source, sources::task(source, events, publisher, stopped).await) });
    }
    complain("publishing; Ctrl-C ends it");
    let mut published = vec![0; sources];
    while let Some(done) = tasks.join_next().await {
        let (source, accepted) = done.inspect_err(|_| _ = stop.send_replace(true))?;
        published[source] = accepted;
    }
    let report = bus.shutdown_async(DRAIN).await;
    let tallies = [
        ("journal", "a task, from a stream", journal.await?),
        ("archive", "a thread, in batches", archive.await?),
        ("totals", "a handler, awaited", {
            totals_task.await?;
            totals.lock().unwrap_or_else(PoisonError::into_inner).clone()
        }),
    ];

    let total: u64 = published.iter().sum();
    let mut faults: Vec<String> = Vec::new();
    let mut rows = vec![["READER", "READS AS", "EVENTS"].map(str::to_owned).to_vec()];
    for (name, form, tally) in &tallies {
        rows.push(vec![(*name).to_owned(), (*form).to_owned(), tally.next.iter().sum::<u64>().to_string()]);
        faults.extend(tally.faults(&published).iter().map(|fault| format!("{name}: {fault}")));
    }
    if !report.complete || report.bus.accepted != total {
        faults.push(format!("{total} were published, and the bus says {report}"));
    }
    say(&format!(
        "{total} events from {} threads and {} tasks\n\n{}\n{}\n",
        settings.threads,
        settings.tasks,
        table::render(&rows),
        if faults.is_empty() { "nothing was lost".to_owned() } else { faults.join("\n") },
    ))?;
    Ok(faults.is_empty())
}
