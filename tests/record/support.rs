//! Helpers shared by the recording tests: scripted sinks, and shorthands for events.

use std::ops::RangeBounds;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, SystemTime};

use eventcast::record::{EventBroadcasterBuilder, Jitter, Loss};
use eventcast::sink::{MemorySinkOptions, SinkBatch, SinkErrorKind, SinkMode, SinkOp};
use eventcast::stats::{EventBroadcasterReport, RecordingStats};
use eventcast::testing::FakeClock;
use eventcast::{
    BusOptions, Event, EventBroadcaster, EventSink, EventType, MemorySink, ObjectReference, RetryPolicy,
    SinkError,
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

/// Returns a retry policy that waits exactly ten seconds between attempts.
pub(crate) fn every_ten_seconds() -> RetryPolicy {
    RetryPolicy::default().jitter(Jitter::Never)
}

/// Returns the error for an unavailable store.
pub(crate) fn away() -> SinkError {
    SinkError::new(SinkErrorKind::Unavailable, "connection refused")
}

pub(crate) fn clocked(clock: &FakeClock) -> EventBroadcasterBuilder {
    EventBroadcaster::builder().clock(clock.clock())
}

/// Returns the options for a bus with a dispatcher and for an inline bus.
pub(crate) fn modes() -> [BusOptions; 2] {
    [false, true].map(|is_inline| BusOptions::default().inline(is_inline))
}

pub(crate) fn memory(clock: &FakeClock) -> MemorySink {
    MemorySink::with_clock(MemorySinkOptions::default(), clock.clock()).unwrap()
}

/// Builds a broadcaster, and returns it with a channel that receives the result of `note` for each
/// loss reported to the hook.
pub(crate) fn with_losses<T: Send + 'static>(
    builder: EventBroadcasterBuilder,
    note: impl Fn(&Loss<'_>) -> T + Send + Sync + 'static,
) -> (EventBroadcaster, Receiver<T>) {
    let (losses_tx, losses) = mpsc::channel();
    let hook = move |loss: &Loss<'_>| drop(losses_tx.send(note(loss)));
    (builder.on_loss(hook).build().unwrap(), losses)
}

/// Starts a log, and returns the list to which its lines are added.
pub(crate) fn logged(events: &EventBroadcaster) -> Arc<Mutex<Vec<String>>> {
    let lines: Arc<Mutex<Vec<String>>> = Arc::default();
    let into = lines.clone();
    events.log_to(move |line| into.lock().unwrap().push(line.to_owned())).unwrap();
    lines
}

/// Shuts down with a deadline of five seconds, which passes while the call is waiting.
pub(crate) fn shutdown_late(events: &EventBroadcaster, clock: &FakeClock) -> EventBroadcasterReport {
    let five = Duration::from_secs(5);
    thread::scope(|scope| {
        let ending = scope.spawn(|| events.shutdown_timeout(five));
        clock.wait_for_waiters(1);
        clock.advance(five);
        ending.join().unwrap()
    })
}

/// Waits until a call to the sink has failed and the recording is sleeping until its next attempt.
#[track_caller]
pub(crate) fn tried(calls: &Receiver<()>, clock: &FakeClock) {
    calls.recv_timeout(LONG).unwrap();
    clock.wait_for_waiters(1);
}

/// Records an event about a pod. The event must be accepted.
#[track_caller]
pub(crate) fn record(events: &EventBroadcaster, name: &str, reason: &str) {
    let recorder = events.recorder("tester");
    assert!(recorder.event(pod(name), EventType::Normal, reason.to_owned(), "message").is_accepted());
}

/// Asserts the invariant of every recording: each delivered event has one outcome, and each offered
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

/// A sink that calls a function to decide each call, logs the call, and forwards allowed calls to a
/// store.
#[derive(Clone)]
pub(crate) struct Scripted {
    pub(crate) store: MemorySink,
    calls: Arc<Mutex<Vec<SinkOp>>>,
    answer: Arc<Answer>,
    called: Sender<()>,
}

impl Scripted {
    /// Creates a sink, and a receiver that gets a message for each answered call. The function
    /// receives the number of the call, starting at 0.
    pub(crate) fn new(
        clock: &FakeClock,
        answer: impl Fn(usize, &SinkOp) -> Result<(), SinkError> + Send + Sync + 'static,
    ) -> (Self, Receiver<()>) {
        let (called, calls_rx) = mpsc::channel();
        let sink =
            Self { store: memory(clock), calls: Arc::default(), answer: Arc::new(Box::new(answer)), called };
        (sink, calls_rx)
    }

    /// Creates a sink that allows every call.
    pub(crate) fn obedient(clock: &FakeClock) -> Self {
        Self::new(clock, |_, _| Ok(())).0
    }

    /// Creates a sink that fails with the given error until the test sets the flag.
    pub(crate) fn failing(
        clock: &FakeClock,
        error: impl Fn() -> SinkError + Send + Sync + 'static,
    ) -> (Self, Receiver<()>, Arc<AtomicBool>) {
        let is_over = Arc::new(AtomicBool::new(false));
        let over = is_over.clone();
        let answer =
            move |_: usize, _: &SinkOp| if over.load(Ordering::SeqCst) { Ok(()) } else { Err(error()) };
        let (sink, calls) = Self::new(clock, answer);
        (sink, calls, is_over)
    }

    /// Creates a sink that allows every call, and whose calls with the given numbers wait at the
    /// gate.
    pub(crate) fn gated(
        clock: &FakeClock,
        calls: impl RangeBounds<usize> + Send + Sync + 'static,
    ) -> (Gate, Self) {
        let (gate, pass) = gate();
        let answer = move |number: usize, _: &SinkOp| {
            if calls.contains(&number) {
                pass();
            }
            Ok(())
        };
        (gate, Self::new(clock, answer).0)
    }

    /// Creates a sink that stores the events of the first `lost` creations but loses its responses
    /// to them. The sink then refuses creations, and includes the stored event in the refusal if
    /// `shows` is set.
    pub(crate) fn lossy(clock: &FakeClock, lost: usize, shows: bool) -> (Self, Receiver<()>) {
        let store = memory(clock);
        let stored = store.clone();
        let answer = move |number: usize, op: &SinkOp| match op {
            SinkOp::Create(event) if number < lost => {
                let _ = stored.create(event);
                Err(SinkError::retry("the connection was closed"))
            }
            SinkOp::Create(_) if !shows => Err(SinkError::new(SinkErrorKind::AlreadyExists, "taken")),
            _ => Ok(()),
        };
        let (sink, calls) = Self::new(clock, answer);
        (Self { store, ..sink }, calls)
    }

    pub(crate) fn calls(&self) -> Vec<SinkOp> {
        self.calls.lock().unwrap().clone()
    }

    /// Returns the calls in their short form.
    pub(crate) fn shorts(&self) -> Vec<String> {
        self.calls().iter().map(short).collect()
    }

    /// Returns the event name in each call.
    pub(crate) fn names(&self) -> Vec<String> {
        self.calls().iter().map(|op| op.event().metadata.name.to_string()).collect()
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

    fn patch(&self, event: &Event) -> Result<Event, SinkError> {
        self.ask(&SinkOp::Patch(event.clone()))
    }
}

/// Returns an operation's short form: its verb, and the event's reason and count.
pub(crate) fn short(op: &SinkOp) -> String {
    let verb = match op {
        SinkOp::Create(_) => "create",
        SinkOp::Update(_) => "update",
        SinkOp::Patch(..) => "patch",
        _ => unreachable!("there is no other"),
    };
    let event = op.event();
    format!("{verb} {} x{}", event.reason, event.count)
}

/// A gate that lets calls pass one by one, and lets all calls pass once the gate is dropped.
pub(crate) struct Gate {
    entered: Receiver<()>,
    go: Sender<()>,
}

pub(crate) fn gate() -> (Gate, impl Fn() + Send + Sync) {
    let (entered_tx, entered) = mpsc::channel();
    let (go, go_rx) = mpsc::channel::<()>();
    let go_rx = Mutex::new(go_rx);
    let pass = move || {
        let _ = entered_tx.send(());
        // An error means that the gate was dropped, in which case all calls pass.
        let _ = go_rx.lock().unwrap().recv();
    };
    (Gate { entered, go }, pass)
}

impl Gate {
    /// Waits until a call has reached the gate.
    #[track_caller]
    pub(crate) fn wait(&self) {
        self.entered.recv_timeout(LONG).unwrap();
    }

    pub(crate) fn let_one_pass(&self) {
        self.go.send(()).unwrap();
    }
}

/// A sink that passes its operations to a function. An event's group is its namespace.
pub(crate) struct Submitting<F>(pub(crate) SinkMode, pub(crate) F);

impl<F: Fn(SinkBatch) + Send + Sync + 'static> EventSink for Submitting<F> {
    fn create(&self, _: &Event) -> Result<Event, SinkError> {
        unreachable!("a recording calls `submit`")
    }

    fn patch(&self, event: &Event) -> Result<Event, SinkError> {
        self.create(event)
    }

    fn mode(&self) -> SinkMode {
        self.0
    }

    fn group<'e>(&self, event: &'e Event) -> &'e str {
        &event.involved_object.namespace
    }

    fn submit(&self, batch: SinkBatch) {
        (self.1)(batch);
    }
}
