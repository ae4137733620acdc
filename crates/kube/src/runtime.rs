//! The runtime that runs the requests.

use std::convert::Infallible;
use std::future::Future;
use std::io;
use std::sync::Arc;
use std::thread::{self, ThreadId};

use eventcast::sink::NeededThread;
use parking_lot::Mutex;
use tokio::runtime::{Builder, Handle, RuntimeFlavor};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

/// The name of the thread that a sink starts for its own runtime.
pub(crate) const THREAD: &str = "eventcast-kube";

/// The runtime that runs the requests, which is either the sink's own or the caller's.
pub(crate) struct Runtime {
    handle: Handle,
    /// Stops the sink's own runtime when this sender is dropped, or `None` for the caller's
    /// runtime. The sender never sends a value.
    stop: Option<oneshot::Sender<Infallible>>,
    /// The thread that runs the tasks, if the caller's runtime is single-threaded.
    only: Option<OnlyThread>,
}

/// The thread of the caller's single-threaded runtime. The thread is known once it has run a task.
/// The thread can change over time, because any thread may drive such a runtime for a while.
#[derive(Clone)]
struct OnlyThread {
    handle: Handle,
    seen: Arc<Mutex<Option<ThreadId>>>,
}

impl OnlyThread {
    /// Records that the calling thread runs the runtime's tasks.
    fn note(&self) {
        *self.seen.lock() = Some(thread::current().id());
    }

    fn is_current(&self) -> bool {
        match *self.seen.lock() {
            Some(seen) => seen == thread::current().id(),
            // The runtime has not run its first task yet. It would run the task as soon as its
            // thread awaits something, so if the calling thread belongs to the runtime, it is the
            // runtime's only thread.
            None => Handle::try_current().is_ok_and(|current| current.id() == self.handle.id()),
        }
    }
}

/// A runtime that does not block when it is dropped, so that any thread may drop it. A plain tokio
/// runtime panics if it is dropped within another runtime.
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
        let is_single = matches!(handle.runtime_flavor(), RuntimeFlavor::CurrentThread);
        let only = is_single.then(|| OnlyThread { handle: handle.clone(), seen: Arc::default() });
        let this = Self { handle, stop: None, only };
        if this.only.is_some() {
            this.spawn(async {});
        }
        this
    }

    /// Returns the thread that must not wait for the requests, or `None` if the requests do not
    /// depend on a particular thread.
    pub(crate) fn needed_thread(&self) -> Option<NeededThread> {
        let only = self.only.clone()?;
        Some(NeededThread::new(move || only.is_current()))
    }

    /// Starts a runtime on a new thread. A single thread is enough, because each request involves
    /// little work.
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
        Ok(Self { handle, stop: Some(stop), only: None })
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
        let only = self.only.clone();
        self.handle.spawn(async move {
            if let Some(only) = only {
                only.note();
            }
            task.await
        })
    }
}
