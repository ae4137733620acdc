//! Runs tests in a separate process by starting the test program again for a single test.
//!
//! This module is for tests that check or change process-wide state and would otherwise interfere
//! with other tests in the same program.

use std::env;
use std::ffi::OsStr;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdout, Command, Output, Stdio};

/// The environment variable that marks a process as a child and contains its orders.
const ORDERS: &str = "EVENTCAST_TEST_CHILD";

/// The environment variable that names an emulator, which must start the test programs if they are
/// built for another processor.
const RUNNER: &str = "EVENTCAST_RUNNER";

/// The separator between orders. The separator does not occur in paths or names.
const SEPARATOR: char = '\u{1f}';

/// Runs the test in a separate process and then returns from the test. In the separate process, the
/// macro does nothing. The macro must be the first line of the test.
#[macro_export]
macro_rules! in_own_process {
    () => {
        if !$crate::child::is_child() {
            return $crate::child::run($crate::test_name!());
        }
    };
}

/// Returns the name of the enclosing test, as known to the test harness.
#[macro_export]
macro_rules! test_name {
    () => {{
        fn here() {}
        $crate::child::test_around(&here)
    }};
}

/// Returns the path of the function that encloses `here`, without the crate's name.
#[doc(hidden)]
pub fn test_around<T>(here: &T) -> &'static str {
    let path = std::any::type_name_of_val(here);
    let path = path.strip_suffix("::here").expect("the path of the function `here`");
    // The path of a closure in the test begins with the path of the test.
    let path = path.split("::{{closure}}").next().unwrap_or(path);
    path.split_once("::").expect("the crate's name stands first").1
}

/// Returns whether this process is a child.
pub fn is_child() -> bool {
    env::var_os(ORDERS).is_some()
}

/// Returns the orders if this process is a child, and `None` otherwise.
pub fn orders() -> Option<Vec<String>> {
    env::var(ORDERS).ok().map(|orders| orders.split(SEPARATOR).map(str::to_owned).collect())
}

/// Returns a command that runs the given test again, as a child with orders. `through` is a wrapper
/// command, which executes the command line that follows it.
fn command(through: &[&str], test: &str, orders: &[&str]) -> Command {
    let program = env::current_exe().expect("the path of this program");
    let runner = env::var_os(RUNNER);
    let mut words = through.iter().map(OsStr::new).chain(runner.as_deref()).chain([program.as_os_str()]);
    let mut command = Command::new(words.next().expect("the program is one"));
    // If an ignored test is running, its child must not be ignored.
    command.args(words).args(["--exact", test, "--include-ignored", "--nocapture", "--test-threads=1"]);
    command.env(ORDERS, orders.join(&SEPARATOR.to_string()));
    command
}

/// Runs the given test again, as a child, and returns the child's exit status and output.
///
/// # Panics
///
/// Panics if the child cannot be started, or if this program has no test with the given name.
pub fn output(test: &str) -> Output {
    let output = command(&[], test, &[""]).output().expect("a process can be started");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.contains("running 1 test\n"), "no test has the name {test}: {text}");
    output
}

/// Runs the given test again, as a child, and prints the child's output.
///
/// # Panics
///
/// Panics if the child fails.
#[allow(clippy::print_stdout, reason = "the figures that the child printed belong to the test")]
pub fn run(test: &str) {
    let output = output(test);
    let [out, err] = [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text));
    print!("{out}");
    assert!(output.status.success(), "the child of {test}: {}\n{err}", output.status);
    assert!(out.contains(" 1 passed;"), "the child of {test} ran nothing: {out}");
}

/// Sends a line to the parent immediately.
pub fn say(line: &str) {
    let mut out = std::io::stdout().lock();
    // The line is sent with a single write, so a child that is killed has sent either the whole
    // line or nothing. If the parent has exited, the line is lost.
    let _ = out.write_all(format!("\n: {line}\n").as_bytes()).and_then(|()| out.flush());
}

/// Waits in a child for the next line from the parent, and returns the line.
///
/// # Panics
///
/// Panics if stdin cannot be read.
pub fn listen() -> String {
    let mut line = String::new();
    std::io::stdin().read_line(&mut line).expect("the parent's line");
    line.trim_end().to_owned()
}

/// A running child process. Dropping the value without waiting kills the child.
#[derive(Debug)]
pub struct Running {
    child: Child,
    out: BufReader<ChildStdout>,
}

impl Running {
    /// Starts the test with the given name again, as a child with orders.
    ///
    /// # Panics
    ///
    /// Panics if the child cannot be started.
    pub fn start(test: &str, orders: &[&str]) -> Self {
        Self::start_by(&[], test, orders)
    }

    /// Starts a test like [`start`](Self::start), but through a wrapper command, which executes the
    /// command line that follows it.
    ///
    /// # Panics
    ///
    /// Panics if the child cannot be started.
    pub fn start_by(through: &[&str], test: &str, orders: &[&str]) -> Self {
        let mut child = command(through, test, orders)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("a process can be started");
        let out = BufReader::new(child.stdout.take().expect("the output is a pipe"));
        Self { child, out }
    }

    /// Waits for the next line from the child. Returns `None` if the child has ended.
    ///
    /// # Panics
    ///
    /// Panics if the child writes invalid UTF-8, or if this program has no test with the child's
    /// name.
    pub fn hear(&mut self) -> Option<String> {
        let mut line = String::new();
        loop {
            line.clear();
            if self.out.read_line(&mut line).expect("the child's line") == 0 {
                return None;
            }
            assert!(line != "running 0 tests\n", "the child finds no test of its name");
            // Lines from the test harness are skipped.
            if let Some(said) = line.strip_prefix(": ").and_then(|said| said.strip_suffix('\n')) {
                return Some(said.to_owned());
            }
        }
    }

    /// Sends a line to a child that is waiting for a line.
    ///
    /// # Panics
    ///
    /// Panics if the child has ended.
    pub fn tell(&mut self, line: &str) {
        let input = self.child.stdin.as_mut().expect("the input is a pipe");
        input.write_all(format!("{line}\n").as_bytes()).expect("the child reads");
        input.flush().expect("the child reads");
    }

    /// Kills the child and waits until it has ended.
    ///
    /// # Panics
    ///
    /// Panics if the child cannot be killed.
    pub fn kill(&mut self) {
        self.child.kill().expect("the child can be killed");
        self.child.wait().expect("the child ends");
    }

    /// Waits until the child has ended, and returns the lines that the child sends until then.
    ///
    /// # Panics
    ///
    /// Panics if the child fails.
    pub fn end(mut self) -> Vec<String> {
        let said: Vec<String> = std::iter::from_fn(|| self.hear()).collect();
        let status = self.child.wait().expect("the child ends");
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

#[cfg(test)]
mod tests {
    #[test]
    fn a_test_runs_in_its_own_process() {
        let parent = std::process::id();
        if let Some(orders) = super::orders() {
            assert_ne!(orders[0], parent.to_string());
            return super::say("in the child");
        }
        let child = super::Running::start(crate::test_name!(), &[&parent.to_string()]);
        assert_eq!(child.end(), ["in the child"]);
    }

    #[test]
    fn a_child_that_fails_fails_its_test() {
        assert!(!super::is_child(), "of the child");
        let failed = std::panic::catch_unwind(|| super::run(crate::test_name!()));
        let message = *failed.unwrap_err().downcast::<String>().unwrap();
        assert!(message.contains("of the child"), "{message}");
    }

    #[test]
    #[should_panic(expected = "no test has the name nowhere")]
    fn a_child_without_a_test_is_a_failure() {
        super::run("nowhere");
    }

    #[test]
    #[should_panic(expected = "the child finds no test of its name")]
    fn a_child_without_a_test_prints_nothing() {
        super::Running::start("nowhere", &[""]).hear();
    }

    #[test]
    fn a_closure_has_the_name_of_its_test() {
        let name = || crate::test_name!();
        assert_eq!(name(), "child::tests::a_closure_has_the_name_of_its_test");
    }
}
