//! Helpers that the tests of the bus share.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::task::{Wake, Waker};
use std::thread::{self, ThreadId};

use eventcast::stats::BusStats;
use eventcast::{Broadcaster, BusOptions, Delivery, OverflowPolicy, Watcher};

pub(crate) use test_support::{LONG, until, watched};

/// Returns a bus with queues of these lengths.
pub(crate) fn bus<T: Clone + Send + Sync + 'static>(incoming_len: usize, queue_len: usize) -> Broadcaster<T> {
    Broadcaster::with_options(BusOptions::default().incoming_len(incoming_len).queue_len(queue_len)).unwrap()
}

/// Receives everything up to the end.
pub(crate) fn drain<T: Clone + Send + Sync + 'static>(watcher: &mut Watcher<T>) -> Vec<Delivery<T>> {
    watcher.into_iter().collect()
}

/// Receives everything that can be received now.
pub(crate) fn available<T: Clone + Send + Sync + 'static>(watcher: &mut Watcher<T>) -> Vec<Delivery<T>> {
    std::iter::from_fn(|| watcher.try_recv().ok()).collect()
}

pub(crate) fn events<T: Clone>(deliveries: &[Delivery<T>]) -> Vec<T> {
    deliveries.iter().filter_map(|d| d.clone().event()).collect()
}

pub(crate) fn lagged<T>(deliveries: &[Delivery<T>]) -> u64 {
    deliveries.iter().map(|d| if let Delivery::Lagged(n) = d { *n } else { 0 }).sum()
}

/// Asserts the law of each watcher: every offered event is delivered, lost for a reason, or queued.
#[track_caller]
pub(crate) fn assert_balanced(stats: &BusStats) {
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
pub(crate) struct Held {
    pub(crate) watcher: Watcher<u64>,
}

/// Registers a `Wait` watcher and publishes until the dispatcher waits for it. A filter reports
/// when the dispatcher has come so far.
pub(crate) fn hold(bus: &Broadcaster<u64>) -> Held {
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
pub(crate) struct Turnstile<T> {
    pub(crate) entered: Receiver<T>,
    pub(crate) go: Sender<()>,
}

pub(crate) fn turnstile<T: Send>() -> (Turnstile<T>, impl FnMut(T) + Send) {
    let (entered_tx, entered) = mpsc::channel();
    let (go, go_rx) = mpsc::channel::<()>();
    let pass = move |value| {
        let _ = entered_tx.send(value);
        // An error means that the test has ended. Nobody holds the handler any more then.
        let _ = go_rx.recv();
    };
    (Turnstile { entered, go }, pass)
}

/// Returns a waker, and a receiver that gets the id of each thread that calls the waker.
pub(crate) fn reporting_waker() -> (Waker, Receiver<ThreadId>) {
    struct Reports(Sender<ThreadId>);
    impl Wake for Reports {
        fn wake(self: Arc<Self>) {
            let _ = self.0.send(thread::current().id());
        }
    }
    let (tx, callers) = mpsc::channel();
    (Waker::from(Arc::new(Reports(tx))), callers)
}

/// An event whose copies are counted while they live.
#[derive(Debug)]
pub(crate) struct Tracked {
    pub(crate) number: u64,
    live: Arc<AtomicI64>,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Live(Arc<AtomicI64>);

impl Live {
    pub(crate) fn event(&self, number: u64) -> Tracked {
        self.0.fetch_add(1, Ordering::SeqCst);
        Tracked { number, live: self.0.clone() }
    }

    pub(crate) fn count(&self) -> i64 {
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
