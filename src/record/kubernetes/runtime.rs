//! The runtime that requests run on, and waiting for them from a thread that is none of its own.

use std::convert::Infallible;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use tokio::runtime::{Builder, Handle};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use crate::clock::Clock;
use crate::sync::atomic::{AtomicU64, Ordering};
use crate::sync::{Arc, Parker, Unparker, thread};

/// The name of the thread that a sink makes for itself.
pub(super) const THREAD: &str = "eventcast-kube";

/// A runtime of the sink's own, or the caller's.
pub(super) struct Runtime {
    handle: Handle,
    /// Ends the own one when it goes. Nothing is ever sent.
    stop: Option<oneshot::Sender<Infallible>>,
}

/// Never waits when it goes, so it may go anywhere: a runtime that is simply dropped panics within another.
struct Background(Option<tokio::runtime::Runtime>);

impl Drop for Background {
    fn drop(&mut self) {
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}

impl Runtime {
    pub(super) fn of_caller(handle: Handle) -> Self {
        Self { handle, stop: None }
    }

    /// One thread is enough: what it has to do for a request is short.
    pub(super) fn own() -> io::Result<Self> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let handle = runtime.handle().clone();
        let runtime = Background(Some(runtime));
        let (stop, stopped) = oneshot::channel::<Infallible>();
        thread::spawn(THREAD.to_owned(), move || {
            if let Some(runtime) = &runtime.0 {
                // The error is that the sender has gone.
                let _: Result<Infallible, _> = runtime.block_on(stopped);
            }
        })?;
        Ok(Self { handle, stop: Some(stop) })
    }

    pub(super) fn is_own(&self) -> bool {
        self.stop.is_some()
    }

    pub(super) fn handle(&self) -> &Handle {
        &self.handle
    }

    pub(super) fn spawn<T: Send + 'static>(
        &self,
        task: impl Future<Output = T> + Send + 'static,
    ) -> JoinHandle<T> {
        self.handle.spawn(task)
    }
}

/// Something that moves on while it works, so that waiting for it can tell slow from dead.
#[derive(Debug, Default)]
pub(super) struct Progress(AtomicU64);

impl Progress {
    pub(super) fn step(&self) {
        // Relaxed: only the number counts.
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    fn steps(&self) -> u64 {
        // Relaxed: as in `step`.
        self.0.load(Ordering::Relaxed)
    }
}

struct UnparkWaker(Unparker);

impl Wake for UnparkWaker {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Waits on this thread for what a task gives; `None` when its runtime has dropped it, or has not moved it on for
/// `patience`, because nobody runs it: then it is told to end.
///
/// Unlike tokio's own ways of blocking it does not panic on a thread of a runtime.
pub(super) fn wait<T>(mut task: JoinHandle<T>, progress: &Progress, patience: Duration) -> Option<T> {
    let clock = Clock::system();
    let parker = Parker::new();
    let waker = Waker::from(Arc::new(UnparkWaker(parker.unparker())));
    let mut context = Context::from_waker(&waker);
    let (mut seen, mut deadline) = (progress.steps(), clock.deadline(patience));
    loop {
        if let Poll::Ready(outcome) = Pin::new(&mut task).poll(&mut context) {
            return outcome.ok();
        }
        if clock.has_passed(deadline) {
            let steps = progress.steps();
            if steps == seen {
                task.abort();
                return None;
            }
            (seen, deadline) = (steps, clock.deadline(patience));
        }
        clock.park(&parker, deadline);
    }
}
