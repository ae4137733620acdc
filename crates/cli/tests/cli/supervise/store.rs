//! Tests of runs that store their events in a file.

use std::time::{Duration, Instant, SystemTime};

use eventcast::testing::FakeClock;
use eventcast_sqlite::{SqliteSink, SqliteSinkOptions};
use rustix::process::Signal;

use super::restarts::{assert_50_failures, fails_50_times};
use super::{accounting, start};
use crate::support::output::run;
use crate::support::running::{Ended, PATIENCE, Running};

struct Folder(tempfile::TempDir);

impl Folder {
    fn new() -> Self {
        Self(tempfile::TempDir::new().expect("a folder"))
    }

    fn path(&self, name: &str) -> String {
        self.0.path().join(name).to_str().expect("UTF-8").to_owned()
    }
}

/// Runs the program until the command has failed.
fn once(args: &[&str]) -> Ended {
    let mut program = start(args);
    program.wait_for(|line| line.contains("Z  Warning  BackOff  "));
    program.stop()
}

#[test]
fn what_a_run_leaves_the_next_one_shows() {
    let folder = Folder::new();
    let store = folder.path("events.db");
    let hostile = "/no/\u{1b}[2Jev\u{202e}il";
    let first = once(&["--store", &store, "--show-args", hostile]);
    assert!(first.stdout.starts_with("LAST SEEN "), "nothing was left: {}", first.stdout);
    first.row("process/__2Jev_il", "waiting before the next start");
    accounting(first.stdout.lines().last().unwrap())("stored");

    let second = once(&["--store", &store, "/no/other"]);
    let (left, own) = second.stdout.split_once("\n\n").expect("a blank line between");
    let kept = first.stdout.lines().filter(|line| line.contains("process/")).count();
    let head = left.lines().next().unwrap();
    let shown = left.lines().count() - 2;
    let last = if kept > 10 { ", the last 10 of them" } else { "" };
    assert_eq!(head, format!("earlier runs left {kept} events{last}:"), "{left}");
    assert_eq!(shown, kept.min(10));
    assert!(left.contains("process/__2Jev_il") && !left.contains("process/other"), "{left}");
    assert!(!left.contains(['\u{1b}', '\u{202e}']), "{left:?}");
    assert!(own.starts_with("LAST SEEN ") && own.contains("process/other"), "{own}");

    // Stdout contains only the JSON.
    let third = once(&["--store", &store, "--json", "/no/third"]);
    let list: serde_json::Value = serde_json::from_str(&third.stdout).expect("JSON");
    let items = list["items"].as_array().expect("items");
    assert!(items.iter().any(|event| event["involvedObject"]["name"] == "third"), "{list}");
    assert!(third.stderr[0].starts_with("earlier runs left "), "{:#?}", third.stderr);
}

#[test]
fn the_events_of_another_run_are_not_its_own() {
    use eventcast::sink::EventQuery;
    use eventcast::{Event, EventSink as _, ObjectReference, Timestamp};
    let folder = Folder::new();
    let path = folder.path("events.db");
    // This event is written before the run, but its timestamp is in the same second as the run or
    // later, because the clock of another machine may be ahead.
    let store = SqliteSink::open(&path).expect("a store");
    let mut event = Event::default();
    event.metadata.name = "earlier.1".into();
    event.involved_object = ObjectReference::new("Process", "earlier");
    event.message = "from another run".into();
    event.last_timestamp = Some(Timestamp::from(SystemTime::now()).saturating_add(Duration::from_secs(60)));
    store.create(&event).expect("it is new");
    // Another run writes this event while the run is in progress.
    let mut program = start(&["--store", &path, "false"]);
    program.wait_for(|line| line.contains("Z  Normal   Created  "));
    (event.metadata.name, event.involved_object.name) = ("meanwhile.1".into(), "meanwhile".into());
    store.create(&event).expect("it is new");
    program.wait_for(|line| line.contains("Z  Warning  BackOff  "));
    let ended = program.stop();
    let (left, own) = ended.stdout.split_once("\n\n").expect("a blank line between");
    assert!(left.contains("process/earlier") && own.contains("process/false"), "{}", ended.stdout);
    assert!(!own.contains("from another run"), "{own}");

    once(&["--store", &path, "false"]);
    let events =
        store.find(&EventQuery::default().object(ObjectReference::new("Process", "false"))).expect("a store");
    let mut uids: Vec<_> = events.iter().map(|event| event.involved_object.uid.clone()).collect();
    uids.sort();
    uids.dedup();
    assert_eq!(uids.len(), 2, "one for each run");
}

#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_is_reported_as_the_cause_of_the_loss() {
    let folder = Folder::new();
    // A file size limit simulates a full disk.
    let mut command = std::process::Command::new("sh");
    let script = r#"ulimit -f 100; trap "" XFSZ; exec "$0" "$@""#;
    command.args(["-c", script, crate::support::output::PROGRAM, "supervise", "--backoff-max", "1ms"]);
    command.args(["--store", &folder.path("events.db"), "false"]);
    let mut program = Running::spawn(command);
    for _ in 0..40 {
        program.wait_for(|line| line.contains("Z  Warning  BackOff  "));
    }
    program.signal(Signal::TERM);
    let ended = program.end();
    assert_eq!(ended.code, Some(1), "{:#?}", ended.stderr);
    let line = ended.stderr.last().expect("the cause");
    assert!(line.starts_with("eventcast: ") && line.contains(" not in the store: "), "{line}");
    assert!(line.contains("the disk or the file system reported an error"), "{line}");
}

#[test]
fn a_file_that_is_no_store_is_reported_and_kept() {
    let folder = Folder::new();
    let path = folder.path("notes.txt");
    std::fs::write(&path, "notes, not events, and long enough. ".repeat(40)).expect("a file");
    let before = std::fs::read(&path).expect("it is there");
    let ended = start(&["--store", &path, "true"]).end();
    assert_eq!((ended.code, ended.stdout.as_str()), (Some(1), ""));
    assert!(
        ended.stderr[0].starts_with("eventcast: ") && ended.stderr[0].contains(&path),
        "{:?}",
        ended.stderr
    );
    assert_eq!(std::fs::read(&path).expect("it is there"), before);
}

#[test]
fn a_crash_loop_of_50_runs_shows_50_live_and_in_the_store() {
    let folder = Folder::new();
    let store = folder.path("events.db");
    let command = fails_50_times(&folder.path("runs"));
    let mut program = start(&["--shell", "--backoff-max", "1ms", "--store", &store, &command]);
    program.wait_for(|line| line == "stays");
    // While the program is still running, the store already contains the count.
    let failed = ["events", "get", "--store", &store, "--reason", "Failed"];
    let start = Instant::now();
    loop {
        let shown = run(&failed).stdout;
        if shown.contains(" (x50 over ") {
            break;
        }
        assert!(start.elapsed() < PATIENCE, "{shown}");
    }
    let ended = program.stop();
    assert_50_failures(&ended);
    assert!(run(&failed).stdout.contains(" (x50 over "));
}

/// Returns the number of events that the store will still contain after the given time.
fn events_after(store: &str, time: Duration) -> usize {
    let clock = FakeClock::new(SystemTime::now() + time);
    let store = SqliteSink::with_clock(store, SqliteSinkOptions::default(), clock.clock());
    store.and_then(|store| store.len()).expect("a store")
}

#[test]
fn an_event_is_kept_for_30_days_or_as_long_as_asked() {
    const HOUR: Duration = Duration::from_secs(3600);
    let folder = Folder::new();
    for (args, time) in
        [(&[][..], 30 * 24 * HOUR), (&["--keep", "2d"], 48 * HOUR), (&["--keep=2h"], 2 * HOUR)]
    {
        let store = folder.path(&format!("{}.db", time.as_secs()));
        let ended = once(&[args, &["--store", &store, "false"]].concat());
        let stored = accounting(ended.stdout.lines().last().unwrap())("stored");
        assert_eq!(events_after(&store, time.saturating_sub(HOUR)) as u64, stored, "{args:?}");
        assert_eq!(events_after(&store, time), 0, "{args:?}");
    }
}

#[test]
fn the_next_run_shows_how_many_events_have_expired() {
    let folder = Folder::new();
    let store = folder.path("events.db");
    // The restart delay is an hour, so no event is written twice.
    let first =
        once(&["--store", &store, "--keep", "1us", "--backoff", "1h", "--backoff-max", "1h", "false"]);
    let stored = accounting(first.stdout.lines().last().unwrap())("stored");
    assert!(
        first.stdout.starts_with(&format!("no events: {stored} events have expired\n")),
        "{}",
        first.stdout
    );
    let second = once(&["--store", &store, "false"]);
    let head = format!("earlier runs left no events: {stored} events have expired\n\nLAST SEEN ");
    assert!(second.stdout.starts_with(&head), "{}", second.stdout);
    let third = once(&["--store", &store, "--json", "false"]);
    assert!(third.stderr[0].starts_with("earlier runs left "), "{:#?}", third.stderr);
}
