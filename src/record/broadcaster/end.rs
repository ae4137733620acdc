//! Waits for a broadcaster's events to be handled, in particular when the broadcaster is dropped.

use std::time::Duration;

use crate::bus::{Broadcaster, WatchHandle};
use crate::record::event::Event;
use crate::record::loss::{Loss, LossReason};
use crate::sync::thread;

use super::Shared;

impl Shared {
    /// Adds a handler to the list of handlers that dropping the broadcaster waits for, and returns
    /// the handler's handle.
    pub(super) fn listed(&self, handle: WatchHandle) -> WatchHandle {
        let mut handlers = self.handlers.lock();
        handlers.retain(|handler| !handler.is_finished());
        handlers.push(handle.clone());
        handle
    }

    /// Calls `wait`, which waits for the bus. If a sink needs the current thread, the thread counts
    /// as one of the bus's threads during the call, so `wait` does not block.
    pub(super) fn waiting<R>(&self, wait: impl FnOnce(&Broadcaster<Event>) -> R) -> R {
        match self.recordings.that_needs_this_thread() {
            Some(recording) => recording.on_bus_thread(|| wait(&self.bus)),
            None => wait(&self.bus),
        }
    }

    /// Waits at most `drop_timeout` for the handlers, and for the recordings whose sinks do not
    /// need the current thread.
    fn wait_for_others(&self, handlers: &[WatchHandle]) {
        let clock = self.clock.for_the_end();
        let deadline = clock.deadline(self.drop_timeout);
        let left = || {
            let now = clock.deadline(Duration::ZERO).unwrap_or(Duration::MAX);
            deadline.map_or(Duration::MAX, |deadline| deadline.saturating_sub(now))
        };
        for handler in handlers {
            let _ = handler.join(left());
        }
        self.recordings.join_others(left);
    }

    /// Reports the events that recordings, handlers and logs have not handled yet.
    fn report_left_behind(&self, handlers: &[WatchHandle]) {
        let handlers = handlers.iter().filter(|handler| !handler.is_finished()).map(|handler| {
            let stats = handler.stats();
            (stats.lag, stats.name)
        });
        let recordings = self.recordings.unhandled();
        for (events, name) in handlers.chain(recordings) {
            self.losses.tell(&Loss::of(LossReason::LeftBehind, &name, events));
        }
    }
}

impl Drop for Shared {
    /// Closes the broadcaster, and waits at most `drop_timeout` for all recorded events to be
    /// handled. Then reports the events that have not been handled yet. These events will still be
    /// handled as long as the process keeps running. On one of this broadcaster's own threads,
    /// `drop` does not wait at all. On a thread that a sink needs, `drop` does not wait for that
    /// sink.
    fn drop(&mut self) {
        self.bus.close();
        // A fake clock no longer advances once the test that drives the clock has failed.
        let is_stuck = self.clock.is_fake() && thread::panicking();
        if self.drop_timeout.is_zero() || is_stuck || self.bus.is_current() {
            return;
        }
        let handlers = std::mem::take(&mut *self.handlers.lock());
        if self.recordings.that_needs_this_thread().is_some() {
            self.wait_for_others(&handlers);
        } else {
            self.bus.wait_ended(self.drop_timeout);
        }
        self.report_left_behind(&handlers);
    }
}
