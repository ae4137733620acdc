//! Many small rounds that mix all operations. Each round has a new seed, and is checked down to the
//! last event. The checks use the counts that the test's threads kept, and the common order of
//! events as seen by a watcher that never loses an event.
//!
//! A round has publishers (all ways to publish), readers of every policy that register, leave, stop
//! and panic, handlers that panic, filters that panic, events whose `Clone` panics, flushes and
//! snapshots. In the middle of a round, up to five concurrent calls end the bus, with or without a
//! deadline. In every second round, `Clone`, `Drop`, filters and handlers sometimes take a while.
//! Some participants are tasks of tokio or smol, and some futures are dropped before they are
//! ready. With the `select` feature, some readers wait in a `Select`.
//!
//! `EVENTCAST_STRESS_ROUNDS` sets the number of rounds, `EVENTCAST_STRESS_SEED` the first seed, and
//! `EVENTCAST_STRESS_HANGS` the number of seconds after which a round is considered to hang. A
//! failure shows the seed of its round. The seed reproduces the choices but not the timing.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod check;
mod end;
mod event;
mod executors;
mod met;
mod plan;
mod publish;
mod pulling;
mod read;
mod receive;
mod round;
mod running;
mod small;
mod tasks;
mod watchdog;

use std::panic::{set_hook, take_hook};

use event::Ident;
use watchdog::run_rounds;

#[test]
fn random_rounds_account_for_every_event() {
    run_at_once(|seed| round::run_round(seed, false));
}

#[test]
fn random_rounds_account_for_every_event_without_a_thread() {
    run_at_once(|seed| round::run_round(seed, true));
}

fn run_at_once(run: fn(u64)) {
    // Panics that are part of the test are not printed.
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
