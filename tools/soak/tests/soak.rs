//! Runs the soak test as a process and checks that a run of a few seconds does not find any
//! violations.

use std::process::{Command, Output};

fn soak(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_eventcast-soak"));
    command.args(args);
    command
}

/// Returns the output of a program on stdout and on stderr.
fn printed(output: Output) -> (String, String) {
    let text = |bytes| String::from_utf8(bytes).expect("UTF-8");
    (text(output.stdout), text(output.stderr))
}

fn figure_before(line: &str, word: &str) -> u64 {
    let (before, _) = line.split_once(word).unwrap_or_else(|| panic!("{word} is not in {line:?}"));
    let text = before.rsplit([' ', '\n']).next().expect("a last word");
    text.parse().unwrap_or_else(|_| panic!("{text:?} is not a number"))
}

#[test]
fn a_few_seconds_of_everything_violate_nothing() {
    let output = soak(&["--for", "4s", "--seed", "7"]).output().expect("the program starts");
    let status = output.status;
    let (stdout, stderr) = printed(output);
    assert!(status.success(), "{stdout}\n{stderr}");
    assert!(stderr.starts_with("soaking, seed 7; "), "{stderr}");
    let lines: Vec<&str> = stdout.lines().collect();
    assert!(lines.iter().filter(|line| line.contains(" s: ")).count() >= 2, "{lines:#?}");
    let last = lines.iter().rfind(|line| line.contains(" s: ")).expect("a line for each second");
    for word in
        [" accepted", " rejected", " received", " visits", " watchers", " panics", " flushes", " stored"]
    {
        assert!(figure_before(last, word) > 0, "{last}");
    }
    assert!(last.ends_with(" 0 violated"), "{last}");
    assert!(lines.iter().any(|line| line.starts_with("resident size: not ")), "{lines:#?}");
    assert_eq!(lines.last(), Some(&"nothing was violated"));
}

#[cfg(unix)]
#[test]
fn it_ends_in_order_at_a_signal() {
    use rustix::process::{Pid, Signal, kill_process};
    use std::io::{BufRead, BufReader};
    use std::process::Stdio;

    let mut child = soak(&["--for", "1h"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program starts");
    let mut stderr = BufReader::new(child.stderr.take().expect("piped")).lines();
    let mut next = || stderr.next().expect("a line").expect("UTF-8");
    assert!(next().starts_with("soaking, seed "));
    kill_process(Pid::from_child(&child), Signal::INT).expect("the program runs");
    assert_eq!(next(), "stopping");
    let output = child.wait_with_output().expect("it can be waited for");
    let status = output.status;
    let (stdout, _) = printed(output);
    assert!(status.success(), "{stdout}");
    assert_eq!(stdout.lines().last(), Some("nothing was violated"));
}

#[test]
fn bad_usage_is_reported_on_stderr_with_status_2() {
    for (args, part) in [
        (&["--seed", "x"][..], "invalid value 'x' for '--seed <N>'"),
        (&["--for", "soon"], "must be a duration such as 250ms or 1m30s"),
        (&["--for"], "a value is required for '--for <DURATION>'"),
        (&["--\u{1b}[2J"], r"'--\u{1b}[2J'"),
    ] {
        let output = soak(args).output().expect("the program starts");
        assert_eq!(output.status.code(), Some(2), "{args:?}");
        let (stdout, stderr) = printed(output);
        assert_eq!(stdout, "", "{args:?}");
        assert!(stderr.contains(part) && stderr.contains("--help"), "{stderr}");
    }
}

#[test]
fn help_goes_to_stdout() {
    let output = soak(&["--help"]).output().expect("the program starts");
    assert!(output.status.success());
    let (stdout, stderr) = printed(output);
    assert_eq!(stderr, "");
    assert!(stdout.contains("Usage: eventcast-soak [OPTIONS]"), "{stdout}");
    assert!(stdout.lines().all(|line| line.len() <= 95), "{stdout}");
}
