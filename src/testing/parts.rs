//! Parts of a model besides the bus, namely functions that limit the exploration, an event, and a
//! sign.

use std::time::Duration;

use loom::sync::Notify;

use crate::bus::Broadcaster;
use crate::sync::Arc;
use crate::sync::atomic::{AtomicBool, Ordering};

/// Lets the dispatcher finish its work and go to sleep. Call this function in a set-up that is not
/// explored.
///
/// # Panics
///
/// Panics if a flush of the bus fails.
pub fn rest<T: Clone + Send + Sync + 'static>(bus: &Broadcaster<T>) {
    // This thread sleeps until the dispatcher sleeps. Yielding is not enough, because loom prefers
    // any other thread to a thread that has yielded in vain.
    bus.flush(Duration::from_secs(1)).expect("the dispatcher answers");
}

/// Starts the exploration after a set-up that runs in a single schedule. The model must be run with
/// [`Exploration::after_set_up`](super::Exploration::after_set_up).
///
/// # Panics
///
/// Panics if the model is explored from its beginning, or outside a model.
#[doc(alias = "explore")]
pub fn begin() {
    loom::explore();
}

/// Stops the exploration. The rest of the model runs in a single schedule.
///
/// # Panics
///
/// Panics if nothing is being explored, or outside a model.
#[doc(alias = "stop_exploring")]
pub fn finish() {
    loom::stop_exploring();
}

/// An event that loom reports if it leaks. The event's number distinguishes it from other events.
///
/// To track events of your own type, let them hold a `Payload` under `--cfg eventcast_loom`.
#[derive(Clone, Debug)]
pub struct Payload {
    number: u32,
    _tracked: Arc<()>,
}

impl Payload {
    /// Creates an event with this number.
    ///
    /// # Panics
    ///
    /// Panics outside a model.
    #[must_use]
    pub fn new(number: u32) -> Self {
        Self { number, _tracked: Arc::new(()) }
    }

    /// Returns the event's number.
    #[must_use]
    pub fn number(&self) -> u32 {
        self.number
    }
}

/// A value that, when it is dropped, signals that its holder has been dropped.
#[derive(Debug)]
pub struct Sign(Arc<(AtomicBool, Notify)>);

/// A handle that waits until a [`Sign`] is dropped.
#[derive(Debug)]
pub struct Gone(Arc<(AtomicBool, Notify)>);

impl Sign {
    /// Creates a sign, and the handle that waits until the sign is dropped.
    ///
    /// # Panics
    ///
    /// Panics outside a model.
    #[must_use]
    pub fn new() -> (Self, Gone) {
        let shared = Arc::new((AtomicBool::new(false), Notify::new()));
        (Self(shared.clone()), Gone(shared))
    }
}

impl Drop for Sign {
    fn drop(&mut self) {
        // Release: pairs with the Acquire in `wait`.
        self.0.0.store(true, Ordering::Release);
        self.0.1.notify();
    }
}

impl Gone {
    /// Waits until the sign is dropped.
    ///
    /// # Blocking
    ///
    /// Blocks forever if the sign is never dropped. loom reports this as a deadlock.
    pub fn wait(self) {
        // Acquire: pairs with the Release of the drop.
        // `Notify::wait` may return spuriously, so it is called in a loop.
        while !self.0.0.load(Ordering::Acquire) {
            self.0.1.wait();
        }
    }
}
