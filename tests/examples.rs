//! The examples run, print what they promise, and end in order.

#[path = "support/running.rs"]
mod running;

use running::{Running, cells, figure, run};

/// Returns the number before `what`.
fn number(line: &str, what: &str) -> u64 {
    let before = line.split(what).next().expect("a first part").trim_end();
    let digits = before.rsplit(' ').next().expect("a last word");
    digits.parse().unwrap_or_else(|_| panic!("no number before {what:?} in {line:?}"))
}

#[test]
fn the_daemon_journals_everything_and_counts_what_the_view_missed() {
    let lines = run("daemon", &[]);
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
    let lines = run("hello", &[]);
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

#[test]
fn filtered_shows_each_watcher_what_it_is_there_for() {
    let lines = run("filtered", &["--jobs", "110", "--workers", "3"]);
    // Of the 110 jobs, 10 cannot be read: three failed attempts and then the end. At two of these
    // jobs one of the attempts finds the store busy instead. 20 other jobs find the store busy
    // once.
    let failures: Vec<&String> = lines.iter().filter(|line| line.starts_with("failures: ")).collect();
    let having = |text: &str| failures.iter().filter(|line| line.contains(text)).count();
    assert_eq!(having("the store is busy"), 22, "{failures:#?}");
    assert_eq!(having("cannot be read"), 28, "{failures:#?}");
    assert_eq!(having("given up after "), 10, "{failures:#?}");
    // Each job is queued, and each of its attempts begins and ends.
    let events = 110 + 2 * (100 + 20) + 10 * 7;
    assert!(lines.contains(&format!("110 jobs, 10 of them given up, in {events} events")), "{lines:#?}");
    for (name, delivered) in [("failures ", 60), ("acme", 34), ("watcher-2", events)] {
        let row = cells(&lines, name);
        let expected = [delivered, events - delivered, delivered].map(|figure| figure.to_string());
        assert_eq!(row[..3], expected, "{name}: {lines:#?}");
    }
    let console = cells(&lines, "console");
    assert!(figure(console[0]) >= 55, "half of the jobs were queued after it came: {console:?}");
    assert!(console[3].starts_with("55 jobs as they stood"), "{console:?}");
    assert!(lines.last().expect("a last line").ends_with("everything adds up"), "{lines:#?}");
}

#[test]
fn bad_usage_is_told_on_stderr_with_status_2() {
    for (name, args, part) in [
        ("slow_watcher", &["--nonsense"][..], "invalid option '--nonsense'"),
        ("slow_watcher", &["--rate"], "--rate needs a number from 0 to 1000000000"),
        ("slow_watcher", &["--queue", "0"], "--queue must be a number from 1 to 16777216, got '0'"),
        ("filtered", &["--jobs", "0"], "--jobs must be a number from 1 to 1000000, got '0'"),
        ("async_tokio", &["--events"], "--events needs a number from 0 to "),
        #[cfg(feature = "recorder")]
        ("custom_sink", &["more"], "unexpected argument \"more\""),
        #[cfg(feature = "serde")]
        ("sse", &["--port", "65536"], "--port must be a number from 0 to 65535, got '65536'"),
        #[cfg(all(feature = "select", feature = "recorder"))]
        ("soak", &["--seed", "-1"], "--seed must be a number from 0 to"),
        ("slow_watcher", &["--for", "soon"], "--for must be a duration such as 250ms or 1m30s, got 'soon'"),
    ] {
        let ended = Running::start(name, args).end();
        assert_eq!((ended.code, ended.stdout.as_str()), (Some(2), ""), "{name} {args:?}");
        assert!(ended.stderr[0].contains(part), "{:?}", ended.stderr);
        assert!(ended.stderr[1].contains("--help"), "{:?}", ended.stderr);
    }
}

#[test]
fn help_goes_to_stdout() {
    for name in [
        "drop_on_full",
        "filtered",
        "slow_watcher",
        "async_tokio",
        #[cfg(feature = "recorder")]
        "custom_sink",
        #[cfg(feature = "serde")]
        "sse",
        #[cfg(all(feature = "select", feature = "recorder"))]
        "soak",
    ] {
        let ended = Running::start(name, &["--help"]).end();
        assert_eq!((ended.code, ended.stderr.len()), (Some(0), 0));
        assert!(ended.stdout.contains(&format!("Usage: {name} [OPTIONS]")), "{}", ended.stdout);
        assert!(ended.stdout.lines().all(|line| line.len() <= 95), "{}", ended.stdout);
    }
}
