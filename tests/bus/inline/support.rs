//! Helpers for the tests of a bus without a thread.

use std::pin::Pin;
use std::sync::mpsc::{self, Receiver, Sender};
use std::task::{Context, Poll, Waker};
use std::thread::{self, JoinHandle};
use std::time::SystemTime;

use eventcast::error::PublishError;
use eventcast::stats::BusStats;
use eventcast::testing::FakeClock;
use eventcast::{Broadcaster, BusOptions, OverflowPolicy, Publisher, WatchBuilder, Watcher};

use crate::support::{LONG, assert_balanced};

/// Returns the options of a bus without a thread, with watchers' queues of this length.
pub(super) fn options(queue_len: usize) -> BusOptions {
    BusOptions::default().inline(true).queue_len(queue_len)
}

/// Returns a bus without a thread, with watchers' queues of this length.
pub(super) fn inline<T: Clone + Send + Sync + 'static>(queue_len: usize) -> Broadcaster<T> {
    Broadcaster::with_options(options(queue_len)).unwrap()
}

/// Returns a bus without a thread that runs on a fake clock.
pub(super) fn timed(options: BusOptions) -> (FakeClock, Broadcaster<u64>) {
    let clock = FakeClock::new(SystemTime::UNIX_EPOCH).drive_the_end();
    let bus = Broadcaster::with_clock(options, clock.clock()).unwrap();
    (clock, bus)
}

/// Returns every policy. The limit of `WaitFor` is never reached.
pub(super) fn policies() -> [OverflowPolicy; 5] {
    use OverflowPolicy::{DropIncoming, DropOldest, Evict, Wait, WaitFor};
    [DropIncoming, DropOldest, Wait, WaitFor(LONG), Evict]
}

/// Returns a builder for a watcher with the policy `Wait` and a queue of this length.
pub(super) fn waits<T: Clone + Send + Sync + 'static>(
    bus: &Broadcaster<T>,
    queue_len: usize,
) -> WatchBuilder<'_, T> {
    bus.watch_builder().queue_len(queue_len).overflow(OverflowPolicy::Wait)
}

/// Registers a watcher whose filter accepts every event and calls a function with it.
pub(super) fn calling(bus: &Broadcaster<u64>, mut call: impl FnMut(u64) + Send + 'static) -> Watcher<u64> {
    let filter = move |event: &u64| {
        call(*event);
        true
    };
    bus.watch_builder().name("calling").queue_len(10_000).filter(filter).watch().unwrap()
}

/// Publishes the event 1, and calls a function from inside this publish: in a filter. Returns what
/// the function returned.
pub(super) fn inside<R: Send + 'static>(
    bus: &Broadcaster<u64>,
    call: impl FnOnce() -> R + Send + 'static,
) -> R {
    let ((said_tx, said), mut call) = (mpsc::channel(), Some(call));
    let watcher = calling(bus, move |_| {
        if let Some(call) = call.take() {
            said_tx.send(call()).unwrap();
        }
    });
    bus.publisher().publish(1).unwrap();
    drop(watcher);
    said.try_recv().expect("the filter has run when the publish returns")
}

/// Asserts that everything accepted has been offered and counted.
#[track_caller]
pub(super) fn assert_settled(stats: &BusStats, accepted: u64) {
    assert_eq!((stats.accepted, stats.pending), (accepted, 0), "{stats}");
    assert_balanced(stats);
}

pub(super) fn poll<F: Future>(future: Pin<&mut F>, waker: &Waker) -> Poll<F::Output> {
    future.poll(&mut Context::from_waker(waker))
}

type Published = Result<(), PublishError<u64>>;

/// Publishes on a new thread, with a timeout that is never reached. Returns when `nth` threads wait
/// on this clock.
pub(super) fn publish_and_wait(
    clock: &FakeClock,
    publisher: Publisher<u64>,
    event: u64,
    nth: usize,
) -> JoinHandle<Published> {
    let thread = thread::spawn(move || publisher.publish_timeout(event, LONG));
    clock.wait_for_waiters(nth);
    thread
}

/// The event with which a [`Holder`] stops.
pub(super) const HELD: u64 = u64::MAX;

/// A thread that is inside a publish and stops there, in the filter of a watcher. All other calls
/// that need the lock of the bus wait for it.
pub(super) struct Holder {
    watcher: Watcher<u64>,
    go: Sender<()>,
    thread: JoinHandle<Published>,
}

impl Holder {
    pub(super) fn start(bus: &Broadcaster<u64>) -> Self {
        let ((entered_tx, entered), (go, gate)): ((_, Receiver<()>), (_, _)) =
            (mpsc::channel(), mpsc::channel());
        let watcher = calling(bus, move |event| {
            if event == HELD {
                let _ = entered_tx.send(());
                let _: Result<(), _> = gate.recv();
            }
        });
        let publisher = bus.publisher();
        let thread = thread::spawn(move || publisher.publish(HELD));
        entered.recv_timeout(LONG).unwrap();
        Self { watcher, go, thread }
    }

    /// Lets the thread continue, waits until its publish has returned, and returns the watcher,
    /// which has the event `HELD`.
    pub(super) fn finish(self) -> Watcher<u64> {
        drop(self.go);
        assert_eq!(self.thread.join().unwrap(), Ok(()));
        self.watcher
    }
}
