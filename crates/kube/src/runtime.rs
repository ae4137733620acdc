//! The runtime on which requests run.

use std::convert::Infallible;
use std::future::Future;
use std::io;
use std::thread;

use tokio::runtime::{Builder, Handle};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

/// The name of the thread that a sink starts for its own runtime.
pub(crate) const THREAD: &str = "eventcast-kube";

/// The runtime for requests: the sink's own, or the caller's.
pub(crate) struct Runtime {
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
    pub(crate) fn of_caller(handle: Handle) -> Self {
        Self { handle, stop: None }
    }

    /// Starts a runtime on a new thread. One thread is enough, because the work for a request is
    /// short.
    pub(crate) fn own() -> io::Result<Self> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let handle = runtime.handle().clone();
        let runtime = Background(Some(runtime));
        let (stop, stopped) = oneshot::channel::<Infallible>();
        thread::Builder::new().name(THREAD.to_owned()).spawn(move || {
            if let Some(runtime) = &runtime.0 {
                // The error means that the sender was dropped.
                let _: Result<Infallible, _> = runtime.block_on(stopped);
            }
        })?;
        Ok(Self { handle, stop: Some(stop) })
    }

    pub(crate) fn is_own(&self) -> bool {
        self.stop.is_some()
    }

    pub(crate) fn handle(&self) -> &Handle {
        &self.handle
    }

    pub(crate) fn spawn<T: Send + 'static>(
        &self,
        task: impl Future<Output = T> + Send + 'static,
    ) -> JoinHandle<T> {
        self.handle.spawn(task)
    }
}
