//! Helpers that the tests of the bus share.
#![allow(dead_code, unreachable_pub, reason = "each test file uses its part")]

use std::panic::resume_unwind;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread;
use std::time::{Duration, Instant};

use eventcast::stats::BusStats;
use eventcast::{Broadcaster, BusOptions, Delivery, OverflowPolicy, Watcher};

/// A timeout that only a hang reaches, even on a machine that stands still for a minute.
pub const LONG: Duration = Duration::from_secs(180);

/// A time longer than any test takes. Only a test that fails waits this long.
const HANGS: Duration = Duration::from_secs(180);

/// Runs a test that might hang, and fails it when it does.
pub fn watched(test: impl FnOnce() + Send + 'static) {
    let (tx, rx) = mpsc::channel();
    let thread = thread::spawn(move || {
        test();
        let _ = tx.send(());
    });
    match rx.recv_timeout(HANGS) {
        Ok(()) => {}
        Err(RecvTimeoutError::Disconnected) => match thread.join() {
            Err(panic) => resume_unwind(panic),
            Ok(()) => unreachable!("it says when it is through"),
        },
        Err(RecvTimeoutError::Timeout) => panic!("the test hangs"),
    }
}

/// Waits for work of another thread that gives no signal, until `done` holds.
#[track_caller]
pub fn until(mut done: impl FnMut() -> bool) {
    let start = Instant::now();
    while !done() {
        assert!(start.elapsed() < LONG, "it does not come");
        thread::yield_now();
    }
}

/// Returns a bus with queues of these lengths.
pub fn bus<T: Clone + Send + Sync + 'static>(incoming_len: usize, queue_len: usize) -> Broadcaster<T> {
    Broadcaster::with_options(BusOptions::default().incoming_len(incoming_len).queue_len(queue_len)).unwrap()
}

/// Receives everything up to the end.
pub fn drain<T: Clone + Send + Sync + 'static>(watcher: &mut Watcher<T>) -> Vec<Delivery<T>> {
    watcher.into_iter().collect()
}

/// Receives everything that can be received now.
pub fn available<T: Clone + Send + Sync + 'static>(watcher: &mut Watcher<T>) -> Vec<Delivery<T>> {
    std::iter::from_fn(|| watcher.try_recv().ok()).collect()
}

pub fn events<T: Clone>(deliveries: &[Delivery<T>]) -> Vec<T> {
    deliveries.iter().filter_map(|d| d.clone().event()).collect()
}

pub fn lagged<T>(deliveries: &[Delivery<T>]) -> u64 {
    deliveries.iter().map(|d| if let Delivery::Lagged(n) = d { *n } else { 0 }).sum()
}

/// Asserts the law of each watcher: every offered event is delivered, lost for a reason, or queued.
#[track_caller]
pub fn assert_balanced(stats: &BusStats) {
    for watcher in stats.watchers.iter().chain([&stats.departed]) {
        assert_eq!(
            watcher.offered,
            watcher.delivered + watcher.dropped.total() + watcher.queued,
            "{watcher:?}"
        );
    }
}

/// A dispatcher that is held, because it waits for a watcher that nobody reads. Dropping the
/// watcher lets the dispatcher continue.
pub struct Held {
    pub watcher: Watcher<u64>,
}

/// Registers a `Wait` watcher and publishes until the dispatcher waits for it. A filter reports
/// when the dispatcher has come so far.
pub fn hold(bus: &Broadcaster<u64>) -> Held {
    let (tx, rx) = mpsc::channel();
    let watcher = bus
        .watch_builder()
        .name("held")
        .queue_len(1)
        .overflow(OverflowPolicy::Wait)
        .filter(move |event| {
            let _ = tx.send(*event);
            true
        })
        .watch()
        .unwrap();
    bus.publisher().publish(u64::MAX - 1).unwrap();
    rx.recv_timeout(LONG).unwrap();
    bus.publisher().publish(u64::MAX).unwrap();
    // The second event has passed the filter, so the dispatcher is in the round that cannot end.
    rx.recv_timeout(LONG).unwrap();
    Held { watcher }
}

/// The test's side of a handler that stops at each event: the handler says that it has begun, and
/// waits until the test lets it continue.
pub struct Turnstile<T> {
    pub entered: Receiver<T>,
    pub go: Sender<()>,
}

pub fn turnstile<T: Send>() -> (Turnstile<T>, impl FnMut(T) + Send) {
    let (entered_tx, entered) = mpsc::channel();
    let (go, go_rx) = mpsc::channel::<()>();
    let pass = move |value| {
        let _ = entered_tx.send(value);
        // An error means that the test has ended. Nobody holds the handler any more then.
        let _ = go_rx.recv();
    };
    (Turnstile { entered, go }, pass)
}

/// An event whose copies are counted while they live.
#[derive(Debug)]
pub struct Tracked {
    pub number: u64,
    live: Arc<AtomicI64>,
}

#[derive(Clone, Debug, Default)]
pub struct Live(Arc<AtomicI64>);

impl Live {
    pub fn event(&self, number: u64) -> Tracked {
        self.0.fetch_add(1, Ordering::SeqCst);
        Tracked { number, live: self.0.clone() }
    }

    pub fn count(&self) -> i64 {
        self.0.load(Ordering::SeqCst)
    }
}

impl Clone for Tracked {
    fn clone(&self) -> Self {
        self.live.fetch_add(1, Ordering::SeqCst);
        Self { number: self.number, live: self.live.clone() }
    }
}

impl Drop for Tracked {
    fn drop(&mut self) {
        self.live.fetch_sub(1, Ordering::SeqCst);
    }
}
