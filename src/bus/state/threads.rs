//! The threads started by a bus, which are the dispatcher's thread and the handlers' threads. A
//! shutdown waits until each thread has reached its last step, and then joins the thread, so that
//! the program's code may be unloaded afterwards.

use std::io;

use crate::bus::wait::WaitQueue;
use crate::sync::{Arc, Mutex, thread};

pub(crate) struct Threads {
    started: Mutex<Started>,
    /// The queue in which a shutdown waits for the threads, among other things.
    done: Arc<WaitQueue>,
}

struct Started {
    /// The number of marks. There is one mark for each thread that has not reached its last step,
    /// and one for each thread that is not in `handles` yet.
    running: usize,
    /// The threads that have not been joined yet.
    handles: Vec<thread::JoinHandle<()>>,
}

impl Threads {
    pub(crate) fn new(done: Arc<WaitQueue>) -> Self {
        Self { started: Mutex::new(Started { running: 0, handles: Vec::new() }), done }
    }

    /// Returns whether each thread has reached its last step. After that step, a thread neither
    /// runs user code nor waits for another thread.
    pub(crate) fn are_leaving(&self) -> bool {
        self.started.lock().running == 0
    }

    /// If each thread has reached its last step, joins all threads and returns `true`. If not,
    /// returns `false` immediately. Waits only for the threads' last steps.
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

    /// Starts a named thread that a shutdown will wait for.
    pub(crate) fn spawn<F>(threads: &Arc<Self>, name: String, run: F) -> io::Result<()>
    where
        F: FnOnce() + Send + 'static,
    {
        // If the system cannot start a thread, dropping the closure removes the first mark, and
        // runs the destructors of user-supplied values. No lock is held at this point.
        let (runs, is_unlisted) = (Running::mark(threads), Running::mark(threads));
        let handle = thread::spawn(name, move || {
            // The thread's mark is dropped last.
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

/// Marks that a thread of the bus is running or being started. Dropping the mark is the thread's
/// last step.
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
        // No fence is needed, because a shutdown reads the number while holding the lock. See
        // `WaitQueue::wake`.
        self.0.done.wake_all();
    }
}
