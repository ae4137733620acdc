//! Events, buses and signs for the models.

use std::sync::atomic::Ordering;

use eventcast::{Broadcaster, BusOptions, Delivery, FakeClock, OverflowPolicy, Watcher};
use loom::sync::atomic::AtomicBool as AtomicFlag;
use loom::sync::{Arc, Notify};

/// An event that loom misses when it is leaked, and that is told from others by its number.
#[derive(Clone, Debug)]
pub struct Payload {
    number: u32,
    _tracked: Arc<()>,
}

impl Payload {
    /// An event of this number.
    #[must_use]
    pub fn new(number: u32) -> Self {
        Self { number, _tracked: Arc::new(()) }
    }

    /// The number.
    #[must_use]
    pub fn number(&self) -> u32 {
        self.number
    }
}

/// A bus with these queues, whose watchers have this policy.
///
/// # Panics
///
/// If an option is out of range.
#[must_use]
pub fn bus(incoming: usize, queue: usize, policy: OverflowPolicy) -> Broadcaster<Payload> {
    bus_of(incoming, queue, policy)
}

/// The same, by this clock.
///
/// # Panics
///
/// If an option is out of range.
#[must_use]
pub fn bus_at(
    clock: &FakeClock,
    incoming: usize,
    queue: usize,
    policy: OverflowPolicy,
) -> Broadcaster<Payload> {
    let options = BusOptions::default().incoming_len(incoming).queue_len(queue).overflow(policy);
    Broadcaster::with_clock(options, clock.clock()).expect("the options are in range")
}

/// The same, of other events.
///
/// # Panics
///
/// If an option is out of range.
#[must_use]
pub fn bus_of<T>(incoming: usize, queue: usize, policy: OverflowPolicy) -> Broadcaster<T>
where
    T: Clone + Send + Sync + 'static,
{
    let options = BusOptions::default().incoming_len(incoming).queue_len(queue).overflow(policy);
    Broadcaster::with_options(options).expect("the options are in range")
}

/// Says, when it is dropped, that whoever held it is no more.
#[derive(Debug)]
pub struct Sign(Arc<(AtomicFlag, Notify)>);

/// Waits for the drop of a [`Sign`].
#[derive(Debug)]
pub struct Gone(Arc<(AtomicFlag, Notify)>);

impl Sign {
    /// A sign and who waits for it.
    #[must_use]
    pub fn new() -> (Self, Gone) {
        let shared = Arc::new((AtomicFlag::new(false), Notify::new()));
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
    /// A sign that is never dropped is a deadlock, which loom reports.
    pub fn wait(self) {
        // Acquire: pairs with the Release of the drop. `wait` also returns for no reason.
        while !self.0.0.load(Ordering::Acquire) {
            self.0.1.wait();
        }
    }
}

/// Reads to the end: the numbers of the events, and how many were lost.
pub fn numbers(watcher: &mut Watcher<Payload>) -> (Vec<u32>, u64) {
    let (mut events, mut lost) = (Vec::new(), 0);
    for delivery in watcher {
        match delivery {
            Delivery::Event(event) => events.push(event.number()),
            Delivery::Lagged(count) => lost += count,
        }
    }
    (events, lost)
}
