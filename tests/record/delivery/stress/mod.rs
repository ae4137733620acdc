//! Runs recordings in many small rounds, each with its own seed. Sinks fail in every possible way,
//! hang and lose answers. The number of workers and the policy vary, the bus may or may not have a
//! dispatcher, user-supplied code panics and calls back, and the shutdown may begin at any time.
//! The test checks every event of each round against counts that it keeps independently.
//!
//! `EVENTCAST_STRESS_ROUNDS` sets the number of rounds, and `EVENTCAST_STRESS_SEED` sets the seed
//! of the first round. A failure message includes the seed of the failed round.

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
        // Intentional panics are not logged.
        if !info.payload().is::<Thrown>() {
            before(info);
        }
    }));
    let rounds = env_number("EVENTCAST_STRESS_ROUNDS", 300);
    let mut seeds = Rng(env_number("EVENTCAST_STRESS_SEED", 1));
    for at in 0..rounds {
        // The first round uses the given seed unchanged, so that a single round can be repeated.
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
