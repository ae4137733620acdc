//! Runs programs such as the examples to completion.

use std::process::{Command, Output, Stdio};

/// Runs a program, which must succeed, to completion. Returns the program's output on stdout and on
/// stderr.
///
/// # Panics
///
/// Panics if the program cannot be started, fails, or writes bytes that are not UTF-8.
#[track_caller]
pub fn run(program: &str) -> (String, String) {
    let output = Command::new(program).stdin(Stdio::null()).output().expect("the program starts");
    assert!(output.status.success(), "{program}: {output:#?}");
    printed(output)
}

fn printed(output: Output) -> (String, String) {
    let text = |bytes| String::from_utf8(bytes).expect("UTF-8");
    (text(output.stdout), text(output.stderr))
}

/// Checks that a program that writes to stdout succeeds if the reader has closed the pipe, like
/// `head -1`, and fails with exit code 1 on a full disk. The program must not panic in either case.
///
/// # Panics
///
/// Panics if any of these conditions does not hold.
#[cfg(target_os = "linux")]
#[track_caller]
pub fn check_closed_pipe_and_full_disk(program: &str) {
    use std::fs::File;
    use std::os::fd::OwnedFd;
    use std::os::unix::net::UnixStream;

    let run = |stdout: Stdio, code: i32| {
        let output = Command::new(program).stdin(Stdio::null()).stdout(stdout).output();
        let output = output.expect("the program starts");
        assert_eq!(output.status.code(), Some(code), "{program}: {output:#?}");
        let (_, stderr) = printed(output);
        assert!(!stderr.contains("panicked"), "{program}: {stderr}");
        stderr
    };
    let full = File::options().write(true).open("/dev/full").expect("the device");
    let stderr = run(full.into(), 1);
    assert!(stderr.contains("No space left on device"), "{program}: {stderr}");
    // The other end of the pair is dropped immediately.
    let closed = OwnedFd::from(UnixStream::pair().expect("a pair").0);
    let stderr = run(closed.into(), 0);
    assert!(!stderr.contains("Broken pipe"), "{program}: {stderr}");
}

/// Checks that no line on stdout is much wider than a terminal.
///
/// # Panics
///
/// Panics if a line has more than 120 characters.
#[track_caller]
pub fn check_width(program: &str) {
    for line in run(program).0.lines() {
        assert!(line.chars().count() <= 120, "{program}: {line}");
    }
}
