//! Helpers shared by the tests of the bus.

mod events;

use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, JoinHandle, ThreadId};
use std::time::{Duration, SystemTime};

use eventcast::error::{FlushError, PublishError};
use eventcast::stats::BusStats;
use eventcast::testing::FakeClock;
use eventcast::{
    Broadcaster, BusOptions, Delivery, OverflowPolicy, Publisher, WatchBuilder, WatchHandle, Watcher,
};
use futures::{Stream, StreamExt};

pub(crate) use events::{At, AtDrop, Bomb, Bombs, Caller, Live, Loaded, Panics, Tracked};
pub(crate) use test_support::{LONG, until, watched};

// ── buses ──

/// Returns a bus with queues of these lengths.
pub(crate) fn bus<T: Clone + Send + Sync + 'static>(
    incoming_capacity: usize,
    queue_capacity: usize,
) -> Broadcaster<T> {
    bus_with(BusOptions::default().incoming_capacity(incoming_capacity).queue_capacity(queue_capacity))
}

pub(crate) fn bus_with<T: Clone + Send + Sync + 'static>(options: BusOptions) -> Broadcaster<T> {
    Broadcaster::with_options(options).unwrap()
}

/// Returns a bus on a fake clock, which also drives the deadlines of flushes, joins and shutdowns.
pub(crate) fn timed<T: Clone + Send + Sync + 'static>(options: BusOptions) -> (FakeClock, Broadcaster<T>) {
    let clock = FakeClock::new(SystemTime::UNIX_EPOCH).drive_the_end();
    let bus = Broadcaster::with_clock(options, clock.clock()).unwrap();
    (clock, bus)
}

/// Returns a bus with a dispatcher and an inline bus, whose watchers have queues of this length.
pub(crate) fn buses(queue_capacity: usize) -> [Broadcaster<u64>; 2] {
    [false, true].map(|inline| bus_with(BusOptions::default().inline(inline).queue_capacity(queue_capacity)))
}

/// Runs a test on a bus with a dispatcher and on an inline bus. If the test fails, the output shows
/// the kind of bus.
pub(crate) fn on_both(test: fn(BusOptions)) {
    for inline in [false, true] {
        println!("inline: {inline}");
        watched(move || test(BusOptions::default().inline(inline)));
    }
}

/// Returns the options of an inline bus whose watchers have queues of this length.
pub(crate) fn inline_options(queue_capacity: usize) -> BusOptions {
    BusOptions::default().inline(true).queue_capacity(queue_capacity)
}

/// Returns an inline bus whose watchers have queues of this length.
pub(crate) fn inline<T: Clone + Send + Sync + 'static>(queue_capacity: usize) -> Broadcaster<T> {
    bus_with(inline_options(queue_capacity))
}

/// Returns one of each policy. The limit of `WaitFor` is never reached.
pub(crate) fn policies() -> [OverflowPolicy; 5] {
    use OverflowPolicy::{DropIncoming, DropOldest, Evict, Wait, WaitFor};
    [DropIncoming, DropOldest, Wait, WaitFor(LONG), Evict]
}

/// Returns a builder for a `Wait` watcher with a queue of this length.
pub(crate) fn waits<T: Clone + Send + Sync + 'static>(
    bus: &Broadcaster<T>,
    queue_capacity: usize,
) -> WatchBuilder<'_, T> {
    bus.watch_builder().queue_capacity(queue_capacity).overflow(OverflowPolicy::Wait)
}

/// Waits until the dispatcher waits for capacity in the queue of a watcher, which a flush shows.
pub(crate) fn wait_until_full<T: Clone + Send + Sync + 'static>(bus: &Broadcaster<T>, watcher: &str) {
    until(|| bus.flush(Duration::ZERO).is_err_and(|error| error.to_string().contains(watcher)));
}

// ── deliveries and counts ──

/// Receives everything up to the end.
pub(crate) fn drain<T: Clone + Send + Sync + 'static>(watcher: &mut Watcher<T>) -> Vec<Delivery<T>> {
    watcher.into_iter().collect()
}

/// Receives everything that is currently available.
pub(crate) fn available<T: Clone + Send + Sync + 'static>(watcher: &mut Watcher<T>) -> Vec<Delivery<T>> {
    watcher.try_iter().collect()
}

pub(crate) fn events<T: Clone>(deliveries: &[Delivery<T>]) -> Vec<T> {
    deliveries.iter().filter_map(|d| d.clone().event()).collect()
}

pub(crate) fn lagged<T>(deliveries: &[Delivery<T>]) -> u64 {
    deliveries.iter().map(|d| if let Delivery::Lagged(n) = d { *n } else { 0 }).sum()
}

pub(crate) fn copied<T: Copy>(delivery: Delivery<&T>) -> Delivery<T> {
    match delivery {
        Delivery::Event(event) => Delivery::Event(*event),
        Delivery::Lagged(count) => Delivery::Lagged(count),
    }
}

/// Asserts for each watcher that every offered event is delivered, lost for a reason, or queued.
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

/// Asserts that all accepted events have been offered and counted.
#[track_caller]
pub(crate) fn assert_settled(stats: &BusStats, accepted: u64) {
    assert_eq!((stats.accepted, stats.pending), (accepted, 0), "{stats}");
    assert_balanced(stats);
}

/// Returns the names reported by the first flush that reports any names. Until the dispatcher has
/// reached a flush or waits for a watcher, there are no names to report.
pub(crate) fn named_by_a_flush(bus: &Broadcaster<u64>) -> Vec<String> {
    let mut named = Vec::new();
    until(|| match bus.flush(Duration::from_millis(1)).unwrap_err() {
        FlushError::Timeout { waiting_for, .. } => {
            named = waiting_for;
            !named.is_empty()
        }
        error => panic!("{error}"),
    });
    named
}

// ── blocked threads ──

/// A dispatcher that is blocked by an unread watcher. Dropping the watcher lets the dispatcher
/// continue.
pub(crate) struct Held {
    pub(crate) watcher: Watcher<u64>,
}

/// Registers a `Wait` watcher and publishes until the dispatcher waits for it. A filter reports
/// that the dispatcher has reached the watcher.
pub(crate) fn hold(bus: &Broadcaster<u64>) -> Held {
    let (tx, rx) = mpsc::channel();
    let filter = move |event: &u64| {
        let _ = tx.send(*event);
        true
    };
    let watcher = waits(bus, 1).name("held").filter(filter).watch().unwrap();
    for event in [u64::MAX - 1, u64::MAX] {
        bus.publisher().publish(event).unwrap();
        rx.recv_timeout(LONG).unwrap();
    }
    // The second event has passed the filter, so the dispatcher is in a round that it cannot
    // finish.
    Held { watcher }
}

/// The test's handle to code that stops at each call. The code reports the call, and waits until
/// the test lets it continue. Dropping the handle lets all calls continue.
pub(crate) struct Turnstile<T> {
    pub(crate) entered: Receiver<T>,
    pub(crate) go: Sender<()>,
}

impl<T: PartialEq + std::fmt::Debug> Turnstile<T> {
    /// Waits until the code stops at this value.
    #[track_caller]
    pub(crate) fn wait_for(&self, value: T) {
        assert_eq!(self.entered.recv_timeout(LONG), Ok(value));
    }

    pub(crate) fn let_one_pass(&self) {
        self.go.send(()).unwrap();
    }
}

pub(crate) fn turnstile<T: Send>() -> (Turnstile<T>, impl FnMut(T) + Send) {
    let (entered_tx, entered) = mpsc::channel();
    let (go, go_rx) = mpsc::channel::<()>();
    let pass = move |value| {
        let _ = entered_tx.send(value);
        // An error means that the test has let all calls continue.
        let _ = go_rx.recv();
    };
    (Turnstile { entered, go }, pass)
}

/// Starts a handler that stops at each event, and with the value `None` at each loss.
pub(crate) fn stopping_handler(builder: WatchBuilder<'_, u64>) -> (Turnstile<Option<u64>>, WatchHandle) {
    let (turnstile, mut pass) = turnstile();
    let handle = builder.spawn(move |delivery| pass(delivery.event().copied())).unwrap();
    (turnstile, handle)
}

/// Registers a watcher whose filter accepts every event, and stops at each one.
pub(crate) fn stopping_filter(builder: WatchBuilder<'_, u64>) -> (Turnstile<u64>, Watcher<u64>) {
    let (turnstile, mut pass) = turnstile();
    let filter = move |event: &u64| {
        pass(*event);
        true
    };
    (turnstile, builder.filter(filter).watch().unwrap())
}

// ── closures and the values that they own ──

/// Returns a filter that accepts every event, and owns a value.
pub(crate) fn keeping<T>(kept: impl Send + 'static) -> impl FnMut(&T) -> bool + Send + 'static {
    move |_| {
        let _ = &kept;
        true
    }
}

/// Waits until the sender has been dropped.
#[track_caller]
pub(crate) fn assert_dropped(receiver: &Receiver<()>) {
    assert_eq!(receiver.recv_timeout(LONG), Err(RecvTimeoutError::Disconnected));
}

/// Registers a watcher whose filter accepts every event and calls a function with it.
pub(crate) fn calling(bus: &Broadcaster<u64>, mut call: impl FnMut(u64) + Send + 'static) -> Watcher<u64> {
    let filter = move |event: &u64| {
        call(*event);
        true
    };
    bus.watch_builder().name("calling").queue_capacity(10_000).filter(filter).watch().unwrap()
}

// ── tasks ──

pub(crate) fn poll<F: Future>(future: Pin<&mut F>, waker: &Waker) -> Poll<F::Output> {
    future.poll(&mut Context::from_waker(waker))
}

/// Returns a waker, and a receiver that receives the id of each thread that calls the waker.
pub(crate) fn reporting_waker() -> (Waker, Receiver<ThreadId>) {
    let ear = Ear::new();
    (ear.waker, ear.heard)
}

/// A waker that counts its wake-ups and reports each of them.
struct Bell {
    rings: AtomicU64,
    says: Sender<ThreadId>,
}

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.rings.fetch_add(1, Ordering::SeqCst);
        let _ = self.says.send(thread::current().id());
    }
}

/// A task as seen by the test: it polls futures, and receives a report of each wake-up.
pub(crate) struct Ear {
    bell: Arc<Bell>,
    waker: Waker,
    heard: Receiver<ThreadId>,
}

impl Ear {
    pub(crate) fn new() -> Self {
        let (says, heard) = mpsc::channel();
        let bell = Arc::new(Bell { rings: AtomicU64::new(0), says });
        Self { waker: Waker::from(bell.clone()), bell, heard }
    }

    pub(crate) fn poll<F: Future>(&self, future: Pin<&mut F>) -> Poll<F::Output> {
        poll(future, &self.waker)
    }

    pub(crate) fn poll_next<S: Stream + Unpin>(&self, stream: &mut S) -> Poll<Option<S::Item>> {
        stream.poll_next_unpin(&mut Context::from_waker(&self.waker))
    }

    /// Waits for a wake-up, and returns the thread that caused it.
    #[track_caller]
    pub(crate) fn wait(&self) -> ThreadId {
        self.heard.recv_timeout(LONG).expect("the task must be woken")
    }

    /// Polls a future after each wake-up until it is ready.
    #[track_caller]
    pub(crate) fn finish<F: Future>(&self, mut future: Pin<&mut F>) -> F::Output {
        loop {
            match self.poll(future.as_mut()) {
                Poll::Ready(output) => return output,
                Poll::Pending => self.wait(),
            };
        }
    }

    pub(crate) fn rings(&self) -> u64 {
        self.bell.rings.load(Ordering::SeqCst)
    }

    /// Returns whether anything other than this `Ear` still holds the waker.
    pub(crate) fn is_held(&self) -> bool {
        Arc::strong_count(&self.bell) > 2
    }
}

/// A waker that calls a function once.
struct Calls(Mutex<Option<Box<dyn FnOnce() + Send>>>);

impl Wake for Calls {
    fn wake(self: Arc<Self>) {
        let call = self.0.lock().unwrap().take();
        if let Some(call) = call {
            call();
        }
    }
}

pub(crate) fn waker_calling(call: impl FnOnce() + Send + 'static) -> Waker {
    Waker::from(Arc::new(Calls(Mutex::new(Some(Box::new(call))))))
}

// ── waiting publishers ──

type Published = Result<(), PublishError<u64>>;

/// Publishes on a new thread, with a timeout that is never reached. Returns once `nth` threads are
/// waiting on this clock.
pub(crate) fn publish_and_wait(
    clock: &FakeClock,
    publisher: Publisher<u64>,
    event: u64,
    nth: usize,
) -> JoinHandle<Published> {
    let thread = thread::spawn(move || publisher.publish_timeout(event, LONG));
    clock.wait_for_waiters(nth);
    thread
}

/// Registers a `Wait` watcher with a queue of one event, whose filter accepts even numbers. Returns
/// the watcher and a counter of the filter's calls.
pub(crate) fn even(bus: &Broadcaster<u64>) -> (Watcher<u64>, Arc<AtomicU64>) {
    let asked = Arc::new(AtomicU64::new(0));
    let count = asked.clone();
    let filter = move |event: &u64| {
        count.fetch_add(1, Ordering::SeqCst);
        event % 2 == 0
    };
    (waits(bus, 1).filter(filter).watch().unwrap(), asked)
}

// ── code inside a call of an inline bus ──

/// Publishes event 1, and calls a function from a filter inside this publish. Returns the
/// function's result.
pub(crate) fn inside<R: Send + 'static>(
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
    said.try_recv().expect("the filter must have run when the publish returns")
}

/// The event at which a [`Holder`] stops.
pub(crate) const HELD: u64 = u64::MAX;

/// A thread that is inside a publish and stops there, in a watcher's filter. All other calls that
/// need the bus's lock wait for it.
pub(crate) struct Holder {
    watcher: Watcher<u64>,
    go: Sender<()>,
    thread: JoinHandle<Published>,
}

impl Holder {
    pub(crate) fn start(bus: &Broadcaster<u64>) -> Self {
        let (Turnstile { entered, go }, mut pass) = turnstile();
        let watcher = calling(bus, move |event| {
            if event == HELD {
                pass(());
            }
        });
        let publisher = bus.publisher();
        let thread = thread::spawn(move || publisher.publish(HELD));
        entered.recv_timeout(LONG).unwrap();
        Self { watcher, go, thread }
    }

    /// Lets the thread continue, waits until its publish has returned, and returns the watcher,
    /// which has received the event `HELD`.
    pub(crate) fn finish(self) -> Watcher<u64> {
        drop(self.go);
        assert_eq!(self.thread.join().unwrap(), Ok(()));
        self.watcher
    }
}
