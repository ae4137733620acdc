//! Defines a recorder for tests. The recorder is a real recorder, but adds its events to a queue
//! from which the test can take them.

use std::collections::VecDeque;
use std::fmt::{self, Write as _};

use crate::clock::Clock;
use crate::record::event::{Event, EventSource};
use crate::sync::{Arc, Mutex};

use super::context::RecorderContext;
use super::destination::{Destination, FakeQueue};
use super::handle::Recorder;

/// Creates real [`Recorder`]s for tests, and stores the events that the recorders record.
///
/// A fake recorder does not have its own thread and never blocks. If the queue is full, the event
/// is refused, as with a broadcaster, and the call returns
/// [`Recorded::Full`](super::Recorded::Full).
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
/// reconcile(&fake.recorder("tester"));
/// assert_eq!(fake.take_lines(), ["Normal Synced Foo synced"]);
/// assert!(fake.take().is_empty());
/// ```
pub struct FakeRecorder {
    queue: Arc<FakeQueue>,
    context: Arc<RecorderContext>,
}

impl FakeRecorder {
    /// Creates a fake that stores up to `capacity` events until the test takes them. If the
    /// capacity is zero, every event is refused.
    ///
    /// # Examples
    ///
    /// ```
    /// use eventcast::testing::FakeRecorder;
    /// use eventcast::{ObjectReference, Recorded};
    ///
    /// let recorder = FakeRecorder::new(1).recorder("tester");
    /// let pod = ObjectReference::new("Pod", "web-0");
    /// assert!(recorder.normal(&pod, "Started", "up").is_accepted());
    /// assert_eq!(recorder.normal(&pod, "Started", "up"), Recorded::Full);
    /// ```
    #[doc(alias = "NewFakeRecorder")]
    pub fn new(capacity: usize) -> Self {
        Self::with_clock(capacity, Clock::system())
    }

    /// Creates a fake like [`new`](Self::new), but with the given clock. If a test uses a
    /// [`FakeClock`](crate::testing::FakeClock), the events' times and names are the same in every
    /// run.
    ///
    /// # Examples
    ///
    /// ```
    /// use eventcast::testing::{FakeClock, FakeRecorder};
    /// use std::time::{Duration, SystemTime};
    ///
    /// let clock = FakeClock::new(SystemTime::UNIX_EPOCH);
    /// let fake = FakeRecorder::with_clock(1, clock.clock());
    /// clock.advance(Duration::from_secs(90));
    /// fake.recorder("tester").normal(eventcast::ObjectReference::new("Pod", "web-0"), "Started", "up");
    /// assert_eq!(fake.take()[0].last_timestamp.unwrap().to_string(), "1970-01-01T00:01:30Z");
    /// ```
    pub fn with_clock(capacity: usize, clock: Clock) -> Self {
        let queue = Arc::new(FakeQueue { events: Mutex::new(VecDeque::new()), capacity });
        Self { queue, context: Arc::new(RecorderContext::with_clock(clock)) }
    }

    /// Creates a recorder that records to this fake on behalf of `source`, like
    /// [`EventBroadcaster::recorder`](crate::EventBroadcaster::recorder).
    ///
    /// # Examples
    ///
    /// ```
    /// use eventcast::testing::FakeRecorder;
    ///
    /// let fake = FakeRecorder::new(2);
    /// fake.recorder("kubelet").normal(eventcast::ObjectReference::new("Pod", "web-0"), "Started", "up");
    /// assert_eq!(fake.take()[0].source.component, "kubelet");
    /// ```
    pub fn recorder(&self, source: impl Into<EventSource>) -> Recorder {
        Recorder::on(Destination::Fake(self.queue.clone()), source.into(), self.context.clone())
    }

    /// Removes and returns all recorded events in the order in which they were recorded.
    ///
    /// # Examples
    ///
    /// ```
    /// use eventcast::testing::FakeRecorder;
    ///
    /// let fake = FakeRecorder::new(2);
    /// fake.recorder("tester").normal(eventcast::ObjectReference::new("Pod", "web-0"), "Started", "up");
    /// let taken = fake.take();
    /// assert_eq!((taken.len(), taken[0].reason.as_str()), (1, "Started"));
    /// assert!(fake.take().is_empty());
    /// ```
    pub fn take(&self) -> Vec<Event> {
        self.queue.events.lock().drain(..).collect()
    }

    /// Removes all recorded events, and returns them in the format of client-go's fake recorder,
    /// for example `Warning BackOff restart 3`. If an event has annotations, ` map[key:value]` is
    /// appended. Special characters are not escaped.
    ///
    /// # Examples
    ///
    /// ```
    /// use eventcast::EventType::Warning;
    /// use eventcast::testing::FakeRecorder;
    ///
    /// let fake = FakeRecorder::new(2);
    /// let pod = eventcast::ObjectReference::new("Pod", "web-0");
    /// fake.recorder("tester").draft(&pod, Warning, "BackOff").message("again").annotation("n", "3").record();
    /// assert_eq!(fake.take_lines(), ["Warning BackOff again map[n:3]"]);
    /// ```
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
