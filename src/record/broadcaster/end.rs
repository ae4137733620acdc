//! The waits of a broadcaster, and its drop.

use std::time::Duration;

use crate::bus::{Broadcaster, WatchHandle};
use crate::record::event::Event;
use crate::sync::thread;

use super::Shared;

impl Shared {
    /// Remembers a handler for the drop, and returns it.
    pub(super) fn listed(&self, handle: WatchHandle) -> WatchHandle {
        let mut handlers = self.handlers.lock();
        handlers.retain(|handler| !handler.is_finished());
        handlers.push(handle.clone());
        handle
    }

    /// Calls `wait`, which waits for the bus. If a sink needs this thread, the thread counts as one
    /// of the bus's own during the call, so `wait` does not wait.
    pub(super) fn waiting<R>(&self, wait: impl FnOnce(&Broadcaster<Event>) -> R) -> R {
        match self.recordings.that_needs_this_thread() {
            Some(recording) => recording.on_bus_thread(|| wait(&self.bus)),
            None => wait(&self.bus),
        }
    }

    /// Waits at most `drop_timeout` for everything that does not need this thread.
    fn wait_for_others(&self) {
        let deadline = self.clock.deadline(self.drop_timeout);
        let left = || {
            let now = self.clock.deadline(Duration::ZERO).unwrap_or(Duration::MAX);
            deadline.map_or(Duration::MAX, |deadline| deadline.saturating_sub(now))
        };
        let handlers = std::mem::take(&mut *self.handlers.lock());
        for handler in handlers {
            handler.join(left());
        }
        self.recordings.join_others(left);
    }
}

impl Drop for Shared {
    /// Closes the broadcaster, and waits at most `drop_timeout` until all recorded events are
    /// handled. Events that are not handled by then are not given up, if the process lives on. On a
    /// thread of this broadcaster, the drop does not wait, and on a thread that a sink needs, it
    /// does not wait for this sink.
    fn drop(&mut self) {
        self.bus.close();
        // A fake clock stands still if the test that should move the clock has failed.
        if self.drop_timeout.is_zero() || (self.clock.is_fake() && thread::panicking()) {
            return;
        }
        if self.recordings.that_needs_this_thread().is_some() {
            self.wait_for_others();
        } else {
            self.bus.wait_ended(self.drop_timeout);
        }
    }
}
