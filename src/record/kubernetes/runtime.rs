//! The runtime on which requests run, and the wait for requests on a thread outside the runtime.

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

/// The name of the thread that a sink starts for its own runtime.
pub(super) const THREAD: &str = "eventcast-kube";

/// The runtime for requests: the sink's own, or the caller's.
pub(super) struct Runtime {
    handle: Handle,
    /// The sender that ends the sink's own runtime when it is dropped, or `None` for the caller's
    /// runtime. The sender never sends anything.
    stop: Option<oneshot::Sender<Infallible>>,
}

/// A runtime that never waits when it is dropped, so any thread may drop it. A plain tokio runtime
/// panics if it is dropped within another one.
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

    /// Starts a runtime on a new thread. One thread is enough, because the work for a request is
    /// short.
    pub(super) fn own() -> io::Result<Self> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let handle = runtime.handle().clone();
        let runtime = Background(Some(runtime));
        let (stop, stopped) = oneshot::channel::<Infallible>();
        thread::spawn(THREAD.to_owned(), move || {
            if let Some(runtime) = &runtime.0 {
                // The error means that the sender was dropped.
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

/// A count that grows while the tasks work, so that a waiting thread can tell a slow runtime from a
/// dead one.
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

/// Waits on this thread for the result of a task. Returns `None` in these cases:
///
/// - If the task ended without a result, for example because its runtime has dropped it.
/// - If `progress` has not grown for `patience`, because no thread runs the runtime. The function
///   then aborts the task.
///
/// Unlike tokio's own ways of blocking, this function does not panic on a thread of a runtime.
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
