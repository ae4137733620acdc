//! The threads that a bus has started: the dispatcher's thread and the threads of handlers. A
//! shutdown waits until each thread is at its last step, and joins it, so that the code of the
//! program may be unloaded afterwards.

use std::io;

use crate::bus::wait::WaitQueue;
use crate::sync::{Arc, Mutex, thread};

pub(crate) struct Threads {
    started: Mutex<Started>,
    /// The place where a shutdown waits for the threads, among other things.
    done: Arc<WaitQueue>,
}

struct Started {
    /// The number of threads that have not reached their last step, or that are not in `handles`
    /// yet.
    running: usize,
    /// The threads that have not been joined.
    handles: Vec<thread::JoinHandle<()>>,
}

impl Threads {
    pub(crate) fn new(done: Arc<WaitQueue>) -> Self {
        Self { started: Mutex::new(Started { running: 0, handles: Vec::new() }), done }
    }

    /// Returns whether each thread has reached its last step. After that step a thread runs no user
    /// code, and waits for no other thread.
    pub(crate) fn are_leaving(&self) -> bool {
        self.started.lock().running == 0
    }

    /// Joins all threads if each has reached its last step. Returns whether this is so. Waits for
    /// these last steps only.
    pub(crate) fn join(&self) -> bool {
        let handles = {
            let mut started = self.started.lock();
            if started.running > 0 {
                return false;
            }
            std::mem::take(&mut started.handles)
        };
        handles.into_iter().for_each(thread::join_other);
        true
    }

    /// Starts a named thread for which a shutdown waits.
    pub(crate) fn spawn<F>(threads: &Arc<Self>, name: String, run: F) -> io::Result<()>
    where
        F: FnOnce() + Send + 'static,
    {
        // If the system cannot start a thread, dropping the closure undoes the first mark, and runs
        // the destructors of the user's values. No lock is held here.
        let (runs, is_unlisted) = (Running::mark(threads), Running::mark(threads));
        let handle = thread::spawn(name, move || {
            // Dropped last.
            let _runs = runs;
            run();
        })?;
        let mut started = threads.started.lock();
        started.handles.retain(|handle| !thread::is_finished(handle));
        started.handles.push(handle);
        drop(started);
        drop(is_unlisted);
        Ok(())
    }
}

/// A mark that a thread of the bus runs, or is being started. For a thread, dropping the mark is
/// its last step.
struct Running(Arc<Threads>);

impl Running {
    fn mark(threads: &Arc<Threads>) -> Self {
        threads.started.lock().running += 1;
        Self(threads.clone())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.0.started.lock().running -= 1;
        // No fence: a shutdown reads the number under the lock, see `WaitQueue::wake`.
        self.0.done.wake_all();
    }
}
