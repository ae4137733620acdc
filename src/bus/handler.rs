//! Handlers: a watcher that the library reads, on a thread of its own or wherever its runner is run.

use std::fmt;
use std::time::Duration;

use crate::guard::guarded;
use crate::stats::WatcherStats;
use crate::sync::Arc;

use super::core::Core;
use super::current::OnBus;
use super::hub::Hub;
use super::inbox::{Inbox, Next};
use super::watcher::Delivery;

/// Learns, on the handler's thread, of the watcher's name and of what the handler panicked at.
pub(super) type OnPanic<T> = Box<dyn FnMut(&str, Delivery<&T>) + Send>;

/// A handler and its watcher, to be [`run`](Self::run) on a thread of your choice.
///
/// Flush and shutdown wait for it until it has run to the end or has been dropped, so one of the two must happen.
#[must_use = "a handler does nothing until it is run, and shutdown waits for it"]
pub struct Runner<T, H> {
    handler: H,
    on_panic: Option<OnPanic<T>>,
    stop_on_panic: bool,
    /// After the handler, so that who waits for the end also waits for the closure's destructor.
    inbox: Inbox<T>,
}

impl<T, H: FnMut(Delivery<&T>)> Runner<T, H> {
    pub(super) fn new(
        inbox: Inbox<T>,
        handler: H,
        on_panic: Option<OnPanic<T>>,
        stop_on_panic: bool,
    ) -> Self {
        Self { handler, on_panic, stop_on_panic, inbox }
    }

    /// Handles everything that comes, until the watcher is stopped or the bus has ended.
    ///
    /// A panic of the handler is caught and counted in [`WatcherStats::panics`]; the next event is handled as usual,
    /// unless [`stop_on_panic`](crate::WatchBuilder::stop_on_panic) was asked for. After a shutdown by deadline the rest
    /// of the queue is given up.
    ///
    /// # Blocking
    ///
    /// Until the end.
    pub fn run(mut self) {
        let _on_bus = OnBus::enter(self.inbox.hub.id);
        while !self.inbox.hub.is_abandoned() {
            let goes_on = match self.inbox.wait(None) {
                Next::Event => self.handle_slice(),
                Next::Lagged(count) => self.call(Some(count)),
                Next::Empty | Next::End => false,
            };
            if !goes_on {
                break;
            }
        }
        let Self { handler, on_panic, inbox, .. } = self;
        guarded(|| drop(handler));
        drop(on_panic);
        drop(inbox);
    }

    /// Handles what is in hand. False: that is the end.
    fn handle_slice(&mut self) -> bool {
        while !self.inbox.events().is_empty() {
            if self.inbox.hub.is_abandoned() {
                break;
            }
            let goes_on = self.call(None);
            self.inbox.pass(1);
            if !goes_on {
                return false;
            }
        }
        true
    }

    /// Calls the handler with a gap, or with the first event in hand. False: it panicked, and that is to be the end.
    fn call(&mut self, lagged: Option<u64>) -> bool {
        let Self { handler, on_panic, stop_on_panic, inbox } = self;
        let delivery = match (lagged, inbox.events().first()) {
            (Some(count), _) => Delivery::Lagged(count),
            (None, Some(event)) => Delivery::Event(event),
            (None, None) => return true,
        };
        if guarded(|| handler(delivery)).is_some() {
            return true;
        }
        inbox.core.count_panic();
        if let Some(tell) = on_panic {
            guarded(|| tell(&inbox.core.name, delivery));
        }
        !*stop_on_panic
    }
}

impl<T, H> fmt::Debug for Runner<T, H> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Runner").field("name", &self.inbox.core.name).finish_non_exhaustive()
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

    /// Ends the offering: what is queued is still handled, then the handler ends. Never waits.
    pub fn stop(&self) {
        self.hub.stop(&self.core);
    }

    /// Waits until it has ended; false at the timeout. On a thread of the same bus it does not wait.
    ///
    /// # Blocking
    ///
    /// At most `timeout`.
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

    /// Whether the handler should come to its end: it was stopped, or the bus is closed.
    pub(crate) fn is_ending(&self) -> bool {
        self.core.is_stopped() || self.hub.is_closing()
    }

    /// Waits for `time` to pass, by the bus's clock. False: the end came first.
    pub(crate) fn pause(&self, time: Duration) -> bool {
        let deadline = self.hub.clock.deadline(time);
        self.hub.pauses.wait(&self.hub.clock, deadline, || self.is_ending().then_some(())).is_err()
    }
}

impl fmt::Debug for WatchHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WatchHandle").field("name", &self.core.name).finish_non_exhaustive()
    }
}
