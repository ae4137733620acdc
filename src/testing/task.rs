//! Polls a future in a model.
#![allow(clippy::disallowed_types, reason = "one thread alone takes the lock, so loom need not see it")]

use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Wake, Waker};

use loom::sync::mpsc;

/// A task that sleeps. The channel is empty until the task is woken.
struct Task {
    woken: mpsc::Sender<()>,
    /// The receiver of `woken`, for the task's own thread only. The task owns it so that a late
    /// wake-up is not a leak.
    sleep: Mutex<mpsc::Receiver<()>>,
}

impl Wake for Task {
    fn wake(self: Arc<Self>) {
        // The receiver lives as long as the sender, so there is no error.
        let _ = self.woken.send(());
    }
}

/// Polls a future on this thread until it is ready, but only for a reason: the future begins, or
/// its waker was called.
///
/// loom's own `block_on` also polls once spuriously, and explores the reference count of its waker.
/// A model that needs this uses loom's.
///
/// # Blocking
///
/// A future whose waker is never called is a deadlock, which loom reports.
///
/// # Panics
///
/// Outside of a model.
pub fn block_on<F: Future>(future: F) -> F::Output {
    let (woken, sleep) = mpsc::channel();
    let task = Arc::new(Task { woken, sleep: Mutex::new(sleep) });
    let waker = Waker::from(task.clone());
    let mut context = Context::from_waker(&waker);
    let mut future = pin!(future);
    loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut context) {
            return output;
        }
        // The sender lives as long as the receiver, so there is no error.
        let _ = task.sleep.lock().unwrap_or_else(PoisonError::into_inner).recv();
    }
}
