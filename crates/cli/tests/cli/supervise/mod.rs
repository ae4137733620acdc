//! Tests of the `supervise` command. The tests start the program, watch its output and send it
//! signals. The program must not leave any process running.
#![cfg(unix)]

mod environment;
mod restarts;
#[cfg(feature = "sqlite-system")]
mod store;

use rustix::process::{Pid, Signal, kill_process};

use crate::support::running::{Ended, Running, is_gone};

fn start(args: &[&str]) -> Running {
    Running::start(&[&["supervise"], args].concat())
}

/// Waits for the line `ready NUMBER`, which the commands in these tests write, and returns the
/// number in this line.
fn ready(program: &mut Running) -> Pid {
    let line = program.wait_for(|line| line.starts_with("ready "));
    Pid::from_raw(line["ready ".len()..].parse().expect("a number")).expect("a process")
}

const READY: &str = "echo ready $$; exec sleep 1000";
/// A command that ignores TERM and starts another command that also ignores TERM.
const STUBBORN: &str = "trap '' TERM; sleep 1000 & echo ready $$; while :; do wait; done";

#[test]
fn each_signal_stops_it_in_order() {
    for signal in [Signal::INT, Signal::TERM, Signal::HUP, Signal::QUIT] {
        let mut program = start(&["--shell", "--grace", "1h", READY, READY]);
        let pids = [ready(&mut program), ready(&mut program)];
        program.signal(signal);
        let ended = program.end();
        assert_eq!(ended.code, Some(0), "{signal:?}: {:#?}", ended.stderr);
        assert!(pids.into_iter().all(is_gone), "{signal:?}");
    }
}

#[test]
fn a_command_that_ignores_term_is_killed() {
    let mut program = start(&["--shell", "--grace", "10ms", STUBBORN]);
    let pid = ready(&mut program);
    program.stop();
    assert!(is_gone(pid));
}

#[test]
fn a_second_signal_does_not_wait_for_the_grace_time() {
    // If a signal immediately followed the first signal, it would count as part of the same
    // request.
    let told = "trap 'sleep 0.3; echo told >&2' TERM; echo ready $$; while :; do sleep 1000 & wait; done";
    let mut program = start(&["--shell", "--grace", "1h", told]);
    ready(&mut program);
    program.signal(Signal::INT);
    program.wait_for(|line| line == "told");
    program.signal(Signal::INT);
    assert_eq!(program.end().code, Some(0));
}

#[test]
fn a_stopped_command_ends_too() {
    let mut program = start(&["--shell", "--grace", "1h", READY]);
    let pid = ready(&mut program);
    kill_process(pid, Signal::STOP).expect("it runs");
    program.stop();
}

#[test]
fn leftover_processes_end_with_their_command() {
    let mut program = start(&["--shell", "--for", "1h", "sleep 1000 & echo ready $$"]);
    ready(&mut program);
    ready(&mut program);
    program.stop();
}

/// A command that starts a process with its own session and without a parent, so that signals to a
/// process group do not reach this process.
#[cfg(target_os = "linux")]
const ESCAPING: &str = "(setsid sh -c 'echo ready $$; exec sleep 1000' &) ; exec sleep 1000";

#[cfg(target_os = "linux")]
#[test]
fn a_command_that_leaves_its_group_ends_too() {
    // The parent of the second command's process is still alive, so the process becomes an orphan
    // only when the parent is killed.
    for escaping in [ESCAPING, "setsid sh -c 'echo ready $$; exec sleep 1000' & wait"] {
        let mut program = start(&["--shell", escaping]);
        let pid = ready(&mut program);
        program.stop();
        assert!(is_gone(pid));
    }
    let mut program = start(&["--shell", "--panic-after", "1s", ESCAPING]);
    let pid = ready(&mut program);
    assert_eq!(program.end().code, Some(101));
    assert!(is_gone(pid));
}

#[cfg(target_os = "linux")]
#[test]
fn adopted_processes_that_ended_are_reaped() {
    let mut program = start(&["--shell", "(setsid sh -c 'echo ready $$' &) ; exec sleep 1000"]);
    let pid = ready(&mut program);
    let start = std::time::Instant::now();
    while !is_gone(pid) {
        assert!(start.elapsed().as_secs() < 60, "it is still a zombie");
        std::thread::yield_now();
    }
    program.stop();
}

#[test]
fn a_panic_leaves_no_process_running() {
    let args = ["--shell", "--panic-after", "200ms", READY, STUBBORN];
    let ended = start(&args).end();
    assert_eq!(ended.code, Some(101), "{:#?}", ended.stderr);
    assert!(ended.stderr.iter().any(|line| line.contains("--panic-after asked for this")));
}

#[test]
fn it_ends_after_the_given_time() {
    let ended = start(&["--for", "200ms", "sleep 1000", "false"]).end();
    assert_eq!(ended.code, Some(0), "{:#?}", ended.stderr);
}

#[test]
fn bad_usage_is_reported_on_stderr_with_status_2() {
    for (args, part) in [
        (&["--nonsense"][..], "unexpected argument '--nonsense' found"),
        (&["--for", "soon", "true"][..], "--for must be a duration such as 250ms or 1m30s, got 'soon'"),
        (
            &["--keep", "30", "true"],
            "--keep must be a duration of more than 0s, such as 12h or 30d, got '30'",
        ),
        (&["--env", "PORT", "true"], "--env must be NAME=VALUE, such as PORT=8080, got 'PORT'"),
        (&["--env", "=80", "true"], "--env must be NAME=VALUE, such as PORT=8080, got '=80'"),
        (&["--chdir", "", "true"], "--chdir requires a directory"),
        (
            &["--chdir", "/no/\u{1b}where", "true"],
            r"--chdir must be a directory, got '/no/\u{1b}where': No such file or directory",
        ),
        (&["--chdir", "/dev/null", "true"], "--chdir must be a directory, got '/dev/null': Not a directory"),
        (&["--max-restarts", "-1", "true"], "--max-restarts must be a number from 0 to 1000000, got '-1'"),
        (
            &["--max-restarts", "1", "--reset-after", "0s", "true"],
            "--reset-after must be more than 0s with --max-restarts, got '0s'",
        ),
        (&["echo 'open"][..], "an unclosed quote"),
    ] {
        let ended = start(&[&["--for", "1m"], args].concat()).end();
        assert_eq!((ended.code, ended.stdout.as_str()), (Some(2), ""), "{args:?}");
        assert!(ended.stderr[0].contains(part), "{:?}", ended.stderr);
        assert!(ended.stderr.last().unwrap().contains("--help"), "{:?}", ended.stderr);
    }
}

/// The lines after the options must also fit into a terminal with 80 columns.
#[cfg(feature = "help")]
#[test]
fn the_help_fits_80_columns() {
    use crate::support::output::{ended, eventcast};
    let help = |columns| {
        let mut command = eventcast(&["supervise", "--help"]);
        command.env("COLUMNS", columns);
        ended(command, b"").stdout
    };
    let (narrow, wide) = (help("80"), help("100"));
    assert_eq!(narrow.lines().find(|line| line.chars().count() > 80), None);
    let notes = |help: &str| help[help.find("\nA DURATION").expect("the notes")..].to_owned();
    assert_eq!(notes(&narrow), notes(&wide));
}

/// Checks that the figures in the accounting add up. Returns a function that returns the figure
/// after a given word.
fn accounting(line: &str) -> impl Fn(&str) -> u64 {
    let words: Vec<String> =
        line.split([' ', ';', ':']).filter(|word| !word.is_empty()).map(str::to_owned).collect();
    let figure = move |name: &str| {
        let at =
            words.iter().position(|word| word == name).unwrap_or_else(|| panic!("no {name} in {words:?}"));
        words[at + 1].parse::<u64>().unwrap_or_else(|_| panic!("no figure for {name} in {words:?}"))
    };
    assert_eq!(figure("published"), figure("accepted") + figure("rejected"), "{line}");
    assert_eq!(figure("accepted"), figure("delivered") + figure("dropped"), "{line}");
    assert_eq!(figure("delivered"), figure("stored") + figure("counted"), "{line}");
    figure
}

impl Ended {
    /// Returns the table row that contains both strings.
    fn row(&self, object: &str, rest: &str) -> &str {
        let has = |line: &&str| line.contains(&format!(" {object} ")) && line.contains(rest);
        self.stdout
            .lines()
            .find(has)
            .unwrap_or_else(|| panic!("no row with {object} and {rest} in\n{}", self.stdout))
    }

    /// Returns the number of log lines that contain all of the given parts.
    fn logged(&self, parts: &[&str]) -> u64 {
        let is_logged = |line: &&String| {
            line.split_once("  ").is_some_and(|(at, _)| at.parse::<eventcast::Timestamp>().is_ok())
        };
        let lines = self.stderr.iter().filter(is_logged);
        lines.filter(|line| parts.iter().all(|part| line.contains(part))).count() as u64
    }
}

#[test]
fn repeats_are_counted_and_the_books_balance() {
    let mut program = start(&["--backoff", "20ms", "false", "true", "sleep 1000"]);
    for _ in 0..4 {
        program.wait_for(|line| line.contains("Z  Warning  BackOff  process/false  "));
    }
    let ended = program.stop();

    let head: Vec<&str> =
        ended.stdout.lines().next().unwrap().split("  ").filter(|c| !c.is_empty()).collect();
    assert_eq!(
        head.iter().map(|c| c.trim()).collect::<Vec<_>>(),
        ["LAST SEEN", "TYPE", "REASON", "OBJECT", "MESSAGE"]
    );
    for (object, reason, message) in [
        ("false", "Failed", "ended with exit code 1"),
        ("false", "BackOff", "waiting before the next start"),
        ("false", "Started", "started"),
        ("true", "Exited", "ended with exit code 0"),
    ] {
        let times =
            ended.logged(&[&format!("  {reason} "), &format!(" process/{object} "), &format!("  {message}")]);
        let row = ended.row(&format!("process/{object}"), message);
        assert!(times >= 4 || object == "true", "{times}: {row}");
        assert_eq!(row.contains(&format!(" (x{times} over ")), times > 1, "{times}: {row}");
        assert!(row.contains(reason), "{row}");
    }
    assert!(ended.row("process/sleep", "stopped with its supervisor").contains("Normal"));
    assert!(!ended.row("process/sleep", "supervising sleep").contains("(x"), "counted though it came once");

    let line = ended.stdout.lines().last().unwrap();
    let figure = accounting(line.strip_prefix("accounting: ").expect("the last line"));
    assert_eq!(figure("published"), ended.logged(&[]));
    assert_eq!(figure("rejected") + figure("dropped"), 0);
    assert_eq!(figure("stored"), ended.stdout.lines().count() as u64 - 3, "{}", ended.stdout);
}

#[test]
fn json_is_a_list_of_events_and_nothing_else() {
    let mut program = start(&["--json", "--show-args", "echo hello world"]);
    program.wait_for(|line| line.contains("Z  Normal   BackOff  "));
    let ended = program.stop();
    let list: serde_json::Value = serde_json::from_str(&ended.stdout).expect("JSON");
    assert_eq!((&list["kind"], &list["apiVersion"]), (&"EventList".into(), &"v1".into()));
    let items = list["items"].as_array().expect("items");
    let created = items.iter().find(|event| event["reason"] == "Created").expect("a Created");
    assert_eq!(created["message"], "supervising echo hello world");
    assert_eq!(created["involvedObject"]["kind"], "Process");
    assert_eq!(created["involvedObject"]["name"], "echo");
    assert_eq!(created["source"]["component"], "supervise");
    let started = items.iter().find(|event| event["reason"] == "Started").expect("a Started");
    assert!(started["metadata"]["annotations"]["supervise/pid"].is_string(), "{started}");
    for item in items {
        eventcast::Event::from_json(&item.to_string()).expect("an event");
    }
    let line = ended.stderr.last().expect("the accounting");
    let figure = accounting(line.strip_prefix("accounting: ").expect("the last line"));
    assert_eq!(figure("stored"), items.len() as u64);
}

#[test]
fn a_command_that_cannot_be_started_is_a_warning() {
    let mut program = start(&["/nowhere/to/be/found", "sleep 1000"]);
    program.wait_for(|line| line.contains("Z  Warning  BackOff  process/found  "));
    let ended = program.stop();
    assert!(ended.row("process/found", "cannot be started: No such file").contains("Warning"));
}

#[test]
fn arguments_stay_private() {
    let mut program = start(&["sh -c 'exit 3' hunter2"]);
    program.wait_for(|line| line.contains("Z  Warning  BackOff  "));
    let ended = program.stop();
    ended.row("process/sh", "ended with exit code 3");
    assert!(!ended.stdout.contains("hunter2") && ended.stderr.iter().all(|line| !line.contains("hunter2")));
}

#[test]
fn names_from_outside_do_no_harm_to_the_terminal() {
    let mut program = start(&["/no/\u{1b}[2Jev\u{202e}il", "/no/\u{8d77}\u{52d5}", "/no/plain"]);
    program.wait_for(|line| line.contains("Z  Warning  BackOff  process/plain  "));
    let ended = program.stop();
    let shown = ended.stdout.clone() + &ended.stderr.concat();
    assert!(!shown.contains(['\u{1b}', '\u{202e}']), "{shown:?}");
    ended.row("process/__2Jev_il", "supervising /no/");
    let column = |row: &str| {
        let before = row.split("supervising").next().expect("what is before it");
        before.chars().map(|c| if c > '\u{2e80}' { 2 } else { 1 }).sum::<usize>()
    };
    let wide = column(ended.row("process/\u{8d77}\u{52d5}", "supervising"));
    assert_eq!(wide, column(ended.row("process/plain", "supervising")), "{}", ended.stdout);
}

/// Tests CVE-2021-25743 with a command that has the payload in its name, in its arguments, and in
/// the system error.
#[test]
fn a_hostile_command_does_no_harm_to_the_terminal() {
    let payload =
        "/no/\u{1b}[2J\u{1b}[1;1H\u{9b}31mpwned\rNormal\u{8}\u{7f}\u{202e}txet\u{2028}next\nLAST SEEN";
    let command = format!("'{payload}' '{payload}'");
    for form in [&["--show-args"][..], &["--show-args", "--json"]] {
        let mut program = start(&[form, &[command.as_str()]].concat());
        program.wait_for(|line| line.contains("Z  Warning  BackOff  "));
        let ended = program.stop();
        let shown = ended.stdout.clone() + &ended.stderr.concat();
        let is_bad = |c: char| (c.is_control() && c != '\n') || ('\u{2028}'..='\u{202e}').contains(&c);
        assert!(!shown.contains(is_bad), "{shown:?}");
        let forged = ended.stdout.lines().chain(ended.stderr.iter().map(String::as_str));
        assert_eq!(
            forged.filter(|line| line.starts_with("LAST SEEN\"") || line.starts_with("LAST SEEN'")).count(),
            0
        );
        assert_eq!(ended.logged(&[r"pwned\rNormal"]), 1, "{:#?}", ended.stderr);
        if form.len() == 2 {
            let list: serde_json::Value = serde_json::from_str(&ended.stdout).expect("JSON");
            assert!(
                list["items"][0]["message"].as_str().unwrap().contains(payload),
                "the text itself is kept"
            );
        }
    }
}

#[test]
fn an_event_expires_in_memory_too() {
    let ended =
        start(&["--keep", "1us", "--for", "100ms", "--backoff", "1h", "--backoff-max", "1h", "false"]).end();
    assert_eq!(ended.code, Some(0), "{:#?}", ended.stderr);
    let stored = accounting(ended.stdout.lines().last().unwrap())("stored");
    let head = format!("no events: {stored} events have expired\n\naccounting: ");
    assert!(ended.stdout.starts_with(&head), "{}", ended.stdout);
}

#[test]
fn quiet_and_no_output_leave_the_accounting_alone() {
    let ended = start(&["--quiet", "--no-output", "--for", "100ms", "echo hello"]).end();
    assert_eq!((ended.code, ended.stderr), (Some(0), Vec::new()));
    let line = ended.stdout.lines().last().unwrap();
    assert!(accounting(line)("published") > 0);
}
