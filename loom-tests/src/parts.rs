//! Constructors for the buses used in the models, and helpers for reading from watchers.

use eventcast::error::TryRecvError;
use eventcast::testing::FakeClock;
use eventcast::testing::{Payload, Select};
use eventcast::{Broadcaster, BusOptions, Delivery, OverflowPolicy, Watcher};

/// Returns a bus with the given queue capacities, whose watchers use the given overflow policy.
/// Direct delivery is off, so the dispatcher handles every event and takes part in each race.
///
/// # Panics
///
/// Panics if an option is out of range.
#[must_use]
pub fn bus(incoming: usize, queue: usize, policy: OverflowPolicy) -> Broadcaster<Payload> {
    bus_of(incoming, queue, policy)
}

/// Returns the same kind of bus as [`bus`], but with the given clock.
///
/// # Panics
///
/// Panics if an option is out of range.
#[must_use]
pub fn bus_at(
    clock: &FakeClock,
    incoming: usize,
    queue: usize,
    policy: OverflowPolicy,
) -> Broadcaster<Payload> {
    let options = options(incoming, queue, policy).direct_delivery(false);
    Broadcaster::with_clock(options, clock.clock()).expect("the options are in range")
}

/// Returns the same kind of bus as [`bus`], but for events of any type.
///
/// # Panics
///
/// Panics if an option is out of range.
#[must_use]
pub fn bus_of<T>(incoming: usize, queue: usize, policy: OverflowPolicy) -> Broadcaster<T>
where
    T: Clone + Send + Sync + 'static,
{
    let options = options(incoming, queue, policy).direct_delivery(false);
    Broadcaster::with_options(options).expect("the options are in range")
}

/// Returns a bus that keeps `history` events for watchers that start in the past.
///
/// # Panics
///
/// Panics if an option is out of range.
#[must_use]
pub fn history_bus(history: usize, queue: usize, policy: OverflowPolicy) -> Broadcaster<Payload> {
    let options = options(2, queue, policy).history(history);
    Broadcaster::with_options(options).expect("the options are in range")
}

/// Returns the same kind of bus as [`bus`], but with direct delivery.
///
/// # Panics
///
/// Panics if an option is out of range.
#[must_use]
pub fn direct_bus(incoming: usize, queue: usize, policy: OverflowPolicy) -> Broadcaster<Payload> {
    Broadcaster::with_options(options(incoming, queue, policy)).expect("the options are in range")
}

/// Returns an inline bus whose watchers have the given queue capacity and overflow policy. A nested
/// call may add two entries.
///
/// # Panics
///
/// Panics if an option is out of range.
#[must_use]
pub fn inline_bus(queue: usize, policy: OverflowPolicy) -> Broadcaster<Payload> {
    let options = options(2, queue, policy).inline(true);
    Broadcaster::with_options(options).expect("the options are in range")
}

fn options(incoming: usize, queue: usize, policy: OverflowPolicy) -> BusOptions {
    BusOptions::default().incoming_capacity(incoming).queue_capacity(queue).overflow(policy)
}

/// Reads until the watcher ends. Returns the numbers of the received events, and how many events
/// were lost.
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

/// Waits in a `Select` for the next delivery and returns that delivery. Returns `None` once the
/// watcher has ended.
pub fn select(watcher: &mut Watcher<Payload>) -> Option<Delivery<Payload>> {
    loop {
        match watcher.try_recv() {
            Ok(delivery) => return Some(delivery),
            Err(TryRecvError::Ended) => return None,
            Err(TryRecvError::Empty) => {}
        }
        let mut select = Select::new();
        watcher.add_to(&mut select);
        select.ready();
    }
}
