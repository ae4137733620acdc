//! Checks that each program terminates and prints the output that the documentation describes.

use test_support::program::{check_width, run};

const DAEMON: &str = env!("CARGO_BIN_EXE_daemon");
const FILTERS: &str = env!("CARGO_BIN_EXE_filters");
const MODEL_CHECKING: &str = env!("CARGO_BIN_EXE_model_checking");
const POLICIES: &str = env!("CARGO_BIN_EXE_policies");
const SIZING: &str = env!("CARGO_BIN_EXE_sizing");

/// The programs that print output.
const PROGRAMS: [&str; 4] = [DAEMON, FILTERS, POLICIES, SIZING];

#[cfg(target_os = "linux")]
#[test]
fn a_closed_pipe_is_a_quiet_end_and_a_full_disk_is_an_error() {
    PROGRAMS.into_iter().for_each(test_support::program::check_closed_pipe_and_full_disk);
}

#[test]
fn no_line_is_much_wider_than_a_terminal() {
    PROGRAMS.into_iter().for_each(check_width);
}

/// Returns the number that precedes `what` in the text.
fn number(text: &str, what: &str) -> u64 {
    let before = text.split(what).next().expect("a first part").trim_end();
    let digits = before.rsplit(' ').next().expect("a last word");
    digits.parse().unwrap_or_else(|_| panic!("no number before {what:?} in {text:?}"))
}

#[test]
fn daemon_journals_everything_and_counts_what_the_view_missed() {
    let (stdout, _) = run(DAEMON);
    let lines: Vec<&str> = stdout.lines().collect();
    let received = number(lines[0], "received");
    let accepted = received - number(lines[0], "of them refused");
    assert!(received > 0, "{lines:#?}");
    assert_eq!(number(lines[1], "written"), accepted, "{lines:#?}");
    assert_eq!(number(lines[1], "shown") + number(lines[1], "missed"), accepted, "{lines:#?}");
    let report = format!("complete: published {received}, accepted {accepted}, ");
    assert!(lines[2].starts_with(&report), "{lines:#?}");
    // Each line describes a watcher, or the sum of the watchers that have ended.
    assert!(lines[3..].iter().all(|line| line.starts_with("  ")), "{lines:#?}");
}

#[test]
fn filters_shows_each_watcher_its_part() {
    let (stdout, _) = run(FILTERS);
    assert_eq!(
        stdout,
        "WATCHER      OFFERED  FILTERED\n\
         failures     6        54\n\
         bob          8        52\n\
         everything   60       0\n\
         late         20       0\n\
         failed: [4, 9, 14, 19, 24, 29]; done for bob: 8\n\
         the late watcher knows all 30 jobs\n"
    );
}

/// `.ci/run outside` runs the models of this example.
#[test]
fn model_checking_passes_without_a_model() {
    assert_eq!(run(MODEL_CHECKING).0, "");
}

#[test]
fn policies_shows_what_each_policy_costs() {
    let (stdout, _) = run(POLICIES);
    let rows: Vec<Vec<&str>> = stdout
        .lines()
        .skip(1)
        .map(|row| row.split("  ").map(str::trim).filter(|cell| !cell.is_empty()).collect())
        .collect();
    assert_eq!(
        rows[..4],
        [
            ["drop_incoming", "12", "12", "4", "8", "1 2 3 4 [8 missing]"],
            ["evict", "12", "4", "4", "0", "1 2 3 4 [evicted]"],
            ["drop_oldest", "12", "12", "4", "8", "[8 missing] 9 10 11 12"],
            ["wait_for:1ms", "12", "12", "4", "8", "1 2 3 4 [8 missing]"],
        ]
    );
    // The bus did not lose any of the events that it accepted. The bus accepts seven events, or
    // fewer on a very slow machine.
    let accepted: u64 = rows[4][1].parse().expect("a number");
    assert!((1..=7).contains(&accepted), "{rows:#?}");
    let read = (1..=accepted).map(|number| number.to_string()).collect::<Vec<_>>().join(" ");
    assert_eq!(rows[4][2..], [rows[4][1], rows[4][1], "0", &read]);
}

#[test]
fn sizing_finds_the_length() {
    let (stdout, _) = run(SIZING);
    assert_eq!(
        stdout,
        "QUEUE  OFFERED  DELIVERED  DROPPED  HIGH WATER\n\
         100    3000     900        2100     100\n\
         300    3000     2700       300      300\n\
         600    3000     3000       0        600\n\
         1000   3000     3000       0        600\n\
         the queue must hold 600 events\n"
    );
}
