//! A runner of random cases: the same ones each time, more or others by the environment, and none
//! that hangs unseen.

use std::env;
use std::fmt::Debug;
use std::panic::resume_unwind;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use proptest::strategy::Strategy;
use proptest::test_runner::{Config, RngAlgorithm, TestCaseError, TestRng, TestRunner};

/// The time after which a case counts as hanging. A case takes some milliseconds.
const HANGS: Duration = Duration::from_secs(120);

fn number(name: &str, default: u64) -> u64 {
    match env::var(name) {
        Ok(text) => text.parse().unwrap_or_else(|_| panic!("{name} must be a number, got {text:?}")),
        Err(_) => default,
    }
}

/// Tries the given number of cases, times `EVENTCAST_CASES` if that is set. `EVENTCAST_SEED`
/// chooses other cases.
pub(crate) fn check<S>(
    cases: u32,
    strategy: impl FnOnce() -> S + Send + 'static,
    test: impl Fn(S::Value) -> Result<(), TestCaseError> + Send + 'static,
) where
    S: Strategy,
    S::Value: Debug,
{
    let cases = u32::try_from(u64::from(cases) * number("EVENTCAST_CASES", 1)).expect("not so many cases");
    let mut seed = [0; 32];
    seed[..8].copy_from_slice(&number("EVENTCAST_SEED", 0).to_le_bytes());
    let config = Config { cases, failure_persistence: None, max_shrink_iters: 2000, ..Config::default() };
    let current = Arc::new(Mutex::new((0_u64, String::new())));
    let (done, finished) = mpsc::channel();
    let noted = current.clone();
    let run = thread::spawn(move || {
        let mut runner = TestRunner::new_with_rng(config, TestRng::from_seed(RngAlgorithm::ChaCha, &seed));
        let result = runner.run(&strategy(), |value| {
            let mut current = noted.lock().unwrap();
            *current = (current.0 + 1, format!("{value:#?}"));
            drop(current);
            test(value)
        });
        let _ = done.send(result.map_err(|error| error.to_string()));
    });
    let mut last = 0;
    loop {
        match finished.recv_timeout(HANGS) {
            Ok(Ok(())) => return,
            Ok(Err(failure)) => panic!("{failure}"),
            Err(RecvTimeoutError::Disconnected) => match run.join() {
                Err(panic) => resume_unwind(panic),
                Ok(()) => unreachable!("it says when it is through"),
            },
            Err(RecvTimeoutError::Timeout) => {
                let (number, case) = current.lock().unwrap().clone();
                assert!(number > last, "case {number} hangs: {case}");
                last = number;
            }
        }
    }
}
