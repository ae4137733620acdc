//! The small examples run, and print what they say.

#[path = "support/example.rs"]
mod example;

use std::process::Command;

/// Runs an example to its end; what it wrote to stdout, as lines.
fn run(name: &str) -> Vec<String> {
    let output = Command::new(example::program(name)).output().expect("it starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("UTF-8").lines().map(str::to_owned).collect()
}

/// The number that stands before `what`.
fn number(line: &str, what: &str) -> u64 {
    let before = line.split(what).next().expect("a first part").trim_end();
    let digits = before.rsplit(' ').next().expect("a last word");
    digits.parse().unwrap_or_else(|_| panic!("no number before {what:?} in {line:?}"))
}

#[test]
fn the_daemon_journals_everything_and_counts_what_the_view_missed() {
    let lines = run("daemon");
    let received = number(&lines[0], "received");
    let accepted = received - number(&lines[0], "of them refused");
    assert!(received > 0, "{lines:#?}");
    assert_eq!(number(&lines[1], "written"), accepted, "{lines:#?}");
    assert_eq!(number(&lines[1], "shown") + number(&lines[1], "missed"), accepted, "{lines:#?}");
    assert!(
        lines[2].starts_with(&format!("complete: published {received}, accepted {accepted}, ")),
        "{lines:#?}"
    );
}

#[cfg(feature = "recorder")]
#[test]
fn hello_stores_what_it_records_and_counts_the_repeat() {
    let lines = run("hello");
    assert!(lines[0].starts_with("complete: published 4, accepted 4, rejected 0 "), "{lines:#?}");
    assert!(lines[1].starts_with("LAST SEEN "), "{lines:#?}");
    let seen: Vec<(bool, &str)> = lines[2..]
        .iter()
        .map(|row| (row.contains(" (x2 over "), row.split("disk/sda").nth(1).expect("the object").trim()))
        .collect();
    assert_eq!(
        seen,
        [(false, "mounted on /"), (true, "97 % are used"), (false, "98 % are used")],
        "{lines:#?}"
    );
}
