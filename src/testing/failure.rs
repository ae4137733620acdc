//! Reports why a model failed, and exits the process at that point.
//!
//! A panic inside loom, for example because of a deadlock, unwinds a thread of the model. The
//! thread's destructors take further steps, loom panics again, and the process aborts. The test's
//! first message is then lost, because the test harness has captured the message. A panic hook
//! therefore prints the message, and exits the process before anything unwinds.

use std::backtrace::{Backtrace, BacktraceStatus};
use std::cell::RefCell;
use std::fmt::Write as _;
use std::io::{Write as _, stderr};
use std::panic::{PanicHookInfo, set_hook, take_hook};
use std::process::exit;
use std::sync::Once;
use std::thread::panicking;

/// The exit status of a test program in which a test has failed.
const FAILED: i32 = 101;

/// The execution that this thread is currently exploring.
#[derive(Debug)]
struct Execution {
    preemptions: usize,
    number: usize,
    /// The messages of the panics in this execution. User code or the bus may have caught these
    /// panics.
    panics: Vec<String>,
}

thread_local! {
    // loom runs all threads of a model on the thread that explores it.
    static EXECUTION: RefCell<Option<Execution>> = const { RefCell::new(None) };
}

/// A guard that counts the executions of one step while it is alive.
#[derive(Debug)]
pub(super) struct Step(());

impl Step {
    /// Begins a step with this bound on preemptions.
    pub(super) fn begin(preemptions: usize) -> Self {
        static HOOK: Once = Once::new();
        HOOK.call_once(|| {
            let before = take_hook();
            set_hook(Box::new(move |info| match notice(info) {
                Some(failure) => end(&failure),
                None => before(info),
            }));
        });
        EXECUTION.set(Some(Execution { preemptions, number: 0, panics: Vec::new() }));
        Self(())
    }

    /// Counts an execution. Must be called on the thread that began the step.
    pub(super) fn next() {
        with(|execution| {
            execution.number += 1;
            execution.panics.clear();
        });
    }

    /// Returns the number of executions in the step. Must be called on the thread that began the
    /// step.
    pub(super) fn executions() -> usize {
        with(|execution| execution.number).unwrap_or_default()
    }
}

impl Drop for Step {
    #[allow(clippy::print_stderr, reason = "the test harness shows it beside the panic")]
    fn drop(&mut self) {
        if panicking() {
            with(|execution| eprintln!("{}", execution.failure()));
        }
        EXECUTION.set(None);
    }
}

impl Execution {
    fn failure(&self) -> String {
        let Self { preemptions, number, panics } = self;
        let mut text =
            format!("the model failed in execution {number} with at most {preemptions} preemptions:\n");
        for panic in panics {
            let _ = writeln!(text, "{panic}");
        }
        let _ = write!(text, "LOOM_MAX_PREEMPTIONS={preemptions} repeats only these");
        text
    }
}

fn with<R>(act: impl FnOnce(&mut Execution) -> R) -> Option<R> {
    EXECUTION.with_borrow_mut(|execution| execution.as_mut().map(act))
}

/// Records the message of a panic in a model. If loom itself panicked, returns a description of the
/// failure.
fn notice(info: &PanicHookInfo<'_>) -> Option<String> {
    with(|execution| {
        execution.panics.push(info.to_string());
        let is_of_loom = info.location().is_some_and(|location| is_of_loom(location.file()));
        is_of_loom.then(|| execution.failure())
    })?
}

/// Reports the failure, and exits the process before the model is unwound.
fn end(failure: &str) -> ! {
    // A macro such as `eprintln!` would not work here, because the test harness would capture the
    // text, and the process exits before the harness shows it.
    let _ = writeln!(stderr(), "{failure}");
    let backtrace = Backtrace::capture();
    if backtrace.status() == BacktraceStatus::Captured {
        let _ = writeln!(stderr(), "{backtrace}");
    }
    exit(FAILED)
}

/// Returns whether the file belongs to loom, according to its path in a registry or next to a
/// program.
fn is_of_loom(file: &str) -> bool {
    let file = file.replace('\\', "/");
    file.contains("/loom-0.") || file.contains("/loom/src/rt/")
}
