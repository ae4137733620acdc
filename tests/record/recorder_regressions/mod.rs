//! Tests of faults that reviews of the recorder half looked for. Each test was written to fail, and
//! some of them did.

mod data;
mod errors;
mod losses;
mod text;
mod told;
mod user_code;

use std::sync::mpsc;
use std::thread;

use eventcast::EventBroadcaster;
use eventcast::testing::FakeClock;

use crate::support::{LONG, at_once};

fn broadcaster(clock: &FakeClock) -> EventBroadcaster {
    EventBroadcaster::builder().clock(clock.clock()).retry(at_once()).build().unwrap()
}

/// Runs a function on another thread, and panics if it does not return in time. A hang is thus a
/// failure, not a test that never ends.
fn in_time<R: Send + 'static>(run: impl FnOnce() -> R + Send + 'static) -> R {
    let (tx, rx) = mpsc::channel();
    let thread = thread::spawn(move || {
        let _ = tx.send(run());
    });
    match rx.recv_timeout(LONG) {
        Ok(result) => result,
        Err(mpsc::RecvTimeoutError::Timeout) => panic!("it hangs"),
        Err(mpsc::RecvTimeoutError::Disconnected) => {
            std::panic::resume_unwind(thread.join().expect_err("it sent nothing, so it panicked"))
        }
    }
}
