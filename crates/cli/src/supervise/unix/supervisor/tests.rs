//! Tests the supervisor with real commands and with delays of a few milliseconds.

use super::super::backoff::Policy;
use super::super::change::{Cause, Change};
use super::super::command::{Command, name_all};
use super::{Message, Outcome, Settings, Supervisor};
use std::cell::OnceCell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

/// A time that is longer than any run that ends without a request to stop.
const PATIENCE: Duration = Duration::from_secs(60);

const SETTINGS: Settings = Settings {
    backoff: Policy {
        first: Duration::from_millis(1),
        max: Duration::from_millis(4),
        reset_after: Duration::MAX,
        max_restarts: None,
    },
    grace: Duration::from_secs(3600),
    same_request: Duration::ZERO,
    stop_after: None,
    panic_after: None,
    on_failure: false,
    output: false,
    tied: false,
};

/// Runs one command until `enough` returns true, and returns a summary of what happened.
///
/// A restart that is already due may still happen before the stop.
fn run(command: &str, settings: Settings, mut enough: impl FnMut(&Change) -> bool) -> String {
    let started = Instant::now();
    let mut changes = Vec::new();
    let stop = OnceCell::new();
    let processes = name_all(vec![Command::split(command).unwrap()]);
    let supervisor = Supervisor::new(processes, settings, |process, change| {
        assert_eq!(process.index, 0);
        if enough(&change) {
            let outbox: &std::sync::mpsc::Sender<Message> = stop.get().expect("set before it runs");
            outbox.send(Message::Stop).expect("the supervisor is alive");
        }
        changes.push(match change {
            Change::Created => "created".to_owned(),
            Change::Started { restarts, .. } => format!("started {restarts}"),
            Change::Exited(_) => "exited".to_owned(),
            Change::Failed(_, Cause::Code(code)) => format!("code {code}"),
            Change::Failed(_, Cause::Signal(signal)) => format!("signal {signal}"),
            Change::CannotStart(error) => format!("cannot start: {:?}", error.kind()),
            Change::BackOff { delay, .. } => format!("wait {}", delay.as_millis()),
            Change::GaveUp { max_restarts } => format!("gave up {max_restarts}"),
            Change::Stopped(_) => "stopped".to_owned(),
            Change::Killed(_) => "killed".to_owned(),
        });
    });
    stop.set(supervisor.outbox()).expect("set once");
    assert_eq!(supervisor.run().left, Vec::<String>::new());
    assert!(started.elapsed() < PATIENCE, "it did not end");
    changes.join(", ")
}

fn waits_for(millis: u64) -> impl FnMut(&Change) -> bool {
    move |change| matches!(change, Change::BackOff { delay, .. } if delay.as_millis() == u128::from(millis))
}

#[track_caller]
fn assert_begins(changes: &str, expected: &str) {
    assert!(changes.starts_with(expected), "{changes}");
}

#[test]
fn restarts_with_growing_pauses() {
    assert_begins(
        &run("sh -c 'exit 3'", SETTINGS, waits_for(4)),
        "created, started 0, code 3, wait 1, started 1, code 3, wait 2, started 2, code 3, wait 4",
    );
}

#[test]
fn distinguishes_success_and_signals() {
    assert_begins(&run("true", SETTINGS, waits_for(1)), "created, started 0, exited, wait 1");
    let changes = run("sh -c 'kill -9 $$'", SETTINGS, waits_for(1));
    assert_begins(&changes, "created, started 0, signal 9, wait 1");
}

#[test]
fn a_good_run_resets_the_pause() {
    let settings =
        Settings { backoff: Policy { reset_after: Duration::ZERO, ..SETTINGS.backoff }, ..SETTINGS };
    let mut waits = 0;
    let changes = run("true", settings, |change| {
        waits += u32::from(matches!(change, Change::BackOff { .. }));
        waits == 3
    });
    assert_begins(&changes, "created, started 0, exited, wait 1, started 1, exited, wait 1, started 2");
}

#[test]
fn what_cannot_be_started_is_tried_again() {
    let not_found = "cannot start: NotFound";
    assert_begins(
        &run("/nowhere/to/be/found", SETTINGS, waits_for(2)),
        &format!("created, {not_found}, wait 1, {not_found}, wait 2"),
    );
}

#[test]
fn stops_what_runs() {
    let started = |change: &Change| matches!(change, Change::Started { .. });
    assert_eq!(run("sleep 1000", SETTINGS, started), "created, started 0, stopped");
}

#[test]
fn only_a_later_interrupt_does_not_wait_for_the_grace_time() {
    use Message::{Interrupt, Kill, Stop};
    for (messages, same_request, end) in [
        ([Stop, Stop], Duration::ZERO, "stopped"),
        ([Interrupt, Stop], Duration::ZERO, "stopped"),
        ([Stop, Interrupt], Duration::MAX, "stopped"),
        ([Interrupt, Interrupt], Duration::ZERO, "killed"),
        ([Stop, Kill], Duration::MAX, "killed"),
    ] {
        let settings = Settings { same_request, ..SETTINGS };
        let mut last = String::new();
        let processes = name_all(vec![Command::split("sleep 1000").unwrap()]);
        let tell = |_: &_, change| last = format!("{change:?}").to_lowercase();
        let supervisor = Supervisor::new(processes, settings, tell);
        for message in messages {
            // Both messages arrive before the command ends.
            supervisor.outbox().send(message).expect("the supervisor is alive");
        }
        assert_eq!(supervisor.run(), Outcome::default());
        assert!(last.starts_with(end), "{messages:?}: {last}");
    }
}

#[test]
fn stops_after_the_given_time() {
    let settings = Settings { stop_after: Some(Duration::ZERO), ..SETTINGS };
    assert_eq!(run("sleep 1000", settings, |_| false), "created, started 0, stopped");
}

#[test]
fn a_panic_leaves_no_command_running() {
    let mut pid = None;
    let processes = name_all(vec![Command::split("sleep 1000").unwrap()]);
    let supervisor = Supervisor::new(processes, SETTINGS, |_, change| {
        if let Change::Started { pid: id, .. } = change {
            pid = Some(id);
            panic!("on purpose");
        }
    });
    assert!(catch_unwind(AssertUnwindSafe(|| supervisor.run())).is_err());
    let pid = rustix::process::Pid::from_raw(i32::try_from(pid.unwrap()).unwrap()).unwrap();
    assert_eq!(rustix::process::test_kill_process(pid), Err(rustix::io::Errno::SRCH));
}

fn with_limit(max_restarts: u64) -> Settings {
    let backoff = Policy { max_restarts: Some(max_restarts), ..SETTINGS.backoff };
    Settings { backoff, stop_after: Some(PATIENCE), ..SETTINGS }
}

#[test]
fn stops_after_the_last_allowed_restart() {
    for (command, end) in
        [("false", "code 1"), ("true", "exited"), ("/nowhere/to/be/found", "cannot start: NotFound")]
    {
        // If a command cannot be started, no start is reported.
        let run_of = |number| {
            if end.starts_with("cannot") { end.to_owned() } else { format!("started {number}, {end}") }
        };
        let [first, second, third] = [0, 1, 2].map(run_of);
        assert_eq!(
            run(command, with_limit(2), |_| false),
            format!("created, {first}, wait 1, {second}, wait 2, {third}, gave up 2")
        );
        assert_eq!(run(command, with_limit(0), |_| false), format!("created, {first}, gave up 0"));
    }
}

#[test]
fn a_command_that_ended_well_is_not_restarted_on_failure_only() {
    let settings = Settings { on_failure: true, stop_after: Some(PATIENCE), ..SETTINGS };
    assert_eq!(run("true", settings, |_| false), "created, started 0, exited");
    assert_begins(&run("false", settings, waits_for(1)), "created, started 0, code 1, wait 1");
    assert_begins(&run("sh -c 'kill $$'", settings, waits_for(1)), "created, started 0, signal 15, wait 1");
}

#[test]
fn other_commands_run_on_after_one_was_abandoned() {
    let processes = ["false", "sh -c 'sleep 0.2; exit 3'"].map(|text| Command::split(text).unwrap());
    let mut gave_up = Vec::new();
    let supervisor = Supervisor::new(name_all(processes.to_vec()), with_limit(1), |process, change| {
        if let Change::GaveUp { .. } = change {
            gave_up.push(process.name.clone());
        }
    });
    let outcome = supervisor.run();
    let names = ["false", "sh"].map(str::to_owned).to_vec();
    assert_eq!(outcome, Outcome { left: Vec::new(), gave_up: names.clone() });
    assert_eq!(gave_up, names);
}
