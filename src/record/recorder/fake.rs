//! A recorder for tests: a real one, whose events the test takes out of the queue.

use std::collections::VecDeque;
use std::fmt::{self, Write as _};

use crate::clock::Clock;
use crate::record::event::{Event, EventSource};
use crate::sync::{Arc, Mutex};

use super::context::RecorderContext;
use super::destination::{Destination, FakeQueue};
use super::handle::Recorder;

/// A source of real [`Recorder`]s for tests, which keeps the events that they record.
///
/// It has no thread and waits for nothing. An event that does not fit is refused as
/// [`Recorded::Full`](super::Recorded::Full), as by a broadcaster.
///
/// # Examples
///
/// ```
/// use eventcast::testing::FakeRecorder;
/// use eventcast::{EventType, ObjectReference, Recorder};
///
/// fn reconcile(recorder: &Recorder) {
///     recorder.event(ObjectReference::new("Foo", "a"), EventType::Normal, "Synced", "Foo synced");
/// }
///
/// let fake = FakeRecorder::new(16);
/// reconcile(&fake.recorder());
/// assert_eq!(fake.take_lines(), ["Normal Synced Foo synced"]);
/// assert!(fake.take().is_empty());
/// ```
#[doc(alias = "IncludeObject")]
pub struct FakeRecorder {
    queue: Arc<FakeQueue>,
    recorder: Recorder,
}

impl FakeRecorder {
    /// Creates a fake that keeps up to `capacity` events until they are taken. With a capacity of
    /// zero, every event is refused.
    #[doc(alias = "NewFakeRecorder")]
    pub fn new(capacity: usize) -> Self {
        Self::with_clock(capacity, Clock::system())
    }

    /// Creates the same fake on a clock. With a [`FakeClock`](crate::testing::FakeClock), times and
    /// names are the same in every run.
    pub fn with_clock(capacity: usize, clock: Clock) -> Self {
        let queue = Arc::new(FakeQueue { events: Mutex::new(VecDeque::new()), capacity });
        let context = Arc::new(RecorderContext::with_clock(clock));
        let recorder = Recorder::on(Destination::Fake(queue.clone()), EventSource::default(), context);
        Self { queue, recorder }
    }

    /// Returns a recorder that records here, with an empty source.
    pub fn recorder(&self) -> Recorder {
        self.recorder.clone()
    }

    /// Returns a recorder that records here in the name of a source.
    pub fn recorder_for(&self, source: impl Into<EventSource>) -> Recorder {
        let context = self.recorder.context().clone();
        Recorder::on(Destination::Fake(self.queue.clone()), source.into(), context)
    }

    /// Takes out all recorded events, in order.
    pub fn take(&self) -> Vec<Event> {
        self.queue.events.lock().drain(..).collect()
    }

    /// Takes out all recorded events, as client-go's fake recorder writes them:
    /// `Warning BackOff restart 3`, followed by ` map[key:value]` if there are annotations. Nothing
    /// is escaped.
    pub fn take_lines(&self) -> Vec<String> {
        self.take().iter().map(line).collect()
    }
}

fn line(event: &Event) -> String {
    let mut line = format!("{} {} {}", event.type_, event.reason, event.message);
    let annotations = event.metadata.annotations();
    if !annotations.is_empty() {
        let mut before = " map[";
        for (key, value) in annotations {
            // Writing to a string never fails.
            let _ = write!(line, "{before}{key}:{value}");
            before = " ";
        }
        line.push(']');
    }
    line
}

impl fmt::Debug for FakeRecorder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FakeRecorder")
            .field("kept", &self.queue.events.lock().len())
            .field("capacity", &self.queue.capacity)
            .finish_non_exhaustive()
    }
}
