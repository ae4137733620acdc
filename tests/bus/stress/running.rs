//! Threads and tasks, with a common way to wait for their results.

use std::sync::mpsc::{self, Receiver};
use std::thread;

use test_support::Rng;

use super::executors::spawn;

/// The result of a thread or a task, which may still be running.
pub(crate) struct Running<T>(Receiver<T>);

impl<T: Send + 'static> Running<T> {
    pub(crate) fn thread(run: impl FnOnce() -> T + Send + 'static) -> Self {
        let (tx, rx) = mpsc::channel();
        thread::spawn(move || {
            // If the round has failed, no thread waits for the result.
            let _ = tx.send(run());
        });
        Self(rx)
    }

    pub(crate) fn task(rng: &mut Rng, run: impl Future<Output = T> + Send + 'static) -> Self {
        let (tx, rx) = mpsc::channel();
        spawn(rng, async move {
            let _ = tx.send(run.await);
        });
        Self(rx)
    }

    pub(crate) fn join(self) -> T {
        self.0.recv().expect("a thread or a task of the round has panicked")
    }
}
