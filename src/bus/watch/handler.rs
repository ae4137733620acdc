//! Handlers: a watcher that the library reads, on a thread of its own or wherever its runner is run.

use std::fmt;
use std::time::Duration;

use crate::bus::mailbox::{MailboxReceiver, Next};
use crate::bus::state::{Lifecycle, WatcherState};
use crate::bus::wait::{BusThread, on_bus_thread};
use crate::catch::catch_panic;
use crate::stats::WatcherStats;
use crate::sync::Arc;

use super::watcher::Delivery;

/// Learns, on the handler's thread, of the watcher's name and of what the handler panicked at.
pub(crate) type OnPanic<T> = Box<dyn FnMut(&str, Delivery<&T>) + Send>;

/// A handler and its watcher, to be [`run`](Self::run) on a thread of your choice, or awaited on any executor.
///
/// Flush and shutdown wait for it until it has come to its end or has been dropped, so one of the two must happen.
#[must_use = "a handler does nothing until it is run, and shutdown waits for it"]
pub struct Runner<T, H> {
    /// In this order: who waits for the end also waits for the closure's destructor.
    running: Option<(Handler<T, H>, MailboxReceiver<T>)>,
    handle: WatchHandle,
}

/// The handler itself, and what becomes of its panics.
pub(crate) struct Handler<T, H> {
    pub(crate) run: H,
    pub(crate) on_panic: Option<OnPanic<T>>,
    pub(crate) stop_on_panic: bool,
}

impl<T, H: FnMut(Delivery<&T>)> Handler<T, H> {
    /// False: it panicked, and that is to be the end.
    fn call(&mut self, state: &WatcherState, delivery: Delivery<&T>) -> bool {
        if catch_panic(|| (self.run)(delivery)).is_some() {
            return true;
        }
        state.count_panic();
        if let Some(tell) = &mut self.on_panic {
            catch_panic(|| tell(&state.name, delivery));
        }
        !self.stop_on_panic
    }
}

impl<T, H: FnMut(Delivery<&T>)> Runner<T, H> {
    pub(crate) fn new(receiver: MailboxReceiver<T>, handler: Handler<T, H>) -> Self {
        let handle = WatchHandle::new(&receiver);
        Self { running: Some((handler, receiver)), handle }
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
    /// Until the end. In an async task, await the runner instead.
    pub fn run(mut self) {
        let _mark = self.enter();
        while let Some(receiver) = self.receiver() {
            match receiver.wait(None) {
                Next::Empty | Next::End => break,
                next => self.handle_next(next),
            }
        }
        self.finish();
    }

    pub(crate) fn enter(&self) -> BusThread {
        BusThread::enter(self.handle.lifecycle.id)
    }

    /// Where the next event comes from, unless it is over.
    pub(crate) fn receiver(&mut self) -> Option<&mut MailboxReceiver<T>> {
        if self.handle.lifecycle.is_abandoned() {
            self.finish();
        }
        self.running.as_mut().map(|(_, receiver)| receiver)
    }

    /// Handles one delivery, which the inbox has just announced.
    pub(crate) fn handle_next(&mut self, next: Next) {
        let Some((handler, receiver)) = &mut self.running else { return };
        let goes_on = match (next, receiver.events().first()) {
            (Next::Event, Some(event)) => {
                let goes_on = handler.call(&receiver.state, Delivery::Event(event));
                receiver.advance(1);
                goes_on
            }
            (Next::Lagged(count), _) => handler.call(&receiver.state, Delivery::Lagged(count)),
            _ => true,
        };
        if !goes_on {
            self.finish();
        }
    }
}

impl<T, H> Runner<T, H> {
    pub(crate) fn finish(&mut self) {
        if let Some((handler, receiver)) = self.running.take() {
            catch_panic(|| drop(handler));
            drop(receiver);
        }
    }
}

impl<T, H> Drop for Runner<T, H> {
    /// Everybody who waits for the end waits for this, so a destructor of the handler's that calls
    /// back must not wait.
    fn drop(&mut self) {
        on_bus_thread(self.handle.lifecycle.id, || self.finish());
    }
}

impl<T, H> fmt::Debug for Runner<T, H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Runner").field("name", &self.handle.state.name).finish_non_exhaustive()
    }
}

/// Something that runs on its own. Dropping the handle leaves it running until the bus ends.
#[derive(Clone)]
pub struct WatchHandle {
    state: Arc<WatcherState>,
    lifecycle: Arc<Lifecycle>,
}

impl WatchHandle {
    pub(crate) fn new<T>(receiver: &MailboxReceiver<T>) -> Self {
        Self { state: receiver.state.clone(), lifecycle: receiver.lifecycle.clone() }
    }

    /// The thread's name is the watcher's.
    pub(crate) fn thread_name(&self) -> String {
        self.state.name.to_string()
    }

    /// Ends the offering: what is queued is still handled, then the handler ends. Never waits.
    pub fn stop(&self) {
        self.lifecycle.stop(&self.state);
    }

    /// Waits until it has ended; false at the timeout. On a thread of the same bus it does not wait.
    ///
    /// # Blocking
    ///
    /// At most `timeout`. In an async task, await the [`Runner`] itself, or the end of the bus with `shutdown_async`
    ///.
    pub fn join(&self, timeout: Duration) -> bool {
        let deadline =
            self.lifecycle.clock.deadline(if self.lifecycle.is_current() { Duration::ZERO } else { timeout });
        self.lifecycle
            .done
            .wait(&self.lifecycle.clock, deadline, || self.state.is_finished().then_some(()))
            .is_ok()
    }

    /// The watcher's counters.
    pub fn stats(&self) -> WatcherStats {
        self.state.stats()
    }
}

/// For handlers that are the library's own.
#[cfg(feature = "recorder")]
impl WatchHandle {
    pub(crate) fn name(&self) -> &str {
        &self.state.name
    }

    /// Whether the handler has come to its end.
    pub(crate) fn is_finished(&self) -> bool {
        self.state.is_finished()
    }
}

impl fmt::Debug for WatchHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WatchHandle").field("name", &self.state.name).finish_non_exhaustive()
    }
}
