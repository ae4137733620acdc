//! The running flushes. While any flush is running, no recording holds writes.

use crate::sync::Arc;
use crate::sync::atomic::{AtomicUsize, Ordering};

#[derive(Default)]
pub(super) struct Flushes {
    running: AtomicUsize,
}

/// A guard for a running flush, which ends when the guard is dropped.
pub(crate) struct RunningFlush(Arc<Flushes>);

impl Flushes {
    /// Begins a flush. The caller must then wake the recordings.
    pub(super) fn begin(self: &Arc<Self>) -> RunningFlush {
        // Relaxed: the fence in `wake` orders this increment before the read of the recording's
        // cell. That fence pairs with the recording's fence between arming the cell and its last
        // check.
        self.running.fetch_add(1, Ordering::Relaxed);
        RunningFlush(self.clone())
    }

    pub(super) fn is_running(&self) -> bool {
        // Relaxed: no data depends on the value.
        self.running.load(Ordering::Relaxed) > 0
    }
}

impl Drop for RunningFlush {
    fn drop(&mut self) {
        // Relaxed: a count. If a recording reads a stale value, it only writes earlier than
        // necessary.
        self.0.running.fetch_sub(1, Ordering::Relaxed);
    }
}
