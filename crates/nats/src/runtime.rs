//! Runs a bridge's task, either on a separate thread or on the program's runtime.

use std::io;
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};
use tokio::runtime::{Builder, Handle};

use crate::client::{Connection, Settings};
use crate::error::BuildError;
use crate::options::ConnectionOptions;

/// The name of the thread that a bridge starts.
const THREAD: &str = "eventcast-nats";

/// A one-shot signal, used for example to report that a task has ended.
#[derive(Clone, Default)]
pub(crate) struct Signal(Arc<(Mutex<bool>, Condvar)>);

/// Sets the signal when dropped, including during a panic.
struct Finish(Signal);

impl Drop for Finish {
    fn drop(&mut self) {
        self.0.set();
    }
}

impl Signal {
    pub(crate) fn set(&self) {
        let (is_set, changed) = &*self.0;
        *is_set.lock() = true;
        changed.notify_all();
    }

    /// Waits until the signal is set or the deadline has passed. Returns whether the signal is set.
    pub(crate) fn wait_until(&self, deadline: Instant) -> bool {
        let (is_set, changed) = &*self.0;
        let mut is_set = is_set.lock();
        while !*is_set {
            if changed.wait_until(&mut is_set, deadline).timed_out() {
                break;
            }
        }
        *is_set
    }

    pub(crate) fn is_given(&self) -> bool {
        *self.0.0.lock()
    }
}

/// Opens a connection on the program's runtime, or on a new thread with its own runtime. Then runs
/// the future that `task` returns for this connection, on the same runtime. Waits for a connection
/// to a server only if `within` limits the time to connect.
pub(crate) fn connect_and_run<F, R>(
    handle: Option<Handle>,
    options: &ConnectionOptions,
    capacity: usize,
    within: Option<Duration>,
    task: F,
) -> Result<Signal, BuildError>
where
    F: FnOnce(Connection) -> R + Send + 'static,
    R: Future<Output = ()> + Send + 'static,
{
    let settings = Settings::new(options)?;
    let (told, opened) = mpsc::channel();
    // If the calling thread also drives the program's runtime, the task cannot report anything
    // before this function returns. With the program's runtime, this function therefore waits only
    // if `within` requires a connection.
    let waits = within.is_some() || handle.is_none();
    let finished = start(handle, async move {
        match Connection::open(settings, capacity, within).await {
            Ok(connection) => {
                // An error means that the caller is not waiting.
                let _ = told.send(Ok(()));
                task(connection).await;
            }
            Err(error) => {
                let _ = told.send(Err(error));
            }
        }
    });
    let finished = finished.map_err(BuildError::Thread)?;
    if waits {
        let ended = || Err(BuildError::Thread(io::Error::other("the thread ended immediately")));
        opened.recv().unwrap_or_else(|_| ended())?;
    }
    Ok(finished)
}

/// Runs a task on the program's runtime, or on a new thread with its own runtime.
fn start<F>(handle: Option<Handle>, task: F) -> io::Result<Signal>
where
    F: Future<Output = ()> + Send + 'static,
{
    let finished = Signal::default();
    let finish = Finish(finished.clone());
    if let Some(handle) = handle {
        // If the task panics, everything that it owns is dropped, including `finish`.
        handle.spawn(async move {
            let _finish = finish;
            task.await;
        });
    } else {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        thread::Builder::new().name(THREAD.to_owned()).spawn(move || {
            let _finish = finish;
            runtime.block_on(task);
            // Do not wait for blocking operations that are still running, such as resolving a host
            // name.
            runtime.shutdown_timeout(Duration::ZERO);
        })?;
    }
    Ok(finished)
}
