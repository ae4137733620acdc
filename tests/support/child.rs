//! A child process of a test: the test's own program, started again for one function.
#![allow(dead_code, reason = "each test file uses its part")]

use std::env;
use std::ffi::OsStr;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdout, Command, Stdio};

/// Returns the parts of the orders if this process is a child, and `None` if it is not.
pub(crate) fn orders() -> Option<Vec<String>> {
    env::var("EVENTCAST_TEST_CHILD").ok().map(|orders| orders.split('\u{1f}').map(str::to_owned).collect())
}

/// Sends a line to the parent, at once.
pub(crate) fn say(line: &str) {
    let mut out = std::io::stdout().lock();
    // The line is one write, so a child that is killed has sent all of it or nothing. If the parent
    // is gone, the line is lost.
    let _ = out.write_all(format!("\n: {line}\n").as_bytes()).and_then(|()| out.flush());
}

/// A running child, which is killed if it is not waited for.
pub(crate) struct Running {
    child: Child,
    out: BufReader<ChildStdout>,
}

impl Running {
    /// Starts the test of this name again, as a child with orders.
    pub(crate) fn start(test: &str, orders: &[&str]) -> Self {
        Self::start_by(&[], test, orders)
    }

    /// Does the same through a command that starts the command that follows it.
    pub(crate) fn start_by(through: &[&str], test: &str, orders: &[&str]) -> Self {
        let program = env::current_exe().unwrap();
        let mut words = through.iter().map(OsStr::new).chain([program.as_os_str()]);
        let mut child = Command::new(words.next().unwrap())
            .args(words)
            .args(["--exact", test, "--nocapture", "--test-threads=1"])
            .env("EVENTCAST_TEST_CHILD", orders.join("\u{1f}"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let out = BufReader::new(child.stdout.take().unwrap());
        Self { child, out }
    }

    /// Waits for the child's next line. Returns `None` if the child has ended.
    pub(crate) fn hear(&mut self) -> Option<String> {
        let mut line = String::new();
        loop {
            line.clear();
            // The lines of the test harness are skipped.
            if self.out.read_line(&mut line).unwrap() == 0 {
                return None;
            }
            if let Some(said) = line.strip_prefix(": ").and_then(|said| said.strip_suffix('\n')) {
                return Some(said.to_owned());
            }
        }
    }

    /// Sends a line to a child that waits for one.
    pub(crate) fn tell(&mut self, line: &str) {
        let input = self.child.stdin.as_mut().unwrap();
        input.write_all(format!("{line}\n").as_bytes()).unwrap();
        input.flush().unwrap();
    }

    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Waits for the child's end, and returns the lines that the child sends until then.
    pub(crate) fn end(mut self) -> Vec<String> {
        let said: Vec<String> = std::iter::from_fn(|| self.hear()).collect();
        let status = self.child.wait().unwrap();
        assert!(status.success(), "the child: {status}, after {:?}", said.last());
        said
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Waits, in a child, for the parent's next line, and returns it.
pub(crate) fn listen() -> String {
    let mut line = String::new();
    std::io::stdin().read_line(&mut line).unwrap();
    line.trim_end().to_owned()
}
