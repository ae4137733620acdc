//! Functions that wait in tests. If a wait takes too long, the test fails.

use std::panic::resume_unwind;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

/// A timeout that is reached only if a test hangs, even on a machine that stalls for a minute.
pub const LONG: Duration = Duration::from_secs(180);

/// Runs a test that might hang, and makes the test fail if it hangs.
///
/// # Panics
///
/// Panics if the test panics, or has not returned after [`LONG`].
pub fn watched(test: impl FnOnce() + Send + 'static) {
    let (tx, rx) = mpsc::channel();
    let thread = thread::spawn(move || {
        test();
        let _ = tx.send(());
    });
    match rx.recv_timeout(LONG) {
        Ok(()) => {}
        Err(RecvTimeoutError::Disconnected) => match thread.join() {
            Err(panic) => resume_unwind(panic),
            Ok(()) => unreachable!("it says when it is through"),
        },
        Err(RecvTimeoutError::Timeout) => panic!("the test hangs"),
    }
}

/// Waits until `done` returns true, which is useful for work on another thread that does not send a
/// signal.
///
/// # Panics
///
/// Panics if `done` does not return true within [`LONG`].
#[track_caller]
pub fn until(mut done: impl FnMut() -> bool) {
    let start = Instant::now();
    while !done() {
        assert!(start.elapsed() < LONG, "it does not come");
        thread::yield_now();
    }
}
