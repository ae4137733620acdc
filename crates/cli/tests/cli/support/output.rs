//! Runs the program to completion.

use std::process::Command;

/// The path of the program.
pub(crate) const PROGRAM: &str = env!("CARGO_BIN_EXE_eventcast");

/// The results of a program that has exited.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

/// Returns whether this build includes the command that these arguments begin with.
pub(crate) fn is_built(args: &[&str]) -> bool {
    let is_one_of = |commands: [&str; 2]| args.first().is_some_and(|name| commands.contains(name));
    (cfg!(feature = "analysis") || !is_one_of(["replay", "size"]))
        && (cfg!(feature = "help") || !is_one_of(["completions", "man"]))
}

/// Returns a command that starts the program with these arguments.
pub(crate) fn eventcast(args: &[&str]) -> Command {
    let mut command = program();
    command.args(args);
    command
}

/// Returns a command that starts the program without any ignored signals. If a shell runs the tests
/// in the background, they ignore some signals, and `supervise` would continue to ignore these
/// signals.
#[cfg(target_os = "linux")]
fn program() -> Command {
    let mut command = Command::new("env");
    command.args(["--default-signal=HUP,INT,QUIT,TERM", PROGRAM]);
    command
}

#[cfg(not(target_os = "linux"))]
fn program() -> Command {
    Command::new(PROGRAM)
}

/// Runs the program to completion.
pub(crate) fn run(args: &[&str]) -> Ended {
    run_with(args, b"")
}

/// Runs the program to completion with an input. The program does not have to read the input.
pub(crate) fn run_with(args: &[&str], input: &[u8]) -> Ended {
    ended(eventcast(args), input)
}

/// Runs a command to completion.
pub(crate) fn ended(command: Command, input: &[u8]) -> Ended {
    let output = assert_cmd::Command::from(command).write_stdin(input).output().expect("the program starts");
    Ended {
        code: output.status.code(),
        stdout: String::from_utf8(output.stdout).expect("UTF-8"),
        stderr: String::from_utf8(output.stderr).expect("UTF-8"),
    }
}

/// Checks that the text does not contain control characters other than newlines, or characters that
/// reverse the reading direction.
#[track_caller]
pub(crate) fn assert_harmless(shown: &str) {
    let is_bad = |c: char| (c.is_control() && c != '\n') || ('\u{2028}'..='\u{202e}').contains(&c);
    assert!(!shown.contains(is_bad), "{shown:?}");
}
