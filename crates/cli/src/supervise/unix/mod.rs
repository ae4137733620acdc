//! The supervisor: arguments in, events out. [`supervisor`], [`process`] and `system` deal with the
//! processes, [`journal`] records what happens to them, and [`store`] keeps the records.

mod accounting;
mod backoff;
mod change;
mod command;
#[cfg(not(target_os = "linux"))]
mod elsewhere;
#[cfg(target_os = "linux")]
mod guard;
mod journal;
#[cfg(target_os = "linux")]
mod linux;
mod process;
mod signals;
mod store;
mod supervisor;

use std::error::Error;
use std::io;
use std::process::ExitCode;
use std::time::Duration;

use eventcast::EventBroadcaster;

use super::Args;
use crate::support::bad_usage::BadUsage;
use crate::support::color::paint_line;
use crate::support::output::{complain, say};
use crate::support::store::check_feature;
use crate::support::text::harmless_json;
use accounting::Accounting;
use backoff::Policy;
use command::Command;
use journal::Journal;
use store::Store;
use supervisor::{Message, Settings, Supervisor};

#[cfg(not(target_os = "linux"))]
use elsewhere as system;
#[cfg(target_os = "linux")]
use linux as system;

pub(crate) use system::become_command;

/// The time that the last events have to reach the store and the log.
const DRAIN: Duration = Duration::from_secs(30);

/// Runs the commands until they are asked to stop. Returns the exit status.
pub(crate) fn run(args: &Args) -> Result<ExitCode, Box<dyn Error>> {
    let read = if args.shell { Command::shell } else { Command::split };
    let commands: Result<_, _> = args.commands.iter().map(|text| read(text)).collect();
    let commands = commands.map_err(BadUsage)?;
    if args.store.is_some() {
        check_feature("--store").map_err(BadUsage)?;
    }
    if let Some(status) = system::guard().map_err(|error| format!("cannot guard the commands: {error}"))? {
        return Ok(status);
    }
    let is_well = supervise(args, commands)?;
    Ok(if is_well { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Supervises until it is asked to stop, and prints what was recorded. Returns `false` if something
/// was lost or left.
fn supervise(args: &Args, commands: Vec<Command>) -> Result<bool, Box<dyn Error>> {
    let run = journal::new_run();
    let store = Store::open(args.store.as_deref(), args.keep)?;
    if let Some(left) = store.left(args.color)? {
        // With `--json`, stdout has nothing but the JSON, because a program reads it.
        if args.json { complain(&left) } else { say(&format!("{left}\n"))? }
    }
    let events = EventBroadcaster::builder().correlator(journal::counting(commands.len())).build()?;
    store.start(&events)?;
    if !args.quiet {
        let is_colored = args.color.is_on(&io::stderr());
        events.start_logging(
            move |line| if is_colored { complain(&paint_line(line)) } else { complain(line) },
        )?;
    }
    let mut journal = Journal::new(events.new_recorder("supervise"), args.shows_arguments, &run);

    // Dropped after the supervisor, even if the supervisor panics.
    let orphans = system::Orphans::adopt().map_err(|error| format!("cannot adopt processes: {error}"))?;
    let processes = command::name_all(commands);
    let supervisor =
        Supervisor::new(processes, settings(args), |process, change| journal.record(process, &change));
    signals::forward(supervisor.outbox()).map_err(|error| format!("cannot wait for signals: {error}"))?;
    let outbox = supervisor.outbox();
    let abandoned = system::on_abandoned(move || {
        // If it finds nobody, all is over.
        let _ = outbox.send(Message::Kill);
    })?;
    let left = supervisor.run();
    if left.is_empty() {
        orphans
            .kill()
            .map_err(|error| format!("cannot look for processes that left their group: {error}"))?;
    }

    let report = events.shutdown_timeout(DRAIN);
    if abandoned.has_come() {
        // Somebody else may have the terminal by now.
        return Ok(false);
    }
    let accounting = Accounting::new(journal.recorded(), &report);
    if args.json {
        say(&format!("{}\n", harmless_json(&store.json(&run)?)))?;
        complain(&format!("accounting: {accounting}"));
    } else {
        say(&format!("{}\naccounting: {accounting}\n", store.table(&run, args.color)?))?;
    }
    if let Some(failure) = accounting.failure_of_store() {
        complain(&failure);
    }
    for name in &left {
        complain(&format!("eventcast: {name} could not be killed and still runs"));
    }
    Ok(left.is_empty() && report.complete && accounting.balances() && accounting.lost() == 0)
}

fn settings(args: &Args) -> Settings {
    Settings {
        backoff: Policy { first: args.backoff, max: args.backoff_max, reset_after: args.reset_after },
        grace: args.grace,
        same_request: signals::SAME_REQUEST,
        stop_after: args.stop_after,
        panic_after: args.panic_after,
        output: !args.no_output,
        tied: true,
    }
}
