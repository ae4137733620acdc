//! Tests of restarts and their counts.

use rustix::process::Signal;

use super::{accounting, start};
use crate::support::running::Ended;

/// Runs the program until no command is left to restart. This takes less than a minute.
fn start_to_end(args: &[&str]) -> Ended {
    start(&[&["--for", "1m"], args].concat()).end()
}

/// Returns a command for `--shell` that fails 50 times and then writes `stays`. `file` is the file
/// in which the command counts its runs.
pub(super) fn fails_50_times(file: &str) -> String {
    format!("echo run >>'{file}'; [ $(wc -l <'{file}') -le 50 ] && exit 3; echo stays >&2; exec sleep 1000")
}

/// Checks that the table shows 50 failures and 51 starts.
#[track_caller]
pub(super) fn assert_50_failures(ended: &Ended) {
    for (message, count) in
        [("ended with exit code 3", 50), ("waiting before the next start", 50), ("started", 51)]
    {
        let row = ended.row("process/sh", &format!(" {message}"));
        assert!(row.contains(&format!("(x{count} over ")), "{row}");
    }
    let line = ended.stdout.lines().last().unwrap();
    let figure = accounting(line.strip_prefix("accounting: ").expect("the last line"));
    assert_eq!(figure("published"), 1 + 50 + 50 + 51 + 1, "{line}");
    assert_eq!((figure("stored"), figure("counted")), (5, 148), "{line}");
}

#[test]
fn a_crash_loop_of_50_runs_shows_50() {
    let folder = tempfile::TempDir::new().expect("a folder");
    let command = fails_50_times(folder.path().join("runs").to_str().expect("UTF-8"));
    let mut program = start(&["--shell", "--backoff-max", "1ms", &command]);
    program.wait_for(|line| line == "stays");
    let ended = program.stop();
    assert_50_failures(&ended);
}

#[test]
fn different_exit_codes_are_different_events() {
    let folder = tempfile::TempDir::new().expect("a folder");
    let file = folder.path().join("runs");
    let file = file.to_str().expect("UTF-8");
    // The command exits with the exit codes 1, 2, 3, ... 20.
    let command = format!(
        "echo run >>'{file}'; runs=$(wc -l <'{file}'); [ $runs -le 20 ] && exit $runs; echo stays >&2; exec sleep 1000"
    );
    let mut program = start(&["--shell", "--backoff-max", "1ms", &command]);
    program.wait_for(|line| line == "stays");
    let ended = program.stop();
    for code in 1..=20 {
        let rows = ended.stdout.lines().filter(|row| row.ends_with(&format!(" ended with exit code {code}")));
        let rows: Vec<&str> = rows.collect();
        assert!(rows.len() == 1 && !rows[0].contains("(x"), "{code}: {}", ended.stdout);
    }
    assert!(!ended.stdout.contains("combined from similar events"), "{}", ended.stdout);
}

#[test]
fn a_wait_is_a_warning_only_after_a_failure() {
    let mut program = start(&["true", "false", "sleep 1000"]);
    program.wait_for(|line| line.contains("Z  Normal   BackOff  process/true  "));
    program.wait_for(|line| line.contains("Z  Warning  BackOff  process/false  "));
    let ended = program.stop();
    for (object, type_) in [("process/true", "Normal"), ("process/false", "Warning")] {
        let rows: Vec<&str> = ended.stdout.lines().filter(|row| row.contains(object)).collect();
        let rows: Vec<&&str> = rows.iter().filter(|row| row.contains(" BackOff ")).collect();
        assert!(rows.len() == 1 && rows[0].contains(&format!("  {type_} ")), "{rows:#?}");
    }
}

#[test]
fn on_failure_ends_when_all_commands_have_ended_with_0() {
    let ended = start_to_end(&["--on-failure", "true", "echo hello", "sleep 0.1"]);
    assert_eq!(ended.code, Some(0), "{:#?}", ended.stderr);
    for object in ["process/true", "process/echo", "process/sleep"] {
        assert!(!ended.row(object, "ended with exit code 0").contains("(x"), "{}", ended.stdout);
    }
    assert!(!ended.stdout.contains(" BackOff "), "{}", ended.stdout);
}

#[test]
fn on_failure_restarts_until_a_run_ends_with_0() {
    let folder = tempfile::TempDir::new().expect("a folder");
    let file = folder.path().join("runs");
    let file = file.to_str().expect("UTF-8");
    let command = format!("echo run >>'{file}'; [ $(wc -l <'{file}') -gt 3 ]");
    let ended = start_to_end(&["--shell", "--on-failure", "--backoff", "1ms", &command]);
    assert_eq!(ended.code, Some(0), "{:#?}", ended.stderr);
    assert!(ended.row("process/sh", "ended with exit code 1").contains("(x3 over "), "{}", ended.stdout);
    assert!(!ended.row("process/sh", "ended with exit code 0").contains("(x"), "{}", ended.stdout);
}

#[test]
fn it_stops_after_the_allowed_restarts_and_names_the_command() {
    let args = ["--max-restarts", "49", "--backoff-max", "1ms", "--on-failure", "false", "true"];
    for quiet in [&[][..], &["--quiet", "--json"]] {
        let ended = start_to_end(&[quiet, &args].concat());
        assert_eq!(ended.code, Some(3), "{:#?}", ended.stderr);
        let last = ended.stderr.last().expect("a line");
        assert_eq!(last, "eventcast: gave up on false after 49 restarts", "{:#?}", ended.stderr);
        assert!(!ended.stderr.iter().any(|line| line.contains("gave up on true")), "{:#?}", ended.stderr);
        if quiet.is_empty() {
            assert!(ended.row("process/false", "ended with exit code 1").contains("(x50 over "));
            let row = ended.row("process/false", "not started again after 49 restarts");
            assert!(row.contains("Warning") && row.contains("BackoffLimitExceeded"), "{row}");
        }
    }
}

#[test]
fn other_commands_run_on_after_one_used_up_its_restarts() {
    let mut program = start(&["--for", "1m", "--max-restarts=0", "/nowhere/to/be/found", "sleep 1000"]);
    program.wait_for(|line| line.contains("Z  Warning  BackoffLimitExceeded  process/found  "));
    program.signal(Signal::TERM);
    let ended = program.end();
    assert_eq!(ended.code, Some(3), "{:#?}", ended.stderr);
    ended.row("process/sleep", "stopped with its supervisor");
    let last = ended.stderr.last().expect("a line");
    assert_eq!(last, "eventcast: gave up on found after 0 restarts");
}
