//! Many small rounds of recordings at work, each with its own seed: sinks that fail in every way,
//! hang and lose answers, any number of workers, every policy, with and without a dispatcher,
//! user-supplied code that panics and calls back, and the end at any time. The test checks each
//! round to the last event, against counts that it keeps itself.
//!
//! `EVENTCAST_STRESS_ROUNDS` sets the number of rounds, and `EVENTCAST_STRESS_SEED` the seed of the
//! first one. A failure names the seed of its round.

mod hostile;
mod rounds;

use std::panic::{catch_unwind, resume_unwind, set_hook, take_hook};
use std::sync::mpsc;
use std::thread;

use test_support::{Rng, env_number};

use hostile::{HANGS, Thrown};

#[test]
fn random_rounds_account_for_every_event() {
    let before = take_hook();
    set_hook(Box::new(move |info| {
        // Intended panics are not logged.
        if !info.payload().is::<Thrown>() {
            before(info);
        }
    }));
    let rounds = env_number("EVENTCAST_STRESS_ROUNDS", 300);
    let mut seeds = Rng(env_number("EVENTCAST_STRESS_SEED", 1));
    for at in 0..rounds {
        // The first round uses the given seed itself, so that one round alone can be repeated.
        let seed = if at == 0 { seeds.0 } else { seeds.next() };
        let (done, finished) = mpsc::channel();
        let running = thread::spawn(move || {
            let result = catch_unwind(|| rounds::round(seed));
            let _ = done.send(());
            result
        });
        let says = format!("to repeat: EVENTCAST_STRESS_SEED={seed:#x} EVENTCAST_STRESS_ROUNDS=1");
        assert!(finished.recv_timeout(HANGS * 2).is_ok(), "round {at} hangs; {says}");
        if let Ok(Err(panic)) = running.join() {
            println!("round {at} failed; {says}");
            resume_unwind(panic);
        }
    }
}
