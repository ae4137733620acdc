//! Polls a future in a model.
#![allow(clippy::disallowed_types, reason = "one thread alone takes the lock, so loom need not see it")]

use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Wake, Waker};

use loom::sync::mpsc;

/// A sleeping task. The channel is empty until the task is woken.
struct Task {
    woken: mpsc::Sender<()>,
    /// The receiver for `woken`, used only by the task's own thread. The task owns the receiver so
    /// that a late wake-up does not count as a leak.
    sleep: Mutex<mpsc::Receiver<()>>,
}

impl Wake for Task {
    fn wake(self: Arc<Self>) {
        // The receiver lives as long as the sender, so sending cannot fail.
        let _ = self.woken.send(());
    }
}

/// Polls a future on this thread until it is ready. The future is polled only at the start and
/// after its waker has been called.
///
/// loom's own `block_on` also polls once spuriously, and explores its waker's reference count. If a
/// model needs this behaviour, use loom's version.
///
/// # Blocking
///
/// Blocks until the future is ready. If the future is pending and its waker is never called, loom
/// reports a deadlock.
///
/// # Panics
///
/// Panics outside a model.
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
        // The sender lives as long as the receiver, so receiving cannot fail.
        let _ = task.sleep.lock().unwrap_or_else(PoisonError::into_inner).recv();
    }
}
