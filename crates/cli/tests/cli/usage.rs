//! Bad usage and output that nobody reads, of the program as a whole.

use std::process::Stdio;

use crate::support::output::{assert_harmless, ended, eventcast, run};

/// A text that a terminal would obey, and that forges a line.
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
        &["completions", PAYLOAD],
        &["man", PAYLOAD],
    ] {
        let ended = run(args);
        assert_eq!((ended.code, &*ended.stdout), (Some(2), ""), "{args:?}");
        assert_harmless(&ended.stderr);
        assert!(!ended.stderr.contains('\u{200b}'), "{:?}", ended.stderr);
        assert!(ended.stderr.lines().all(|line| line != "error: forged"), "{}", ended.stderr);
        assert!(ended.stderr.contains(r"\u{1b}"), "{args:?}: {}", ended.stderr);
    }
}

/// The parser takes a negative number for an option, and suggests `--`, which does not help here.
#[test]
fn a_negative_value_is_reported_with_its_option() {
    for (args, option, value) in [
        (&["supervise", "--for", "-1s", "true"][..], "--for", "-1s"),
        (&["events", "get", "--since", "-1h"], "--since", "-1h"),
        (&["events", "watch", "--interval", "-1"], "--interval", "-1"),
        (&["events", "get", "-n", "-1"], "-n", "-1"),
        (&["size", "--for", "-2s"], "--for", "-2s"),
        (&["size", "--watchers", "-1\u{1b}"], "--watchers", r"-1\u{1b}"),
    ] {
        let ended = run(args);
        assert_eq!((ended.code, &*ended.stdout), (Some(2), ""), "{args:?}");
        let expected = format!("error: {option} must not begin with '-', got '{value}'\n");
        assert!(ended.stderr.starts_with(&expected), "{args:?}: {}", ended.stderr);
        assert!(!ended.stderr.contains("tip:"), "{args:?}: {}", ended.stderr);
    }
    // Here the number is the value of no option.
    for args in [&["size", "--json", "-1"][..], &["events", "get", "-1"], &["supervise", "-1"]] {
        let ended = run(args);
        assert!(ended.stderr.starts_with("error: unexpected argument '-1' found"), "{}", ended.stderr);
    }
}

/// The parser breaks the other texts to the terminal's width.
#[test]
fn the_texts_after_the_options_fit_into_80_columns() {
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
fn without_arguments_it_says_what_there_is() {
    let ended = run(&[]);
    assert_eq!((ended.code, &*ended.stdout), (Some(2), ""));
    for command in
        ["supervise", "events", "replay", "correlate", "size", "publish", "watch", "completions", "man"]
    {
        assert!(ended.stderr.contains(&format!("\n  {command} ")), "{}", ended.stderr);
    }
    let ended = run(&["supervize"]);
    assert_eq!(ended.code, Some(2));
    assert!(ended.stderr.contains("a similar subcommand exists: 'supervise'"), "{}", ended.stderr);
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

#[test]
fn an_output_that_nobody_reads_is_not_a_failure() {
    for args in [&["--help"][..], &["man"], &["completions", "bash"], &["supervise", "--for", "1ms", "true"]]
    {
        let mut child = eventcast(args)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        drop(child.stdout.take());
        let output = child.wait_with_output().unwrap();
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(0), "{args:?}: {stderr}");
        // The log of `supervise` goes to stderr.
        assert!(args[0] == "supervise" || stderr.is_empty(), "{args:?}: {stderr}");
        assert!(!stderr.contains("panicked") && !stderr.contains("Broken pipe"), "{stderr}");
    }
}

#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_is_told_with_status_1() {
    for args in [&["--help"][..], &["man"], &["completions", "bash"], &["supervise", "--for", "1ms", "true"]]
    {
        let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
        let output = eventcast(args).stdin(Stdio::null()).stdout(full).output().unwrap();
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{args:?}: {stderr}");
        assert!(stderr.contains("eventcast: cannot write to stdout: No space left"), "{stderr}");
    }
}

#[cfg(not(feature = "sqlite-system"))]
#[test]
fn a_store_in_a_file_needs_its_feature() {
    for (args, what) in [
        (&["supervise", "--store", "events.db", "true"][..], "--store"),
        (&["events", "get"], "eventcast events"),
        (&["events", "describe", "pod/web-0"], "eventcast events"),
        (&["events", "watch"], "eventcast events"),
    ] {
        let ended = run(args);
        assert_eq!((ended.code, &*ended.stdout), (Some(2), ""), "{args:?}");
        let expected = format!("error: {what} needs the feature `sqlite`: build ");
        assert!(ended.stderr.starts_with(&expected), "{}", ended.stderr);
        assert!(ended.stderr.contains("--features sqlite"), "{}", ended.stderr);
    }
}
