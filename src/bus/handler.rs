//! Handlers: a watcher that the library reads, on a thread of its own or wherever its runner is run.

use std::fmt;
use std::time::Duration;

use crate::guard::guarded;
use crate::stats::WatcherStats;
use crate::sync::Arc;

use super::core::Core;
use super::current::{OnBus, on_bus};
use super::hub::Hub;
use super::inbox::{Inbox, Next};
use super::watcher::Delivery;

/// Learns, on the handler's thread, of the watcher's name and of what the handler panicked at.
pub(super) type OnPanic<T> = Box<dyn FnMut(&str, Delivery<&T>) + Send>;

/// A handler and its watcher, to be [`run`](Self::run) on a thread of your choice, or awaited on any executor (feature
/// `async`).
///
/// Flush and shutdown wait for it until it has come to its end or has been dropped, so one of the two must happen.
#[must_use = "a handler does nothing until it is run, and shutdown waits for it"]
pub struct Runner<T, H> {
    /// In this order: who waits for the end also waits for the closure's destructor.
    running: Option<(Handler<T, H>, Inbox<T>)>,
    handle: WatchHandle,
}

/// The handler itself, and what becomes of its panics.
pub(super) struct Handler<T, H> {
    pub(super) run: H,
    pub(super) on_panic: Option<OnPanic<T>>,
    pub(super) stop_on_panic: bool,
}

impl<T, H: FnMut(Delivery<&T>)> Handler<T, H> {
    /// False: it panicked, and that is to be the end.
    fn call(&mut self, core: &Core, delivery: Delivery<&T>) -> bool {
        if guarded(|| (self.run)(delivery)).is_some() {
            return true;
        }
        core.count_panic();
        if let Some(tell) = &mut self.on_panic {
            guarded(|| tell(&core.name, delivery));
        }
        !self.stop_on_panic
    }
}

impl<T, H: FnMut(Delivery<&T>)> Runner<T, H> {
    pub(super) fn new(inbox: Inbox<T>, handler: Handler<T, H>) -> Self {
        let handle = WatchHandle::new(&inbox);
        Self { running: Some((handler, inbox)), handle }
    }

    /// Stops the handler, waits for it, and reads its counters, from wherever it is kept.
    pub fn handle(&self) -> WatchHandle {
        self.handle.clone()
    }

    /// Handles everything that comes, until the watcher is stopped or the bus has ended.
    ///
    /// A panic of the handler is caught and counted in [`WatcherStats::panics`]; the next event is handled as usual,
    /// unless [`stop_on_panic`](crate::WatchBuilder::stop_on_panic) was asked for. After a shutdown by deadline the rest
    /// of the queue is given up.
    ///
    /// # Blocking
    ///
    /// Until the end. In an async task, await the runner instead (feature `async`).
    pub fn run(mut self) {
        let _on_bus = self.enter();
        while let Some(inbox) = self.inbox() {
            match inbox.wait(None) {
                Next::Empty | Next::End => break,
                next => self.handle_next(next),
            }
        }
        self.finish();
    }

    pub(super) fn enter(&self) -> OnBus {
        OnBus::enter(self.handle.hub.id)
    }

    /// Where the next event comes from, unless it is over.
    pub(super) fn inbox(&mut self) -> Option<&mut Inbox<T>> {
        if self.handle.hub.is_abandoned() {
            self.finish();
        }
        self.running.as_mut().map(|(_, inbox)| inbox)
    }

    /// Handles one delivery, which the inbox has just announced.
    pub(super) fn handle_next(&mut self, next: Next) {
        let Some((handler, inbox)) = &mut self.running else { return };
        let goes_on = match (next, inbox.events().first()) {
            (Next::Event, Some(event)) => {
                let goes_on = handler.call(&inbox.core, Delivery::Event(event));
                inbox.pass(1);
                goes_on
            }
            (Next::Lagged(count), _) => handler.call(&inbox.core, Delivery::Lagged(count)),
            _ => true,
        };
        if !goes_on {
            self.finish();
        }
    }
}

impl<T, H> Runner<T, H> {
    pub(super) fn finish(&mut self) {
        if let Some((handler, inbox)) = self.running.take() {
            guarded(|| drop(handler));
            drop(inbox);
        }
    }
}

impl<T, H> Drop for Runner<T, H> {
    /// Everybody who waits for the end waits for this, so a destructor of the handler's that calls
    /// back must not wait.
    fn drop(&mut self) {
        on_bus(self.handle.hub.id, || self.finish());
    }
}

impl<T, H> fmt::Debug for Runner<T, H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Runner").field("name", &self.handle.core.name).finish_non_exhaustive()
    }
}

/// Something that runs on its own. Dropping the handle leaves it running until the bus ends.
#[derive(Clone)]
pub struct WatchHandle {
    core: Arc<Core>,
    hub: Arc<Hub>,
}

impl WatchHandle {
    pub(super) fn new<T>(inbox: &Inbox<T>) -> Self {
        Self { core: inbox.core.clone(), hub: inbox.hub.clone() }
    }

    /// The thread's name is the watcher's.
    pub(super) fn thread_name(&self) -> String {
        self.core.name.to_string()
    }

    /// Ends the offering: what is queued is still handled, then the handler ends. Never waits.
    pub fn stop(&self) {
        self.hub.stop(&self.core);
    }

    /// Waits until it has ended; false at the timeout. On a thread of the same bus it does not wait.
    ///
    /// # Blocking
    ///
    /// At most `timeout`. In an async task, await the [`Runner`] itself, or the end of the bus with `shutdown_async`
    /// (feature `async`).
    pub fn join(&self, timeout: Duration) -> bool {
        let deadline = self.hub.clock.deadline(if self.hub.is_current() { Duration::ZERO } else { timeout });
        self.hub.done.wait(&self.hub.clock, deadline, || self.core.is_finished().then_some(())).is_ok()
    }

    /// The watcher's counters.
    pub fn stats(&self) -> WatcherStats {
        self.core.stats()
    }
}

/// For handlers that are the library's own.
#[cfg(feature = "recorder")]
impl WatchHandle {
    pub(crate) fn name(&self) -> &str {
        &self.core.name
    }

    /// Whether the handler has come to its end.
    pub(crate) fn is_finished(&self) -> bool {
        self.core.is_finished()
    }
}

impl fmt::Debug for WatchHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WatchHandle").field("name", &self.core.name).finish_non_exhaustive()
    }
}
