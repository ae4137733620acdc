//! Parts of a model besides the bus: the limits of the exploration, an event, and a sign.

use std::time::Duration;

use loom::sync::Notify;

use crate::bus::Broadcaster;
use crate::sync::Arc;
use crate::sync::atomic::{AtomicBool, Ordering};

/// Lets the dispatcher finish its work and go to sleep. It belongs to a set-up that is not
/// explored.
///
/// # Panics
///
/// If a flush of the bus fails.
pub fn rest<T: Clone + Send + Sync + 'static>(bus: &Broadcaster<T>) {
    // This thread sleeps until the dispatcher sleeps. Yielding is not enough: as long as there is
    // any other thread, loom prefers it to a thread that has yielded in vain.
    bus.flush(Duration::from_secs(1)).expect("the dispatcher answers");
}

/// Begins to explore, after a set-up that runs in one schedule. The model asks for this with
/// [`Exploration::after_set_up`](super::Exploration::after_set_up).
///
/// # Panics
///
/// If the model is explored from its beginning, or outside of a model.
#[doc(alias = "explore")]
pub fn begin() {
    loom::explore();
}

/// Stops exploring. The rest of the model runs in one schedule.
///
/// # Panics
///
/// If nothing is explored now, or outside of a model.
#[doc(alias = "stop_exploring")]
pub fn finish() {
    loom::stop_exploring();
}

/// An event that loom reports if it leaks. Its number distinguishes it from others.
///
/// An event of your own type is tracked if it holds a `Payload` under `--cfg eventcast_loom`.
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
    /// Outside of a model.
    #[must_use]
    pub fn new(number: u32) -> Self {
        Self { number, _tracked: Arc::new(()) }
    }

    /// Returns the number.
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
    /// Outside of a model.
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
    /// Waits forever if the sign is never dropped. That is a deadlock, which loom reports.
    pub fn wait(self) {
        // Acquire: pairs with the Release of the drop.
        // `Notify::wait` may return spuriously, so this is a loop.
        while !self.0.0.load(Ordering::Acquire) {
            self.0.1.wait();
        }
    }
}
