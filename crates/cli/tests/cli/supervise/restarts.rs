//! Restarts, and their counts.

use rustix::process::Signal;

use super::{accounting, start};
use crate::support::running::Ended;

/// Returns a command for `--shell` that fails 50 times and then writes `stays`, with the file in
/// which it counts its runs.
pub(super) fn fails_50_times(file: &str) -> String {
    format!("echo run >>'{file}'; [ $(wc -l <'{file}') -le 50 ] && exit 3; echo stays >&2; exec sleep 1000")
}

/// Checks that the table has the counts of 50 failures and of 51 runs.
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
    program.signal(Signal::TERM);
    let ended = program.end();
    assert_eq!(ended.code, Some(0), "{:#?}", ended.stderr);
    assert_50_failures(&ended);
}

#[test]
fn different_exit_codes_are_different_events() {
    let folder = tempfile::TempDir::new().expect("a folder");
    let file = folder.path().join("runs");
    let file = file.to_str().expect("UTF-8");
    // Its exit codes are 1, 2, 3, ... 20.
    let command = format!(
        "echo run >>'{file}'; runs=$(wc -l <'{file}'); [ $runs -le 20 ] && exit $runs; echo stays >&2; exec sleep 1000"
    );
    let mut program = start(&["--shell", "--backoff-max", "1ms", &command]);
    program.wait_for(|line| line == "stays");
    program.signal(Signal::TERM);
    let ended = program.end();
    for code in 1..=20 {
        let rows = ended.stdout.lines().filter(|row| row.ends_with(&format!(" ended with exit code {code}")));
        let rows: Vec<&str> = rows.collect();
        assert!(rows.len() == 1 && !rows[0].contains("(x"), "{code}: {}", ended.stdout);
    }
    assert!(!ended.stdout.contains("combined from similar events"), "{}", ended.stdout);
}
