//! Parts of a model besides the bus: the border of the exploration, an event, and a sign.

use std::time::Duration;

use loom::sync::Notify;

use crate::bus::Broadcaster;
use crate::sync::Arc;
use crate::sync::atomic::{AtomicBool, Ordering};

/// Lets the dispatcher do what it was given and go to sleep. A part of a set-up that is not
/// explored.
///
/// # Panics
///
/// If the bus does not take a flush.
pub fn rest<T: Clone + Send + Sync + 'static>(bus: &Broadcaster<T>) {
    // This thread sleeps meanwhile, and runs again when the dispatcher sleeps. Yielding would not
    // do: loom prefers any other thread to one that has yielded in vain, for as long as there is
    // one.
    bus.flush(Duration::from_secs(1)).expect("the dispatcher answers");
}

/// Begins to explore, behind a set-up of which one schedule is run. The model asks for it with
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

/// An event that loom misses when it is leaked, and that is told from others by its number.
///
/// An event of your own type is tracked if it holds one under `--cfg eventcast_loom`.
#[derive(Clone, Debug)]
pub struct Payload {
    number: u32,
    _tracked: Arc<()>,
}

impl Payload {
    /// Makes an event of this number.
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

/// Says, when it is dropped, that whoever held it is no more.
#[derive(Debug)]
pub struct Sign(Arc<(AtomicBool, Notify)>);

/// Waits for the drop of a [`Sign`].
#[derive(Debug)]
pub struct Gone(Arc<(AtomicBool, Notify)>);

impl Sign {
    /// Makes a sign, and what waits for it.
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
    /// Waits for the drop of the sign.
    ///
    /// # Blocking
    ///
    /// A sign that is never dropped is a deadlock, which loom reports.
    pub fn wait(self) {
        // Acquire: pairs with the Release of the drop. `wait` also returns for no reason.
        while !self.0.0.load(Ordering::Acquire) {
            self.0.1.wait();
        }
    }
}
