//! What several sources have in their tests: a channel with a capacity, a sink whose answers
//! the test chooses, and the objects of the events.

use std::sync::Mutex;
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread::JoinHandle;
use std::time::{Duration, SystemTime};

use eventcast::testing::FakeClock;
use eventcast::{
    Broadcaster, Event, EventSink, ObjectReference, OverflowPolicy, Publisher, RetryPolicy, SinkError,
    Watcher,
};

use crate::kinds::Kind;

pub(crate) use test_support::{LONG, until};

pub(crate) fn clock() -> FakeClock {
    FakeClock::new(SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000))
}

/// Returns a retry policy without pauses.
pub(crate) fn at_once() -> RetryPolicy {
    RetryPolicy::default().delay(Duration::ZERO)
}

/// Returns the pod of client-go's tests.
pub(crate) fn pod(uid: &str, namespace: &str, field_path: &str) -> ObjectReference {
    let mut object = ObjectReference::new("Pod", "foo").in_namespace(namespace.to_owned());
    object.uid = uid.into();
    object.api_version = "v1".into();
    object.field_path = field_path.into();
    object
}

/// A bus as a broadcast channel: a full queue loses its oldest value, and a send has reached all
/// queues when it returns.
pub(crate) struct Channel<T: Clone + Send + Sync + 'static> {
    pub(crate) bus: Broadcaster<T>,
    pub(crate) publisher: Publisher<T>,
}

impl<T: Clone + Send + Sync + 'static> Channel<T> {
    pub(crate) fn new(kind: Kind, capacity: usize) -> Self {
        let options = kind.options().queue_capacity(capacity).overflow(OverflowPolicy::DropOldest);
        let bus = Broadcaster::with_options(options).unwrap();
        Self { publisher: bus.publisher(), bus }
    }

    /// Returns a watcher that receives what is sent from now on.
    pub(crate) fn subscribe(&self) -> Watcher<T> {
        let watcher = self.bus.watch().unwrap();
        self.settle();
        watcher
    }

    pub(crate) fn send(&self, value: T) {
        assert!(self.publisher.publish(value).is_ok());
        self.settle();
    }

    /// Waits until the dispatcher has carried out everything before.
    pub(crate) fn settle(&self) {
        self.bus.flush(LONG).unwrap();
    }
}

/// Returns a channel with one receiver.
pub(crate) fn channel<T: Clone + Send + Sync + 'static>(
    kind: Kind,
    capacity: usize,
) -> (Channel<T>, Watcher<T>) {
    let channel = Channel::new(kind, capacity);
    let watcher = channel.subscribe();
    (channel, watcher)
}

/// Waits for threads, and fails if one has.
pub(crate) fn join(threads: impl IntoIterator<Item = JoinHandle<()>>) {
    for thread in threads {
        thread.join().unwrap();
    }
}

/// A call of a sink.
#[derive(Clone, Debug)]
pub(crate) enum Op {
    Create(Event),
    Patch(Event),
}

impl Op {
    pub(crate) fn event(&self) -> &Event {
        let (Self::Create(event) | Self::Patch(event)) = self;
        event
    }
}

type Answer = Box<dyn Fn(&Event) -> Result<Event, SinkError> + Send + Sync>;

/// A sink that sends each call to the test, with answers that the test chooses.
pub(crate) struct TestSink {
    on_create: Answer,
    on_patch: Answer,
    calls: Mutex<Sender<Op>>,
}

impl TestSink {
    pub(crate) fn new(
        on_create: impl Fn(&Event) -> Result<Event, SinkError> + Send + Sync + 'static,
        on_patch: impl Fn(&Event) -> Result<Event, SinkError> + Send + Sync + 'static,
    ) -> (Self, Receiver<Op>) {
        let (calls, ops) = mpsc::channel();
        let (on_create, on_patch) = (Box::new(on_create), Box::new(on_patch));
        (Self { on_create, on_patch, calls: Mutex::new(calls) }, ops)
    }

    /// Returns a sink that accepts everything.
    pub(crate) fn obliging() -> (Self, Receiver<Op>) {
        Self::new(|event| Ok(event.clone()), |event| Ok(event.clone()))
    }

    /// A test that has seen enough has dropped the receiver.
    fn note(&self, op: Op) {
        let _ = self.calls.lock().unwrap().send(op);
    }
}

impl EventSink for TestSink {
    fn create(&self, event: &Event) -> Result<Event, SinkError> {
        self.note(Op::Create(event.clone()));
        (self.on_create)(event)
    }

    fn update(&self, event: &Event) -> Result<Event, SinkError> {
        panic!("client-go updates no event: {event:?}")
    }

    fn patch(&self, event: &Event) -> Result<Event, SinkError> {
        self.note(Op::Patch(event.clone()));
        (self.on_patch)(event)
    }
}
