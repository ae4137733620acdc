//! Starts the program, reads its output, sends it signals, and waits for it to exit.
//!
//! Every process that the program starts inherits the pipe of the program's stderr. When that pipe
//! is closed, all of these processes have therefore ended. This approach does not require polling
//! or sleeping, and does not depend on process IDs, which the system could have reused.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::Duration;

#[cfg(unix)]
use rustix::process::{Pid, Signal, kill_process, test_kill_process};

use super::output::eventcast;

pub(crate) use test_support::LONG as PATIENCE;

/// A running program.
pub(crate) struct Running {
    child: Child,
    stderr: Receiver<String>,
    seen: Vec<String>,
}

/// The results of a program that has exited and whose pipes are no longer held open by any process.
pub(crate) struct Ended {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    /// All lines, including the lines that a test has already waited for.
    pub(crate) stderr: Vec<String>,
}

impl Running {
    pub(crate) fn start(args: &[&str]) -> Self {
        Self::spawn(eventcast(args))
    }

    /// Starts a command with piped output and an empty input.
    pub(crate) fn spawn(mut command: Command) -> Self {
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the program starts");
        let pipe = child.stderr.take().expect("piped");
        let (sender, stderr) = mpsc::channel();
        thread::spawn(move || {
            for line in BufReader::new(pipe).lines().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    return;
                }
            }
        });
        Self { child, stderr, seen: Vec::new() }
    }

    /// Waits for the next line on stderr for which `wanted` returns true, and returns the line.
    pub(crate) fn wait_for(&mut self, wanted: impl Fn(&str) -> bool) -> String {
        loop {
            let line = self.stderr.recv_timeout(PATIENCE);
            let Ok(line) = line else { panic!("{line:?}: the awaited line is not among {:#?}", self.seen) };
            self.seen.push(line.clone());
            if wanted(&line) {
                return line;
            }
        }
    }

    #[cfg(unix)]
    pub(crate) fn pid(&self) -> Pid {
        Pid::from_child(&self.child)
    }

    #[cfg(unix)]
    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).expect("the program runs");
    }

    /// Asks the program to stop. The program must then exit successfully.
    #[cfg(unix)]
    #[track_caller]
    pub(crate) fn stop(self) -> Ended {
        self.signal(Signal::TERM);
        let ended = self.end();
        assert_eq!(ended.code, Some(0), "{:#?}", ended.stderr);
        ended
    }

    /// Waits until the program and all processes that it started have ended.
    pub(crate) fn end(mut self) -> Ended {
        while let Ok(line) = self.stderr.recv_timeout(PATIENCE) {
            self.seen.push(line);
        }
        let gone = self.stderr.recv_timeout(Duration::ZERO) == Err(mpsc::RecvTimeoutError::Disconnected);
        assert!(gone, "somebody still holds the program's stderr, which says {:#?}", self.seen);
        let mut stdout = String::new();
        self.child.stdout.take().expect("piped").read_to_string(&mut stdout).expect("UTF-8");
        let code = self.child.wait().expect("it can be waited for").code();
        Ended { code, stdout, stderr: std::mem::take(&mut self.seen) }
    }
}

/// Stops the program if the test fails, so that the program is not left running.
impl Drop for Running {
    fn drop(&mut self) {
        if thread::panicking() {
            #[cfg(unix)]
            let _ = kill_process(Pid::from_child(&self.child), Signal::TERM);
            #[cfg(not(unix))]
            let _ = self.child.kill();
        }
    }
}

#[cfg(unix)]
pub(crate) fn is_gone(pid: Pid) -> bool {
    test_kill_process(pid) == Err(rustix::io::Errno::SRCH)
}

/// Returns the lines of the program's stdout. Panics if the program did not exit successfully.
pub(crate) fn lines(ended: &Ended) -> Vec<String> {
    assert_eq!(ended.code, Some(0), "{}\n{:#?}", ended.stdout, ended.stderr);
    ended.stdout.lines().map(str::to_owned).collect()
}
