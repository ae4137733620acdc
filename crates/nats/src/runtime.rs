//! The runtime of a bridge: a thread of its own, or the program's.

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

/// A signal that is given once, such as that a task has ended.
#[derive(Clone, Default)]
pub(crate) struct Signal(Arc<(Mutex<bool>, Condvar)>);

/// Gives the signal when it is dropped, even by a panic.
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

    /// Waits for the signal until the deadline. Returns whether it came.
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

/// Opens a connection on the program's runtime, or on a new thread with a runtime of its own, and
/// runs there what `task` makes of it. Returns when the connection is opened, which needs no
/// server unless there is a time `within` which it must be there.
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
    // A task that runs on the thread that calls this cannot tell anything before this returns.
    let waits = within.is_some() || handle.is_none();
    let finished = start(handle, async move {
        match Connection::open(settings, capacity, within).await {
            Ok(connection) => {
                // An error means that the program does not wait.
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
        let ended = || Err(BuildError::Thread(io::Error::other("the thread has ended at once")));
        opened.recv().unwrap_or_else(|_| ended())?;
    }
    Ok(finished)
}

/// Runs a task on the program's runtime, or on a new thread with a runtime of its own.
fn start<F>(handle: Option<Handle>, task: F) -> io::Result<Signal>
where
    F: Future<Output = ()> + Send + 'static,
{
    let finished = Signal::default();
    let finish = Finish(finished.clone());
    if let Some(handle) = handle {
        // A task that a panic ends drops what it owns, also this one.
        handle.spawn(async move {
            let _finish = finish;
            task.await;
        });
    } else {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        thread::Builder::new().name(THREAD.to_owned()).spawn(move || {
            let _finish = finish;
            runtime.block_on(task);
            // The last words to the server leave, and nothing is waited for.
            runtime.shutdown_timeout(Duration::ZERO);
        })?;
    }
    Ok(finished)
}
