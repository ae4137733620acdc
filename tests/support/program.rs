//! A program with an input, run to its end.

use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;

/// The results of a program that has ended.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

pub(crate) fn run(program: &Path, args: &[&str], input: &[u8]) -> Ended {
    let mut child = Command::new(program)
        .args(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program starts");
    let mut stdin = child.stdin.take().expect("piped");
    thread::scope(|scope| {
        // The program may end without reading all of its input.
        scope.spawn(move || stdin.write_all(input));
        let output = child.wait_with_output().expect("it can be waited for");
        Ended {
            code: output.status.code(),
            stdout: String::from_utf8(output.stdout).expect("UTF-8"),
            stderr: String::from_utf8(output.stderr).expect("UTF-8"),
        }
    })
}
