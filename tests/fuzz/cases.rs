//! A runner for random cases. The same cases run each time, unless the environment requests more
//! cases or different ones. The runner reports cases that hang.

use std::env;
use std::fmt::Debug;
use std::panic::resume_unwind;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use proptest::strategy::Strategy;
use proptest::test_runner::{Config, RngAlgorithm, TestCaseError, TestRng, TestRunner};
use test_support::env_number;

/// The time after which a case counts as hanging. A case normally takes a few milliseconds.
const HANGS: Duration = Duration::from_secs(120);

/// The number and the value of the current case.
type Current = Mutex<(u64, String)>;

/// Tries the given number of cases, multiplied by `EVENTCAST_CASES` if it is set. `EVENTCAST_SEED`
/// selects different cases.
pub(crate) fn check<S>(
    cases: u32,
    strategy: impl FnOnce() -> S + Send + 'static,
    test: impl Fn(S::Value) -> Result<(), TestCaseError> + Send + 'static,
) where
    S: Strategy,
    S::Value: Debug,
{
    let (cases, seed) = (times(cases), env_number("EVENTCAST_SEED", 0));
    watch(move |current| run(cases, seed, &strategy(), &test, current));
}

/// Tries as many cases as [`check`], each generated from a different number. A failure prints that
/// number, and `EVENTCAST_CASE` runs only the case with the given number.
#[allow(dead_code, reason = "only the tests of the recorder use it")]
pub(crate) fn check_each<S>(
    cases: u32,
    strategy: impl FnOnce() -> S + Send + 'static,
    test: impl Fn(S::Value) -> Result<(), TestCaseError> + Send + 'static,
) where
    S: Strategy,
    S::Value: Debug,
{
    let first = env_number("EVENTCAST_SEED", 0) << 32;
    let alone = env::var_os("EVENTCAST_CASE").map(|_| env_number("EVENTCAST_CASE", 0));
    let (first, cases) = alone.map_or((first, times(cases).into()), |case| (case, 1));
    watch(move |current| {
        let strategy = strategy();
        (first..first + cases).try_for_each(|case| {
            let result = run(1, case, &strategy, &test, current);
            result.map_err(|failure| format!("to repeat: EVENTCAST_CASE={case}\n{failure}"))
        })
    });
}

fn times(cases: u32) -> u32 {
    u32::try_from(u64::from(cases) * env_number("EVENTCAST_CASES", 1)).expect("too many cases")
}

/// Tries cases generated from one seed.
fn run<S>(
    cases: u32,
    seed: u64,
    strategy: &S,
    test: &impl Fn(S::Value) -> Result<(), TestCaseError>,
    current: &Current,
) -> Result<(), String>
where
    S: Strategy,
    S::Value: Debug,
{
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    let config = Config { cases, failure_persistence: None, max_shrink_iters: 2000, ..Config::default() };
    let mut runner = TestRunner::new_with_rng(config, TestRng::from_seed(RngAlgorithm::ChaCha, &bytes));
    let result = runner.run(strategy, |value| {
        let mut current = current.lock().unwrap();
        *current = (current.0 + 1, format!("made of the number {seed}: {value:#?}"));
        drop(current);
        test(value)
    });
    result.map_err(|error| error.to_string())
}

/// Runs cases on another thread, and fails if one of them hangs.
fn watch(run: impl FnOnce(&Current) -> Result<(), String> + Send + 'static) {
    let current = Arc::new(Mutex::new((0_u64, String::new())));
    let (done, finished) = mpsc::channel();
    let noted = current.clone();
    let run = thread::spawn(move || drop(done.send(run(&noted))));
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
                assert!(number > last, "a case is hanging, {case}");
                last = number;
            }
        }
    }
}
