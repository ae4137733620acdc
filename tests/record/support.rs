//! Helpers that the tests of recordings share: a sink that does as a test says, and shorthands for
//! events.

use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use eventcast::sink::{MemorySinkOptions, SinkOp};
use eventcast::stats::RecordingStats;
use eventcast::testing::FakeClock;
use eventcast::{
    Event, EventBroadcaster, EventSink, EventType, MemorySink, ObjectReference, RetryPolicy, SinkError,
};

pub(crate) use test_support::{LONG, until};

/// An error whose destructor panics.
#[derive(Debug)]
pub(crate) struct Bomb;

impl std::fmt::Display for Bomb {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("bomb")
    }
}

impl std::error::Error for Bomb {}

impl Drop for Bomb {
    fn drop(&mut self) {
        panic!("an error that panics when it goes");
    }
}

pub(crate) fn clock() -> FakeClock {
    FakeClock::new(SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000)).drive_the_end()
}

pub(crate) fn pod(name: &str) -> ObjectReference {
    ObjectReference::new("Pod", name.to_owned())
}

/// Returns a retry policy without pauses.
pub(crate) fn at_once() -> RetryPolicy {
    RetryPolicy::default().delay(Duration::ZERO)
}

/// Records an event about a pod. The event must be accepted.
#[track_caller]
pub(crate) fn record(events: &EventBroadcaster, name: &str, reason: &str) {
    let recorder = events.recorder("tester");
    assert!(recorder.event(pod(name), EventType::Normal, reason.to_owned(), "message").is_accepted());
}

/// Asserts the law of each recording: every delivered event has one outcome, and every offered
/// event is delivered, lost or queued.
#[track_caller]
pub(crate) fn assert_balanced(stats: &RecordingStats) {
    let watcher = &stats.watcher;
    assert_eq!(watcher.offered, watcher.delivered + watcher.dropped.total() + watcher.queued, "{stats:?}");
    let outcomes = stats.created
        + stats.updated
        + stats.skipped
        + stats.already_existed
        + stats.rejected
        + stats.exhausted
        + stats.group_full
        + stats.abandoned;
    assert_eq!(watcher.delivered, outcomes, "{stats:?}");
    assert_eq!(stats.handled(), outcomes);
    assert!(stats.recreated <= stats.created, "{stats:?}");
}

type Answer = Box<dyn Fn(usize, &SinkOp) -> Result<(), SinkError> + Send + Sync>;

/// A sink that asks a function about each call, notes the call, and passes allowed calls on to a
/// store.
#[derive(Clone)]
pub(crate) struct Scripted {
    pub(crate) store: MemorySink,
    calls: Arc<Mutex<Vec<SinkOp>>>,
    answer: Arc<Answer>,
    called: Sender<()>,
}

impl Scripted {
    /// Creates a sink, and a receiver that gets a message for each call that has been answered. The
    /// function gets the number of the call, from 0 on.
    pub(crate) fn new(
        clock: &FakeClock,
        answer: impl Fn(usize, &SinkOp) -> Result<(), SinkError> + Send + Sync + 'static,
    ) -> (Self, Receiver<()>) {
        let (called, calls_rx) = mpsc::channel();
        let sink = Self {
            store: MemorySink::with_clock(MemorySinkOptions::default(), clock.clock()).unwrap(),
            calls: Arc::default(),
            answer: Arc::new(Box::new(answer)),
            called,
        };
        (sink, calls_rx)
    }

    /// Creates a sink that allows everything.
    pub(crate) fn obedient(clock: &FakeClock) -> Self {
        Self::new(clock, |_, _| Ok(())).0
    }

    pub(crate) fn calls(&self) -> Vec<SinkOp> {
        self.calls.lock().unwrap().clone()
    }

    fn ask(&self, op: &SinkOp) -> Result<Event, SinkError> {
        let number = {
            let mut calls = self.calls.lock().unwrap();
            calls.push(op.clone());
            calls.len() - 1
        };
        let answer = (self.answer)(number, op).and_then(|()| op.apply_to(&self.store));
        let _ = self.called.send(());
        answer
    }
}

impl EventSink for Scripted {
    fn create(&self, event: &Event) -> Result<Event, SinkError> {
        self.ask(&SinkOp::Create(event.clone()))
    }

    fn update(&self, event: &Event) -> Result<Event, SinkError> {
        self.ask(&SinkOp::Update(event.clone()))
    }

    fn patch(&self, event: &Event) -> Result<Event, SinkError> {
        self.ask(&SinkOp::Patch(event.clone()))
    }
}

/// Returns the event of an operation.
pub(crate) fn event_of(op: &SinkOp) -> &Event {
    match op {
        SinkOp::Create(event) | SinkOp::Update(event) | SinkOp::Patch(event) => event,
        _ => unreachable!("there is no other"),
    }
}

/// Returns an operation in short: its verb, and the event's reason and count.
pub(crate) fn short(op: &SinkOp) -> String {
    let verb = match op {
        SinkOp::Create(_) => "create",
        SinkOp::Update(_) => "update",
        SinkOp::Patch(..) => "patch",
        _ => unreachable!("there is no other"),
    };
    let event = event_of(op);
    format!("{verb} {} x{}", event.reason, event.count)
}

/// A place where a sink or handler waits until the test drops this.
pub(crate) struct Gate {
    pub(crate) entered: Receiver<()>,
    _go: Sender<()>,
}

pub(crate) fn gate() -> (Gate, impl Fn() + Send + Sync) {
    let (entered_tx, entered) = mpsc::channel();
    let (go, go_rx) = mpsc::channel::<()>();
    let go_rx = Mutex::new(go_rx);
    let pass = move || {
        let _ = entered_tx.send(());
        // An error means that the test has ended. Nobody is held any more then.
        let _ = go_rx.lock().unwrap().recv();
    };
    (Gate { entered, _go: go }, pass)
}
