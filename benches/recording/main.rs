//! Measures recording in a single run, which covers the cost on the caller's thread, the path to an
//! in-memory store, slow and unavailable stores, the file-based store, and the correlator with two
//! threads.
//!
//! ```sh
//! cargo run --release -p eventcast-benches --features sqlite --bin recording
//! ```
//!
//! Every round checks how many events were created, counted and skipped, and checks that the counts
//! at the sink are exact and never decrease. A figure is the median of its rounds, which alternate
//! with the rounds of the other rows. Compare only figures from the same machine. If other work is
//! running, compare the CPU times rather than the rates.
#![allow(
    clippy::cast_precision_loss,
    clippy::cast_possible_wrap,
    clippy::cast_sign_loss,
    reason = "figures for people"
)]
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "what it finds is its output")]

mod allocations;
mod args;
mod away;
mod correlator;
mod ledger;
mod report;
mod row;
mod slow;
mod stores;
mod way;

use std::process::ExitCode;
use std::time::{Duration, Instant};

use eventcast_benches::quiet::Observation;
use eventcast_benches::rounds::take_turns;
use eventcast_benches::table::progress;

use args::{HELP, Settings, read};
use report::Results;
use row::Row;

#[global_allocator]
static ALLOCATOR: allocations::Counting = allocations::Counting;

const ROWS: &[Row] = &[
    Row { name: "caller", about: "recorder.event on the caller's thread", round: way::caller },
    Row { name: "handler", about: "recorder to handler", round: way::handler },
    Row { name: "new", about: "into MemorySink, each event about another object", round: way::new },
    Row { name: "repeats", about: "into MemorySink, repeats of 10 objects", round: way::repeats },
    Row { name: "repeats-1000", about: "the same of 1,000 objects", round: way::repeats_of_many },
    Row { name: "series", about: "the same, counted in series", round: way::series },
    Row { name: "skipped", about: "held back by the spam filter", round: way::skipped },
    Row {
        name: "slow-store",
        about: "100 events of each object, 5 ms an answer, 8 at once",
        round: slow::store,
    },
    Row { name: "hot-key", about: "half of the events of one key, 1 ms a call", round: slow::hot_key },
    Row {
        name: "waiting",
        about: "repeats of 100 to 100,000 waiting keys, store away",
        round: away::waiting,
    },
    #[cfg(feature = "sqlite")]
    Row { name: "sqlite", about: "a million new events into a file, by tenths", round: stores::sqlite },
    #[cfg(feature = "sqlite")]
    Row { name: "sqlite-turns", about: "the same of 10,000 objects in turn", round: stores::sqlite_in_turn },
    Row { name: "find", about: "MemorySink::find by object in a million events", round: stores::find },
    Row { name: "correlator", about: "one correlator from one thread and two", round: correlator::threads },
];

/// The total time after which a row is not run again.
const LONG: Duration = Duration::from_secs(60);

fn main() -> ExitCode {
    let settings = match read(lexopt::Parser::from_env(), ROWS) {
        Ok(Some(settings)) => settings,
        Ok(None) => {
            print!("{HELP}");
            for row in ROWS {
                println!("  {:<13} {}", row.name, row.about);
            }
            println!(
                "\nExit status: 0, 2 for bad usage; a count that is wrong ends the program with a panic."
            );
            return ExitCode::SUCCESS;
        }
        Err(error) => {
            eprintln!("recording: {error}\nTry `recording --help`.");
            return ExitCode::from(2);
        }
    };
    let observation = Observation::begin();
    let results = measure(&settings);
    progress("");
    print!("{}", report::render(&results, &observation.conditions(), &settings));
    ExitCode::SUCCESS
}

fn measure(settings: &Settings) -> Vec<Results> {
    let mut results: Vec<_> = settings.rows.iter().map(|row| Results::new(row)).collect();
    let first = |results: &Results| results.first().to_vec();
    take_turns(&mut results, None, settings.rounds, first, |round, results| {
        if results.taken < LONG {
            progress(&format!("round {round} of {} or more, {}", settings.rounds, results.row.name));
            let start = Instant::now();
            results.add(results.row.measure(&settings.load));
            results.taken += start.elapsed();
        }
    });
    results
}
