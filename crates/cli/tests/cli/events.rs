//! Tests of the `events` command, which queries a store in a file while other programs write to it.
#![cfg(feature = "sqlite-system")]

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Stdio};
use std::time::{Duration, SystemTime};

use eventcast::sink::{SinkBatch, SinkOp};
use eventcast::testing::FakeClock;
use eventcast::{Event, EventSink, ObjectReference, Timestamp};
use eventcast_sqlite::{SqliteSink, SqliteSinkOptions};
use tempfile::TempDir;

use crate::support::output::{Ended, assert_harmless, ended, eventcast};

/// A payload like the one in CVE-2021-25743, with escape sequences that a terminal would interpret.
/// The payload is used in every field that is shown.
const PAYLOAD: &str =
    "\u{1b}[2J\u{1b}[1;1H\u{9b}31mpwned\rNormal\u{8}\u{7f}\u{202e}txet\u{2028}next\nLAST SEEN";

/// A new directory that contains a store.
struct Place {
    folder: TempDir,
    store: PathBuf,
}

impl Place {
    fn new() -> Self {
        let folder = TempDir::new().unwrap();
        let store = folder.path().join("events.db");
        Self { folder, store }
    }

    fn sink(&self) -> SqliteSink {
        SqliteSink::open(&self.store).unwrap()
    }

    fn events(&self, args: &[&str]) -> Ended {
        events_of(&self.store, args)
    }

    /// Returns the output of a run, which must succeed.
    #[track_caller]
    fn shown(&self, args: &[&str]) -> String {
        let ended = self.events(args);
        assert_eq!((ended.code, &*ended.stderr), (Some(0), ""), "{args:?}");
        ended.stdout
    }
}

/// Runs `eventcast events` on a store.
fn events_of(store: &Path, args: &[&str]) -> Ended {
    let mut command = eventcast(&["events", "--store"]);
    command.arg(store).args(args);
    ended(command, b"")
}

fn event(name: &str, object: &'static str, type_: &'static str, reason: &'static str) -> Event {
    let mut event = Event::default();
    event.metadata.name = name.to_owned().into();
    event.involved_object = ObjectReference::new("Pod", object);
    (event.type_, event.reason) = (type_.into(), reason.into());
    event.message = format!("message of {name}").into();
    event.source = "kubelet".into();
    event.count = 1;
    event
}

/// Creates a store with three events about two objects, one of which is in a namespace.
fn filled() -> Place {
    let place = Place::new();
    let sink = place.sink();
    sink.create(&event("a", "web-0", "Normal", "Started")).unwrap();
    let mut recent = event("b", "web-0", "Warning", "BackOff");
    recent.first_timestamp =
        Some(Timestamp::from(SystemTime::now()).saturating_sub(Duration::from_secs(1800)));
    sink.create(&recent).unwrap();
    let mut blue = event("c", "web-1", "Normal", "Started");
    blue.involved_object.namespace = "blue".into();
    sink.create(&blue).unwrap();
    place
}

#[test]
fn get_prints_what_is_asked_for() {
    let place = filled();
    let table = place.shown(&["get"]);
    let lines: Vec<&str> = table.lines().collect();
    assert_eq!(lines.len(), 4);
    assert_eq!(lines[0], "NAMESPACE   LAST SEEN   TYPE      REASON    OBJECT      MESSAGE");
    assert_eq!(lines[1], "default     <unknown>   Normal    Started   pod/web-0   message of a");
    assert_eq!(lines[2], "default     30m         Warning   BackOff   pod/web-0   message of b");
    assert_eq!(lines[3], "blue        <unknown>   Normal    Started   pod/web-1   message of c");
    let one = place.shown(&["get", "-n", "blue"]);
    let lines: Vec<&str> = one.lines().collect();
    assert_eq!(lines[0], "LAST SEEN   TYPE     REASON    OBJECT      MESSAGE");
    assert_eq!(lines[1], "<unknown>   Normal   Started   pod/web-1   message of c");

    let found = |args: &[&str]| -> String {
        let shown = place.shown(&[&["get"], args].concat());
        shown.lines().skip(1).map(|line| line.chars().next_back().unwrap()).collect()
    };
    assert_eq!(found(&["-n", "blue"]), "c");
    assert_eq!(found(&["--namespace=default"]), "ab");
    assert_eq!(found(&["--for", "POD/web-0"]), "ab");
    assert_eq!(found(&["--for", "pod"]), "abc");
    assert_eq!(found(&["--types", "warning"]), "b");
    assert_eq!(found(&["--types", "Normal", "--for", "pod/web-0"]), "a");
    assert_eq!(found(&["--reason", "Started"]), "ac");
    assert_eq!(found(&["--since", "31m"]), "b");
    assert_eq!(found(&["--limit", "2"]), "bc");
    assert_eq!(found(&["--limit", "1", "--for", "pod/web-0"]), "b");
    for nothing in [&["get", "--reason", "Other"][..], &["get", "--since", "29m"], &["get", "--limit", "0"]] {
        let ended = place.events(nothing);
        assert_eq!(
            (ended.code, &*ended.stdout, &*ended.stderr),
            (Some(0), "", "eventcast: no events found\n")
        );
    }
}

#[test]
fn the_number_of_expired_events_is_shown_where_none_is_found() {
    let place = Place::new();
    let clock = FakeClock::new(SystemTime::now() - Duration::from_secs(2 * 3600));
    let options = SqliteSinkOptions::default().ttl(Duration::from_secs(3600));
    let sink = SqliteSink::with_clock(&place.store, options, clock.clock()).unwrap();
    for name in ["a", "b"] {
        sink.create(&event(name, "web-0", "Normal", "Started")).unwrap();
    }
    for (args, stdout) in [(&["get"][..], ""), (&["describe", "pod/web-0"], "Events:  <none>\n")] {
        let ended = place.events(args);
        let shown = (ended.code, &*ended.stdout, &*ended.stderr);
        assert_eq!(shown, (Some(0), stdout, "eventcast: no events found (2 events have expired)\n"));
    }
    // The number of expired events stays the same after a write has removed their rows.
    place.sink().create(&event("c", "web-1", "Normal", "Started")).unwrap();
    let ended = place.events(&["get", "--reason", "Other"]);
    assert_eq!(ended.stderr, "eventcast: no events found (2 events have expired)\n");
    assert_eq!(place.events(&["describe", "pod/web-1"]).stderr, "");
}

#[test]
fn a_type_that_no_event_has_is_reported_with_the_usual_ones() {
    let place = filled();
    let hint = "eventcast: 'Nonsense' is not one of the usual types, Normal and Warning\n";
    let ended = place.events(&["get", "--types", "Nonsense"]);
    let expected = format!("eventcast: no events found\n{hint}");
    assert_eq!((ended.code, &*ended.stdout, ended.stderr), (Some(0), "", expected));
    let ended = place.events(&["get", "-o", "json", "--types", "Nonsense"]);
    assert_eq!((ended.code, &*ended.stderr), (Some(0), hint));
    let ended = place.events(&["get", "--types", "warning", "--reason", "Nonsense"]);
    assert_eq!(ended.stderr, "eventcast: no events found\n", "the type is a usual one");
    // A store may contain events of any type.
    place.sink().create(&event("e", "web-0", "Nonsense", "Odd")).unwrap();
    let ended = place.events(&["get", "--types", "Nonsense"]);
    assert_eq!((ended.stdout.lines().count(), &*ended.stderr), (2, ""));
}

#[test]
fn json_is_a_list_of_the_stored_events() {
    let place = filled();
    let list: serde_json::Value = serde_json::from_str(&place.shown(&["get", "-o", "json"])).unwrap();
    assert_eq!((&list["kind"], &list["apiVersion"]), (&"EventList".into(), &"v1".into()));
    let items = list["items"].as_array().unwrap().iter();
    let items: Vec<Event> = items.map(|item| Event::from_json(&item.to_string()).unwrap()).collect();
    assert_eq!(items, place.sink().events().unwrap());
    let none = place.shown(&["get", "--output=json", "--reason", "Other"]);
    assert_eq!(serde_json::from_str::<serde_json::Value>(&none).unwrap()["items"], serde_json::json!([]));
}

#[test]
fn describe_prints_the_section_of_one_object() {
    let place = filled();
    assert_eq!(
        place.shown(&["describe", "pod/web-0"]),
        "\
Events:
  Type     Reason   Age        From     Message
  ----     ------   ----       ----     -------
  Normal   Started  <unknown>  kubelet  message of a
  Warning  BackOff  30m        kubelet  message of b
"
    );
    assert_eq!(place.shown(&["describe", "pod/web-0", "-n", "blue"]), "Events:  <none>\n");
    assert_eq!(place.shown(&["describe", "-n", "blue", "Pod/web-1"]).lines().count(), 4);
}

/// A child process, which is killed if the test fails before the process has ended.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A program whose output is read line by line while the program is running.
struct Watching {
    child: Running,
    stdout: BufReader<ChildStdout>,
}

impl Watching {
    fn start(place: &Place, args: &[&str]) -> Self {
        let mut child = eventcast(&["events", "--store"])
            .arg(&place.store)
            .args(["watch", "--interval", "1ms"])
            .args(args)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let stdout = BufReader::new(child.stdout.take().unwrap());
        Self { child: Running(child), stdout }
    }

    /// Waits for the next line. If the program does not print a line, the test hangs until the test
    /// runner kills it.
    fn line(&mut self) -> String {
        let mut line = String::new();
        self.stdout.read_line(&mut line).unwrap();
        assert!(line.ends_with('\n'), "it has ended: {line:?}");
        line.pop();
        line
    }

    #[cfg(unix)]
    fn signal(&self, signal: rustix::process::Signal) {
        rustix::process::kill_process(rustix::process::Pid::from_child(&self.child.0), signal).unwrap();
    }

    fn end(mut self) -> (Option<i32>, String) {
        let rest = self.stdout.lines().map(Result::unwrap).collect::<Vec<_>>();
        assert_eq!(rest, [""; 0]);
        let mut stderr = String::new();
        std::io::Read::read_to_string(&mut self.child.0.stderr.take().unwrap(), &mut stderr).unwrap();
        (self.child.0.wait().unwrap().code(), stderr)
    }
}

#[cfg(unix)]
#[test]
fn watch_follows_until_it_is_stopped() {
    use rustix::process::Signal;
    for signal in [Signal::INT, Signal::TERM] {
        let place = filled();
        let mut watching = Watching::start(&place, &["--for", "pod/web-0", "--limit", "1"]);
        assert!(watching.line().ends_with("Z  Warning  BackOff  pod/web-0  message of b"));
        let sink = place.sink();
        sink.create(&event("other", "web-1", "Normal", "Started")).unwrap();
        let stored = sink.create(&event("d", "web-0", "Normal", "Killing")).unwrap();
        assert_eq!(watching.line(), "<unknown>             Normal   Killing  pod/web-0  message of d");
        let mut again = stored;
        again.count = 2;
        again.last_timestamp = Some("2026-01-02T03:04:05Z".parse().unwrap());
        sink.patch(&again).unwrap();
        assert_eq!(watching.line(), "2026-01-02T03:04:05Z  Normal   Killing  pod/web-0  message of d (x2)");
        watching.signal(signal);
        assert_eq!(watching.end(), (Some(0), String::new()));
    }
}

/// Starts a watch for a test that does not read the watch's output. The watch blocks in the middle
/// of its first line, because the line is too long for a pipe.
#[cfg(unix)]
fn in_a_long_line(place: &Place) -> Watching {
    let mut long = event("long", "web-0", "Normal", "Started");
    long.message = "x".repeat(4 << 20).into();
    let sink = place.sink();
    sink.create(&long).unwrap();
    sink.create(&event("after", "web-0", "Normal", "Started")).unwrap();
    let mut watching = Watching::start(place, &[]);
    assert!(!watching.stdout.fill_buf().unwrap().is_empty());
    watching
}

#[cfg(unix)]
#[test]
fn watch_ends_after_the_line_that_it_writes_at_a_signal() {
    let place = Place::new();
    let mut watching = in_a_long_line(&place);
    watching.signal(rustix::process::Signal::INT);
    assert!(watching.line().len() > 4 << 20);
    assert_eq!(watching.end(), (Some(0), String::new()));
}

/// Nothing reads the output, so the write never returns. The test uses two different signals,
/// because the system may merge two identical signals.
#[cfg(unix)]
#[test]
fn a_second_signal_ends_a_watch_without_a_reader() {
    use rustix::process::Signal;
    use std::os::unix::process::ExitStatusExt as _;
    let place = Place::new();
    let mut watching = in_a_long_line(&place);
    watching.signal(Signal::INT);
    watching.signal(Signal::TERM);
    let status = watching.child.0.wait().unwrap();
    assert!(matches!(status.signal(), Some(2 | 15)), "{status:?}");
}

#[cfg(unix)]
#[test]
fn watch_goes_over_to_the_file_that_takes_the_place() {
    let place = filled();
    let mut watching = Watching::start(&place, &["--limit", "1"]);
    watching.line();
    for file in ["events.db-shm", "events.db-wal", "events.db"] {
        fs::remove_file(place.folder.path().join(file)).unwrap();
    }
    place.sink().create(&event("new", "web-9", "Normal", "Started")).unwrap();
    let line = watching.line();
    assert!(line.contains("pod/web-9"), "{line}");
    watching.signal(rustix::process::Signal::INT);
    let (code, stderr) = watching.end();
    assert_eq!(
        (code, stderr.as_str()),
        (Some(0), "eventcast: the store was replaced by another file, restarting the watch\n")
    );
}

#[cfg(unix)]
#[test]
fn watch_writes_json_lines_and_ends_without_a_reader() {
    let place = filled();
    let mut watching = Watching::start(&place, &["-o", "json", "--reason", "Started"]);
    for name in ["a", "c"] {
        assert_eq!(Event::from_json(&watching.line()).unwrap().metadata.name, name);
    }
    let Watching { mut child, stdout } = watching;
    drop(stdout);
    // Nothing more is written to the store. When the program's stderr is closed, the program has
    // ended.
    let mut stderr = child.0.stderr.take().unwrap();
    let (ended, end) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let mut text = String::new();
        std::io::Read::read_to_string(&mut stderr, &mut text).unwrap();
        ended.send(text)
    });
    let told = end.recv_timeout(Duration::from_secs(60)).expect("it ends by itself");
    assert_eq!((told.as_str(), child.0.wait().unwrap().code()), ("", Some(0)));
}

#[test]
fn a_closed_output_of_events_is_no_failure() {
    let place = filled();
    let sink = place.sink();
    let more = |number| SinkOp::Create(event(&format!("more-{number}"), "web-0", "Normal", "Started"));
    assert!(SinkBatch::perform((0..2000).map(more).collect(), &sink).iter().all(Result::is_ok));
    for form in ["table", "json"] {
        let mut child = eventcast(&["events", "get", "-o", form, "--store"])
            .arg(&place.store)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        drop(child.stdout.take());
        let output = child.wait_with_output().unwrap();
        assert_eq!((output.status.code(), output.stderr), (Some(0), Vec::new()));
    }
}

#[test]
fn hostile_events_do_no_harm_to_the_terminal() {
    let place = Place::new();
    let mut hostile = event("web-0.1", "web-0", "Normal", "Started");
    hostile.message = PAYLOAD.into();
    hostile.reason = PAYLOAD.into();
    hostile.type_ = PAYLOAD.into();
    hostile.involved_object.kind = PAYLOAD.into();
    hostile.source = PAYLOAD.into();
    let sink = place.sink();
    sink.create(&hostile).unwrap();

    let kind = format!("{PAYLOAD}/web-0");
    for (args, lines) in [(&["get"][..], 2), (&["describe", &kind], 4)] {
        let shown = place.shown(args);
        assert_eq!(shown.lines().count(), lines, "{shown}");
        assert_harmless(&shown);
        assert!(shown.contains(r"\u{1b}[2J\u{1b}[1;1H\u{9b}31mpwned\rNormal"), "{shown}");
    }
    let json = place.shown(&["get", "-o", "json"]);
    assert_harmless(&json);
    let list: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(list["items"][0]["message"], PAYLOAD, "the text itself is kept");
    #[cfg(unix)]
    {
        let mut watching = Watching::start(&place, &[]);
        let line = watching.line();
        assert_harmless(&line);
        assert!(line.contains(r"\u{1b}[2J") && line.contains(r"next\nLAST SEEN"), "{line}");
        watching.signal(rustix::process::Signal::INT);
        assert_eq!(watching.end().0, Some(0));
    }
    // The program also escapes its own arguments when it shows them in messages.
    let ended = place.events(&["get", "--output", PAYLOAD]);
    assert_eq!(ended.code, Some(2));
    assert_harmless(&ended.stderr);
    let hostile_path = place.folder.path().join("\u{1b}[2J.db");
    let ended = events_of(&hostile_path, &["get"]);
    assert_eq!(ended.code, Some(1));
    assert_harmless(&ended.stderr);
}

#[test]
fn bad_usage_is_reported_on_stderr_with_status_2() {
    let place = filled();
    for (args, part) in [
        (&[][..], "Usage: eventcast events"),
        (&["list"], "unrecognized subcommand 'list'"),
        (&["get", "more"], "unexpected argument 'more'"),
        (&["describe"], "<KIND/NAME>"),
        (&["describe", "pod"], "the object must be KIND/NAME, such as pod/web-0, got 'pod'"),
        (&["describe", "pod/"], "got 'pod/'"),
        (&["describe", "pod/a", "pod/b"], "unexpected argument 'pod/b'"),
        (&["describe", "pod/a", "--limit", "1"], "unexpected argument '--limit'"),
        (&["get", "--interval", "1s"], "unexpected argument '--interval'"),
        (&["watch", "--interval", "0s"], "--interval must be more than 0s, got '0s'"),
        (&["get", "--nonsense"], "unexpected argument '--nonsense'"),
        (&["describe", "pod/a/b"], "the object must be KIND/NAME, such as pod/web-0, got 'pod/a/b'"),
        (&["get", "--for", "/web-0"], "--for must be KIND[/NAME], such as pod or pod/web-0, got '/web-0'"),
        (&["get", "--for", "pod/"], "got 'pod/'"),
        (&["get", "--for", "pod/a/b"], "--for must be KIND[/NAME], such as pod or pod/web-0, got 'pod/a/b'"),
        (&["get", "--for", ""], "a value is required for '--for <KIND[/NAME]>'"),
        (&["watch", "--for="], "a value is required for '--for <KIND[/NAME]>'"),
        (&["get", "--for"], "a value is required for '--for <KIND[/NAME]>'"),
        (&["get", "-n", ""], "a value is required for '--namespace <NAMESPACE>'"),
        (&["get", "--types", "Normal,Warning"], "--types must be one type, got 'Normal,Warning'"),
        (
            &["get", "--since", "yesterday"],
            "--since must be a duration such as 250ms or 1m30s, got 'yesterday'",
        ),
        (&["get", "--limit", "-1"], "--limit must be a number from 0 to 16777216, got '-1'"),
        (
            &["get", "-o", "yaml"],
            "invalid value 'yaml' for '--output <FORMAT>'\n  [possible values: table, json]",
        ),
        (&["get", "--store"], "a value is required for '--store <FILE>'"),
        (&["get", "--store", ""], "--store requires a file"),
    ] {
        let ended = place.events(args);
        assert_eq!((ended.code, &*ended.stdout), (Some(2), ""), "{args:?}");
        assert!(ended.stderr.contains(part), "{args:?}: {}", ended.stderr);
        assert!(ended.stderr.contains("--help"), "{}", ended.stderr);
    }
}

#[test]
fn an_unreadable_store_is_reported_with_status_1() {
    let place = filled();
    let other = place.folder.path().join("notes.txt");
    fs::write(&other, "not a database, but long enough to be taken for one if nobody looks ".repeat(20))
        .unwrap();
    let before = fs::read(&other).unwrap();
    let missing = place.folder.path().join("missing.db");
    for command in [&["get"][..], &["watch"], &["describe", "pod/web-0"]] {
        for path in [&*missing, &*other, place.folder.path()] {
            let ended = events_of(path, command);
            assert_eq!((ended.code, &*ended.stdout), (Some(1), ""), "{path:?}");
            assert!(ended.stderr.starts_with("eventcast: "), "{}", ended.stderr);
            assert!(ended.stderr.contains(path.to_str().unwrap()), "{}", ended.stderr);
            assert_eq!(ended.stderr.lines().count(), 1, "{}", ended.stderr);
        }
    }
    let ended = events_of(&missing, &["get"]);
    let expected = "missing.db: the file does not exist; set the path of a store with --store, or create a store \
                    with `eventcast supervise --store`\n";
    assert!(ended.stderr.ends_with(expected), "{}", ended.stderr);
    assert!(!missing.exists(), "reading makes no file");
    assert_eq!(fs::read(&other).unwrap(), before);
}
