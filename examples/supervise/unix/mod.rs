//! The program: arguments in, events out. [`supervisor`], [`process`] and `system` deal with the
//! processes, [`journal`] records what happens to them, and [`store`] keeps the records.

mod accounting;
mod args;
mod backoff;
mod command;
mod journal;
mod process;
mod signals;
mod store;
mod supervisor;
#[path = "../../support/mod.rs"]
mod support;
#[cfg(target_os = "linux")]
#[path = "linux.rs"]
mod system;
#[cfg(not(target_os = "linux"))]
#[path = "elsewhere.rs"]
mod system;

use std::error::Error;
use std::process::ExitCode;
use std::time::Duration;

use eventcast::EventBroadcaster;

use accounting::Accounting;
use args::{Options, Request};
use journal::Journal;
use store::Store;
use supervisor::{Settings, Supervisor};
use support::output::{complain, say};
use support::text::harmless_json;

/// The time that the last events have to reach the store and the log.
const DRAIN: Duration = Duration::from_secs(30);

pub(crate) fn main() -> ExitCode {
    if let Some(code) = system::become_command() {
        return code;
    }
    let done = match args::parse(std::env::args_os().skip(1)) {
        Ok(Request::Help) => say(args::HELP).map(|()| true),
        Ok(Request::Version) => {
            say(concat!("supervise (eventcast ", env!("CARGO_PKG_VERSION"), ")\n")).map(|()| true)
        }
        Ok(Request::Run(options)) => run(options),
        Err(error) => {
            complain(&format!("supervise: {error}\nTry 'supervise --help'."));
            return ExitCode::from(2);
        }
    };
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            complain(&format!("supervise: {error}"));
            ExitCode::FAILURE
        }
    }
}

/// Supervises until it is asked to stop, and prints what was recorded. Returns `false` if something
/// was lost or left.
fn run(options: Options) -> Result<bool, Box<dyn Error>> {
    let run = journal::new_run();
    let store = Store::open(options.store.as_deref())?;
    if let Some(left) = store.left()? {
        // With `--json`, stdout has nothing but the JSON, because a program reads it.
        if options.json { complain(&left) } else { say(&format!("{left}\n"))? }
    }
    let events = EventBroadcaster::new()?;
    store.start(&events)?;
    if !options.quiet {
        events.start_logging(complain)?;
    }
    let mut journal = Journal::new(events.new_recorder("supervise"), options.show_args, &run);

    let settings = Settings {
        backoff: options.backoff,
        grace: options.grace,
        stop_after: options.stop_after,
        panic_after: options.panic_after,
        output: !options.no_output,
        tied: true,
    };
    // Dropped after the supervisor, even if the supervisor panics.
    let orphans = system::Orphans::adopt().map_err(|error| format!("cannot adopt processes: {error}"))?;
    let processes = command::name_all(options.commands);
    let supervisor = Supervisor::new(processes, settings, |process, change| journal.record(process, &change));
    signals::forward(supervisor.outbox()).map_err(|error| format!("cannot wait for signals: {error}"))?;
    let left = supervisor.run();
    if left.is_empty() {
        orphans
            .kill()
            .map_err(|error| format!("cannot look for processes that left their group: {error}"))?;
    }

    let report = events.shutdown_timeout(DRAIN);
    let accounting = Accounting::new(journal.recorded(), &report);
    if options.json {
        say(&format!("{}\n", harmless_json(&store.json(&run)?)))?;
        complain(&format!("accounting: {accounting}"));
    } else {
        say(&format!("{}\naccounting: {accounting}\n", store.table(&run)?))?;
    }
    for name in &left {
        complain(&format!("supervise: {name} could not be killed and still runs"));
    }
    Ok(left.is_empty() && report.complete && accounting.balances() && accounting.lost() == 0)
}
