//! Threads and tasks whose results are waited for in the same way.

use std::sync::mpsc::{self, Receiver};
use std::thread;

/// The result of a thread or a task, once it is there.
pub(crate) struct Running<T>(Receiver<T>);

impl<T: Send + 'static> Running<T> {
    pub(crate) fn thread(run: impl FnOnce() -> T + Send + 'static) -> Self {
        let (tx, rx) = mpsc::channel();
        thread::spawn(move || {
            // Nobody waits any more when the round has failed.
            let _ = tx.send(run());
        });
        Self(rx)
    }

    pub(crate) fn task(rng: &mut crate::rng::Rng, run: impl Future<Output = T> + Send + 'static) -> Self {
        let (tx, rx) = mpsc::channel();
        crate::tasks::spawn(rng, async move {
            let _ = tx.send(run.await);
        });
        Self(rx)
    }

    pub(crate) fn join(self) -> T {
        self.0.recv().expect("a thread or a task of the round has panicked")
    }
}
