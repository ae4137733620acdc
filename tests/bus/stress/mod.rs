//! Many small rounds of everything at once, each with a new seed, and each checked to the last
//! event. The checks compare with the counts that the threads of the test kept, and with the one
//! order in which a watcher that never loses anything saw the events.
//!
//! A round has publishers (all ways to publish), readers of every policy that come, leave, stop and
//! panic, handlers that panic, filters that panic, events whose `Clone` panics, flushes and
//! snapshots. In the middle comes the end, with or without a deadline, up to five times at the same
//! moment. In every second round `Clone`, `Drop`, filters and handlers take time now and then. Some
//! of these are tasks of tokio or smol, and some futures are dropped before they are ready. With
//! `select` some readers wait in a `Select`.
//!
//! `EVENTCAST_STRESS_ROUNDS` sets the number of rounds, `EVENTCAST_STRESS_SEED` the first seed, and
//! `EVENTCAST_STRESS_HANGS` the number of seconds after which a round counts as hanging. A failure
//! names the seed of its round. The seed repeats the choices but not the timing.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod check;
mod end;
mod event;
mod met;
mod plan;
mod publish;
mod pulling;
mod read;
mod round;
mod running;
mod small;
mod tasks;

use std::panic::{resume_unwind, set_hook, take_hook};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use event::Ident;

/// The time limit of a round, in seconds. A round takes some milliseconds, so only one that hangs
/// takes this long.
const HANGS: u64 = 180;
const FOREVER: Duration = Duration::MAX;
const MAX_PUBLISHERS: u64 = 3;
const HAMMER_EVENTS: u32 = 1000;

fn from_environment(name: &str, default: u64) -> u64 {
    let Ok(text) = std::env::var(name) else { return default };
    let number = match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16),
        None => text.parse(),
    };
    number.unwrap_or_else(|_| panic!("{name} must be a number, got {text}"))
}

/// Runs one round under a watchdog.
fn watched(seed: u64, run: fn(u64)) {
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
fn run_rounds(run: fn(u64)) -> u64 {
    let rounds = from_environment("EVENTCAST_STRESS_ROUNDS", 5000);
    let first = from_environment("EVENTCAST_STRESS_SEED", 1);
    (0..rounds).for_each(|round| watched(first.wrapping_add(round), run));
    rounds
}

#[test]
fn everything_at_once() {
    run_at_once(|seed| round::run_round(seed, false));
}

#[test]
fn everything_at_once_without_a_thread() {
    run_at_once(|seed| round::run_round(seed, true));
}

fn run_at_once(run: fn(u64)) {
    // The panics that belong to the test print nothing.
    let loud = take_hook();
    set_hook(Box::new(move |info| {
        if !info.payload().is::<Ident>() {
            loud(info);
        }
    }));
    let rounds = run_rounds(run);
    println!("in {rounds} rounds: {:?}", met::all().collect::<Vec<_>>());
    if rounds >= 1000 {
        for (what, count) in met::all() {
            assert!(count > 0, "no round met: {what:?}");
        }
    }
}
