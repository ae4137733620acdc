//! Rounds by their seeds, each under a watchdog.

use std::panic::resume_unwind;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

/// The time limit of a round, in seconds. A round takes some milliseconds, so only one that hangs
/// takes this long.
const HANGS: u64 = 180;

pub(crate) fn from_environment(name: &str, default: u64) -> u64 {
    let Ok(text) = std::env::var(name) else { return default };
    let number = match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16),
        None => text.parse(),
    };
    number.unwrap_or_else(|_| panic!("{name} must be a number, got {text}"))
}

/// Runs one round under a watchdog.
pub(crate) fn watched(seed: u64, run: fn(u64)) {
    static FAILED: AtomicBool = AtomicBool::new(false);
    let (tx, rx) = mpsc::channel();
    let thread = thread::spawn(move || {
        run(seed);
        tx.send(()).unwrap();
    });
    let hangs = Duration::from_secs(from_environment("EVENTCAST_STRESS_HANGS", HANGS));
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

/// Runs as many rounds as the environment says, each with its own seed. Returns their number.
pub(crate) fn run_rounds(run: fn(u64)) -> u64 {
    let rounds = from_environment("EVENTCAST_STRESS_ROUNDS", 5000);
    let first = from_environment("EVENTCAST_STRESS_SEED", 1);
    (0..rounds).for_each(|round| watched(first.wrapping_add(round), run));
    rounds
}
