//! Tests of colours and widths on a terminal and in a pipe.
#![cfg(target_os = "linux")]

use crate::support::output::{eventcast, run};
use crate::support::terminal::{Shown, run_on_terminal};

/// Arguments for a run that ends on its own. One command has a name with 40 characters and cannot
/// be started, and the other command fails.
const ARGS: [&str; 6] =
    ["supervise", "--for", "200ms", "--quiet", "/no/program-whose-name-is-long-enough-for-it", "false"];

fn shown(args: &[&str], variables: &[(&str, &str)], columns: u16) -> Shown {
    let mut command = eventcast(&[&ARGS, args].concat());
    command.env_remove("NO_COLOR").env("TERM", "xterm").envs(variables.iter().copied());
    let shown = run_on_terminal(command, columns);
    assert_eq!((shown.code, &*shown.stderr), (Some(0), ""), "{}", shown.stdout);
    shown
}

/// Returns the lines of the table.
fn table(text: &str) -> Vec<&str> {
    text.lines().take_while(|line| !line.starts_with("accounting: ")).collect()
}

#[test]
fn warnings_and_failures_have_colors_on_a_terminal_alone() {
    let colored = shown(&[], &[], 200).stdout;
    assert!(colored.contains("   \u{1b}[33mWarning\u{1b}[0m   \u{1b}[31mFailed\u{1b}[0m "), "{colored}");
    assert!(colored.contains("   Normal    Created "), "{colored}");
    for (args, variables) in
        [(&[][..], &[("NO_COLOR", "1")][..]), (&[], &[("TERM", "dumb")]), (&["--color", "never"], &[])]
    {
        let plain = shown(args, variables, 200).stdout;
        assert!(!plain.contains('\u{1b}') && plain.contains("   Warning   Failed "), "{plain}");
    }
    let forced = shown(&["--color=always"], &[("NO_COLOR", "1")], 200).stdout;
    assert!(forced.contains("\u{1b}[31mFailed"), "{forced}");

    let piped = run(&ARGS);
    assert!(!piped.stdout.contains('\u{1b}') && piped.stdout.contains("Failed"), "{}", piped.stdout);
    let forced = run(&[&ARGS[..], &["--color", "always"]].concat());
    assert!(forced.stdout.contains("\u{1b}[33mWarning"), "{}", forced.stdout);
}

#[test]
fn the_log_has_the_colors_of_stderr() {
    let args = ["supervise", "--for", "1m", "--max-restarts", "0", "false"];
    let plain = run(&args);
    assert!(plain.stderr.contains("Z  Warning  Failed   process/false  "), "{}", plain.stderr);
    let colored = run(&[&args[..], &["--color", "always"]].concat());
    let expected = "Z  \u{1b}[33mWarning\u{1b}[0m  \u{1b}[31mFailed\u{1b}[0m   process/false  ";
    assert!(colored.stderr.contains(expected), "{}", colored.stderr);
}

#[test]
fn a_table_is_cut_to_the_terminal() {
    let narrow = shown(&["--color", "never"], &[], 60).stdout;
    let lines = table(&narrow);
    assert!(lines.len() > 4, "{narrow}");
    assert!(lines.iter().all(|line| line.chars().count() <= 60), "{narrow}");
    assert!(lines.iter().any(|line| line.chars().count() == 60 && line.ends_with('…')), "{narrow}");
    // The accounting is not truncated, because programs also read it.
    assert!(narrow.lines().last().unwrap().chars().count() > 100, "{narrow}");

    let piped = run(&ARGS).stdout;
    assert!(!piped.contains('…'), "{piped}");
    assert!(piped.contains("cannot be started: No such file or directory (os error 2)"), "{piped}");
}

#[cfg(feature = "sqlite-system")]
#[test]
fn events_look_the_same() {
    use eventcast::{Event, EventSink as _, ObjectReference};
    use eventcast_sqlite::SqliteSink;
    let folder = tempfile::TempDir::new().unwrap();
    let path = folder.path().join("events.db");
    let sink = SqliteSink::open(&path).unwrap();
    let mut event = Event::default();
    event.metadata.name = "web-0.1".into();
    event.involved_object = ObjectReference::new("Pod", "web-0");
    (event.type_, event.reason) = ("Warning".into(), "Failed".into());
    event.message = "a message that is as long as a message of a program can be".into();
    sink.create(&event).unwrap();

    let path = path.to_str().unwrap();
    let on_terminal = |args: &[&str], columns| {
        let mut command = eventcast(&[&["events", "--store", path], args].concat());
        command.env_remove("NO_COLOR").env("TERM", "xterm");
        run_on_terminal(command, columns).stdout
    };
    assert_eq!(
        on_terminal(&["get"], 64),
        "LAST SEEN   TYPE      REASON   OBJECT      MESSAGE\n\
         <unknown>   \u{1b}[33mWarning\u{1b}[0m   \u{1b}[31mFailed\u{1b}[0m   pod/web-0   a message that is as…\n"
    );
    // The other commands do not truncate messages.
    for args in [&["describe", "pod/web-0"][..], &["get", "-o", "json", "--color", "always"]] {
        let whole = on_terminal(args, 64);
        assert!(whole.contains(&*event.message), "{whole}");
        assert_eq!(whole.contains("  \u{1b}[33mWarning\u{1b}[0m  "), args[0] == "describe", "{whole}");
    }
    let piped = run(&["events", "--store", path, "get"]).stdout;
    assert!(piped.contains(&*event.message) && !piped.contains('\u{1b}'), "{piped}");
}
