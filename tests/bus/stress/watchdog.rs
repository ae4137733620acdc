//! Runs rounds by their seeds, each under a watchdog.

use std::panic::resume_unwind;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use test_support::env_number;

/// The time limit for a round, in seconds. A round takes some milliseconds, so only a hanging round
/// takes this long.
const HANGS: u64 = 180;

/// Runs one round under a watchdog.
pub(crate) fn watched(seed: u64, run: fn(u64)) {
    static FAILED: AtomicBool = AtomicBool::new(false);
    let (tx, rx) = mpsc::channel();
    let thread = thread::spawn(move || {
        run(seed);
        tx.send(()).unwrap();
    });
    let hangs = Duration::from_secs(env_number("EVENTCAST_STRESS_HANGS", HANGS));
    let result = rx.recv_timeout(hangs);
    if result.is_err() && !FAILED.swap(true, Ordering::SeqCst) {
        println!("to repeat: EVENTCAST_STRESS_SEED={seed:#x} EVENTCAST_STRESS_ROUNDS=1");
    }
    match result {
        Ok(()) => thread.join().unwrap(),
        Err(RecvTimeoutError::Disconnected) => resume_unwind(thread.join().unwrap_err()),
        Err(RecvTimeoutError::Timeout) => panic!("the round with the seed {seed:#x} hangs"),
    }
}

/// Runs the number of rounds set in the environment, each with its own seed. Returns that number.
pub(crate) fn run_rounds(run: fn(u64)) -> u64 {
    let rounds = env_number("EVENTCAST_STRESS_ROUNDS", 5000);
    let first = env_number("EVENTCAST_STRESS_SEED", 1);
    (0..rounds).for_each(|round| watched(first.wrapping_add(round), run));
    rounds
}
