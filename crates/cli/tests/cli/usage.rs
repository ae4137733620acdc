//! Tests of invalid usage, and of output that nothing reads, for the program as a whole.

use std::fs::File;
use std::process::Stdio;

use crate::support::output::{assert_harmless, ended, eventcast, is_built, run, run_with};

/// Text that contains a forged line and escape sequences that a terminal would interpret.
const PAYLOAD: &str = "x\u{1b}[2J\u{9b}31m\r\u{202e}\u{200b}\nerror: forged";

#[test]
fn hostile_arguments_are_shown_escaped() {
    let option = format!("--{PAYLOAD}");
    for args in [
        &[PAYLOAD][..],
        &["supervise", &option],
        &["supervise", "--for", PAYLOAD, "true"],
        &["supervise", "--color", PAYLOAD, "true"],
        &["supervise", "--json=\u{1b}", "true"],
        &["supervise", &format!("'{PAYLOAD}")],
        &["events", PAYLOAD],
        &["events", "get", "--limit", PAYLOAD],
        &["events", "get", "--for", &format!("{PAYLOAD}/")],
        &["events", "get", "--types", &format!("{PAYLOAD},")],
        &["top", "--slow", PAYLOAD, "-"],
        &["completions", PAYLOAD],
        &["man", PAYLOAD],
    ]
    .into_iter()
    .filter(|args| is_built(args))
    {
        let ended = run(args);
        assert_eq!((ended.code, &*ended.stdout), (Some(2), ""), "{args:?}");
        assert_harmless(&ended.stderr);
        assert!(!ended.stderr.contains('\u{200b}'), "{:?}", ended.stderr);
        assert!(ended.stderr.lines().all(|line| line != "error: forged"), "{}", ended.stderr);
        assert!(ended.stderr.contains(r"\u{1b}"), "{args:?}: {}", ended.stderr);
    }
}

/// The parser mistakes a negative number for an option and suggests `--`, which would not help
/// here.
#[test]
fn a_negative_value_is_reported_with_its_option() {
    for (args, option, value) in [
        (&["supervise", "--for", "-1s", "true"][..], "--for", "-1s"),
        (&["events", "get", "--since", "-1h"], "--since", "-1h"),
        (&["events", "watch", "--interval", "-1"], "--interval", "-1"),
        (&["events", "get", "-n", "-1"], "-n", "-1"),
        (&["size", "--for", "-2s"], "--for", "-2s"),
        (&["top", "--slow", "-1s", "-"], "--slow", "-1s"),
        (&["size", "--watchers", "-1\u{1b}"], "--watchers", r"-1\u{1b}"),
    ]
    .into_iter()
    .filter(|(args, ..)| is_built(args))
    {
        let ended = run(args);
        assert_eq!((ended.code, &*ended.stdout), (Some(2), ""), "{args:?}");
        let expected = format!("error: {option} must not begin with '-', got '{value}'\n");
        assert!(ended.stderr.starts_with(&expected), "{args:?}: {}", ended.stderr);
        assert!(!ended.stderr.contains("tip:"), "{args:?}: {}", ended.stderr);
    }
    // In these commands, the number is not the value of any option.
    for args in [&["events", "get", "-1"][..], &["supervise", "-1"], &["size", "--json", "-1"]]
        .into_iter()
        .filter(|args| is_built(args))
    {
        let ended = run(args);
        assert!(ended.stderr.starts_with("error: unexpected argument '-1' found"), "{}", ended.stderr);
    }
}

/// The parser wraps all other parts of the help to fit the terminal's width.
#[test]
fn the_help_after_the_options_fits_into_80_columns() {
    for command in [
        &[][..],
        &["events"],
        &["events", "get"],
        &["events", "describe"],
        &["events", "watch"],
        &["supervise"],
        &["replay"],
        &["correlate"],
        &["size"],
        &["publish"],
        &["watch"],
        &["top"],
        &["completions"],
        &["man"],
    ] {
        for help in ["-h", "--help"] {
            let ended = run(&[command, &[help]].concat());
            let lines: Vec<&str> = ended.stdout.lines().collect();
            let option = lines.iter().rposition(|line| line.trim_start().starts_with('-')).expect("options");
            let is_of_option = |line: &&&str| line.is_empty() || line.starts_with("          ");
            for line in lines[option + 1..].iter().skip_while(is_of_option) {
                assert!(line.chars().count() <= 80, "{command:?} {help}: {line}");
            }
        }
    }
}

#[test]
fn without_arguments_it_lists_the_commands() {
    let ended = run(&[]);
    assert_eq!((ended.code, &*ended.stdout), (Some(2), ""));
    for command in [
        "supervise",
        "events",
        "replay",
        "correlate",
        "size",
        "publish",
        "watch",
        "top",
        "completions",
        "man",
    ] {
        assert!(ended.stderr.contains(&format!("\n  {command} ")), "{}", ended.stderr);
    }
    let ended = run(&["supervize"]);
    assert_eq!(ended.code, Some(2));
    let suggests = ended.stderr.contains("a similar subcommand exists: 'supervise'");
    // If the feature is disabled, there may still be suggestions, because a dependency of the tests
    // can enable them.
    assert!(suggests || cfg!(not(feature = "help")), "{}", ended.stderr);
}

#[cfg(unix)]
#[test]
fn an_argument_that_is_not_utf8_is_refused() {
    use std::os::unix::ffi::OsStrExt as _;
    for args in [&["supervise"][..], &["events", "get", "--reason"]] {
        let mut command = eventcast(args);
        command.arg(std::ffi::OsStr::from_bytes(b"a\xff"));
        let ended = ended(command, b"");
        assert_eq!((ended.code, &*ended.stdout), (Some(2), ""));
        assert!(ended.stderr.contains("invalid UTF-8"), "{}", ended.stderr);
    }
}

/// Commands that exit on their own, and the input that each of them needs.
fn writers() -> impl Iterator<Item = (&'static [&'static str], &'static str)> {
    let vector = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/vectors/repeat.jsonl");
    let events = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/cases/01_states_of_one_event.jsonl");
    #[cfg(feature = "top")]
    let statistics = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/cli/top/statistics.jsonl");
    [
        (&["--help"][..], "/dev/null"),
        (&["man"], "/dev/null"),
        (&["completions", "bash"], "/dev/null"),
        (&["supervise", "--for", "1ms", "true"], "/dev/null"),
        (&["correlate"], vector),
        (&["replay"], events),
        (&["replay", "--json"], events),
        (&["replay", "--sweep=burst=1..2"], events),
        (&["replay", "--sweep=burst=1..2", "--json"], events),
        (&["size", "--queue=10", "--burst=10", "--for=1ms", "--handler=1us"], "/dev/null"),
        #[cfg(feature = "top")]
        (&["top", "-"], statistics),
    ]
    .into_iter()
    .filter(|(args, _)| is_built(args))
}

/// Runs a command to completion with the given stdout. Returns its exit code and its stderr.
#[cfg(unix)]
fn written_to(stdout: impl Into<Stdio>, args: &[&str], input: &str) -> (Option<i32>, String) {
    let input = File::open(input).unwrap();
    let output = eventcast(args).stdin(input).stdout(stdout).output().unwrap();
    (output.status.code(), String::from_utf8(output.stderr).unwrap())
}

#[cfg(unix)]
#[test]
fn a_closed_output_is_not_a_failure() {
    for (args, input) in writers() {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let (code, stderr) = written_to(writer, args, input);
        assert_eq!(code, Some(0), "{args:?}: {stderr}");
        match args[0] {
            // `supervise` writes its log to stderr.
            "supervise" => {
                assert!(!stderr.contains("panicked") && !stderr.contains("Broken pipe"), "{stderr}");
            }
            "size" => assert_eq!(stderr, "publishing, press Ctrl-C to stop early\n"),
            _ => assert_eq!(stderr, "", "{args:?}"),
        }
    }
}

#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_is_reported_with_status_1() {
    for (args, input) in writers() {
        let full = File::options().write(true).open("/dev/full").unwrap();
        let (code, stderr) = written_to(full, args, input);
        assert_eq!(code, Some(1), "{args:?}: {stderr}");
        assert!(stderr.contains("eventcast: cannot write to stdout: No space left"), "{args:?}: {stderr}");
    }
}

#[test]
fn a_drawing_that_cannot_be_written_is_named() {
    for args in [&["replay", "--sweep=burst=1..2"][..], &["size", "--sweep=queue=1..2"]] {
        for (file, shown) in [
            ("/no/such/\u{1b}/x.svg", r"/no/such/\u{1b}/x.svg"),
            #[cfg(target_os = "linux")]
            ("/dev/full", "/dev/full"),
        ] {
            let args = [args, &["-o", file]].concat();
            // `size` opens the file before its first run and writes to the file only after its last
            // run, which would take too long here.
            if !is_built(&args) || (args[0], file) == ("size", "/dev/full") {
                continue;
            }
            let events = include_bytes!("../cases/01_states_of_one_event.jsonl");
            let ended = run_with(&args, events);
            assert_eq!((ended.code, &*ended.stdout), (Some(1), ""), "{args:?}");
            let expected = format!("eventcast: cannot write '{shown}': ");
            assert!(ended.stderr.starts_with(&expected), "{args:?}: {}", ended.stderr);
        }
    }
}

/// If the feature of a command or an option is disabled, the error message names the feature, and
/// the command that installs a build with this feature.
#[test]
fn what_a_build_lacks_needs_its_feature() {
    let missing = |args: &[&str], what: &str, feature: &str| {
        let ended = run(args);
        assert_eq!((ended.code, &*ended.stdout), (Some(2), ""), "{args:?}");
        let expected = format!(
            "error: {what} requires the `{feature}` feature, which this build does not include: run `cargo \
             install --path crates/cli --features {feature}"
        );
        assert!(ended.stderr.starts_with(&expected), "{}", ended.stderr);
    };
    if !cfg!(feature = "sqlite-system") {
        missing(&["supervise", "--store", "events.db", "true"], "--store", "sqlite");
        for request in [&["get"][..], &["describe", "pod/web-0"], &["watch"]] {
            missing(&[&["events"], request].concat(), "eventcast events", "sqlite");
        }
    }
    if !cfg!(feature = "nats") {
        for command in ["publish", "watch"] {
            let args = [command, "--nats", "nats://127.0.0.1:1"];
            missing(&args, &format!("eventcast {command}"), "nats");
        }
    }
    if !cfg!(feature = "top") {
        missing(&["top", "-"], "eventcast top", "top");
    }
    for args in
        [&["replay", "-"][..], &["replay", "--no-spam-filter", "events.json"], &["size", "--for", "1s"]]
    {
        if !cfg!(feature = "analysis") {
            missing(args, &format!("eventcast {}", args[0]), "analysis");
        }
    }
    for args in [&["completions", "bash"][..], &["man"], &["man", "--output", "."], &["man", "events", "get"]]
    {
        if !cfg!(feature = "help") {
            missing(args, &format!("eventcast {}", args[0]), "help");
        }
    }
}

#[test]
fn the_help_of_a_command_that_a_build_lacks_names_the_feature() {
    for (command, feature, is_on) in [
        ("replay", "analysis", cfg!(feature = "analysis")),
        ("size", "analysis", cfg!(feature = "analysis")),
        ("completions", "help", cfg!(feature = "help")),
        ("man", "help", cfg!(feature = "help")),
        ("publish", "nats", cfg!(feature = "nats")),
        ("watch", "nats", cfg!(feature = "nats")),
        ("top", "top", cfg!(feature = "top")),
    ] {
        let ended = run(&[command, "--help"]);
        assert_eq!(ended.code, Some(0), "{command}");
        let lacks =
            ended.stdout.starts_with(&format!("This build does not include the `{feature}` feature."));
        assert_eq!(lacks, !is_on, "{}", ended.stdout);
    }
}
