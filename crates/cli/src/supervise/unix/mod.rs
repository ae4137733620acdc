//! The supervisor. [`supervisor`], [`process`] and `system` manage the processes. [`journal`]
//! records what happens to the processes as events, and [`store`] stores the events.

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
use crate::support::feature::missing;
use crate::support::log_columns::LogColumns;
use crate::support::number::counted;
use crate::support::output::{complain, say};
use crate::support::text::{harmless_json, quoted};
use accounting::Accounting;
use backoff::Policy;
use command::Command;
use journal::Journal;
use store::Store;
use supervisor::{Message, Outcome, Settings, Supervisor};

#[cfg(not(target_os = "linux"))]
use elsewhere as system;
#[cfg(target_os = "linux")]
use linux as system;

pub(crate) use system::become_command;

/// The maximum time to wait on exit for the last events to reach the store and the log.
const DRAIN: Duration = Duration::from_secs(30);

/// The exit status if a command reached its restart limit.
const GAVE_UP: u8 = 3;

/// Runs the commands until the supervisor is asked to stop, or until no command is left to restart.
/// Returns the exit status.
pub(crate) fn run(args: &Args) -> Result<ExitCode, Box<dyn Error>> {
    let commands = commands(args).map_err(BadUsage)?;
    if args.store.is_some() && !cfg!(feature = "sqlite-system") {
        return Err(missing("--store", "sqlite").into());
    }
    if let Some(status) = system::guard().map_err(|error| format!("cannot guard the commands: {error}"))? {
        return Ok(status);
    }
    supervise(args, commands)
}

/// Returns the commands to run, or an error message if the arguments are invalid.
fn commands(args: &Args) -> Result<Vec<Command>, String> {
    if args.max_restarts.is_some() && args.reset_after.is_zero() {
        return Err(
            "--reset-after must be more than 0s with --max-restarts, got '0s': each run would reset \
                    the count"
                .to_owned(),
        );
    }
    if let Some(dir) = &args.chdir {
        command::check_folder(dir).map_err(|error| {
            let dir = quoted(&dir.to_string_lossy());
            format!("--chdir must be a directory, got {dir}: {error}")
        })?;
    }
    let read = if args.shell { Command::shell } else { Command::split };
    let commands = args
        .commands
        .iter()
        .map(|text| Ok(Command { env: args.env.clone(), dir: args.chdir.clone(), ..read(text)? }));
    commands.collect()
}

/// Supervises the commands until the supervisor has finished, and prints the recorded events.
/// Returns the exit status.
fn supervise(args: &Args, commands: Vec<Command>) -> Result<ExitCode, Box<dyn Error>> {
    let run = journal::new_run();
    let store = Store::open(args.store.as_deref(), args.keep)?;
    if let Some(left) = store.left(args.color)? {
        // With `--json`, stdout must contain only the JSON, because stdout is read by a program.
        if args.json { complain(&left) } else { say(&format!("{left}\n"))? }
    }
    let events = EventBroadcaster::builder().correlator(journal::counting(commands.len())).build()?;
    store.start(&events)?;
    if !args.quiet {
        let is_colored = args.color.is_on(&io::stderr());
        let mut columns = LogColumns::default();
        events.log_to(move |line| {
            let line = columns.align(line);
            complain(&if is_colored { paint_line(&line) } else { line });
        })?;
    }
    let mut journal = Journal::new(events.recorder("supervise"), args.shows_arguments, &run);

    // This value is dropped after the supervisor, even if the supervisor panics.
    let orphans = system::Orphans::adopt().map_err(|error| format!("cannot adopt processes: {error}"))?;
    let processes = command::name_all(commands);
    let supervisor =
        Supervisor::new(processes, settings(args), |process, change| journal.record(process, &change));
    signals::forward(supervisor.outbox()).map_err(|error| format!("cannot wait for signals: {error}"))?;
    let outbox = supervisor.outbox();
    let abandoned = system::on_abandoned(move || {
        // If the send fails, the supervisor has already ended.
        let _ = outbox.send(Message::Kill);
    })?;
    let outcome = supervisor.run();
    if outcome.left.is_empty() {
        orphans.kill().map_err(|error| format!("cannot find processes that left their group: {error}"))?;
    }

    let report = events.shutdown_timeout(DRAIN);
    if abandoned.has_come() {
        // Another program may already be using the terminal, so nothing is printed.
        return Ok(ExitCode::FAILURE);
    }
    let accounting = Accounting::new(journal.recorded(), &report);
    print_events(args, &store, &run, &accounting)?;
    let is_well = report.complete && accounting.balances() && accounting.lost() == 0;
    Ok(print_outcome(args, &outcome, is_well))
}

/// Prints the events of this run and the accounting.
fn print_events(
    args: &Args,
    store: &Store,
    run: &str,
    accounting: &Accounting,
) -> Result<(), Box<dyn Error>> {
    if args.json {
        say(&format!("{}\n", harmless_json(&store.json(run)?)))?;
        complain(&format!("accounting: {accounting}"));
    } else {
        say(&format!("{}\naccounting: {accounting}\n", store.table(run, args.color)?))?;
    }
    if let Some(failure) = accounting.failure_of_store() {
        complain(&failure);
    }
    Ok(())
}

/// Prints the commands that did not end normally. Returns the exit status, which is [`GAVE_UP`] if
/// a command reached its restart limit.
fn print_outcome(args: &Args, outcome: &Outcome, is_well: bool) -> ExitCode {
    for name in &outcome.left {
        complain(&format!("eventcast: {name} could not be killed and is still running"));
    }
    let restarts = counted(args.max_restarts.unwrap_or_default(), "restart");
    for name in &outcome.gave_up {
        complain(&format!("eventcast: gave up on {name} after {restarts}"));
    }
    match outcome {
        Outcome { gave_up, .. } if !gave_up.is_empty() => ExitCode::from(GAVE_UP),
        Outcome { left, .. } if is_well && left.is_empty() => ExitCode::SUCCESS,
        _ => ExitCode::FAILURE,
    }
}

fn settings(args: &Args) -> Settings {
    Settings {
        backoff: Policy {
            first: args.backoff,
            max: args.backoff_max,
            reset_after: args.reset_after,
            max_restarts: args.max_restarts,
        },
        grace: args.grace,
        same_request: signals::SAME_REQUEST,
        stop_after: args.stop_after,
        panic_after: args.panic_after,
        on_failure: args.on_failure,
        output: !args.no_output,
        tied: true,
    }
}
