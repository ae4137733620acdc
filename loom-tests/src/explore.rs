//! Explores one of this crate's models and passes the model's record to the runner.

use std::cell::Cell;
use std::env;
use std::fs;

use eventcast::testing::Exploration;
use loom::thread::JoinHandle;

use crate::record::Record;

std::thread_local! {
    // loom runs all of a model's threads on the thread that explores the model.
    static THREADS: Cell<usize> = const { Cell::new(0) };
    static OPERATION: Cell<Option<(&'static str, &'static str)>> = const { Cell::new(None) };
}

/// Spawns a thread in the model and adds it to the record's thread count.
pub fn spawn<R: 'static>(run: impl FnOnce() -> R + 'static) -> JoinHandle<R> {
    THREADS.set(THREADS.get() + 1);
    loom::thread::spawn(run)
}

/// Sets the matrix cell to which the next model belongs.
pub fn set_cell(operation: &'static str, end: &'static str) {
    OPERATION.set(Some((operation, end)));
}

/// Explores the model and prints its record. If the environment variable `EVENTCAST_LOOM_RESULT` is
/// set, also writes the record to the file that the variable names.
///
/// # Panics
///
/// Panics if the exploration panics, or if the record cannot be written.
pub fn explore(exploration: Exploration, model: impl Fn() + Sync + Send + 'static) {
    let explored = exploration.run(move || {
        THREADS.set(0);
        model();
    });
    let (operation, end) = OPERATION.take().unwrap_or(("", ""));
    let record = Record {
        operation: operation.to_owned(),
        end: end.to_owned(),
        model: env::var("EVENTCAST_LOOM_MODEL").unwrap_or_default(),
        threads: THREADS.get(),
        preemptions: explored.preemptions,
        executions: explored.executions,
        whole: explored.whole,
        below: explored.below,
    };
    println!("{record}");
    if let Some(path) = env::var_os("EVENTCAST_LOOM_RESULT") {
        fs::write(path, record.to_json()).expect("the runner's folder can be written");
    }
}
