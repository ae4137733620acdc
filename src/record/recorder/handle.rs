//! Defines the recorder, a handle that records events.

use std::fmt;

use crate::bus::Publisher;
use crate::clock::Clock;
use crate::error::PublishError;
use crate::record::event::{
    DEFAULT_NAMESPACE, Event, EventField, EventParts, EventSource, EventType, ObjectReference, Text, name,
    timed,
};
use crate::sync::Arc;

use super::context::{RecorderContext, RecorderStats};
use super::destination::Destination;
use super::recorded::Recorded;

/// A handle that records events on behalf of one source.
///
/// A recorder is `Send` and `Sync`, and cloning a recorder only increments a reference count.
///
/// Calls to a recorder do not block, except to acquire the lock of an
/// [inline](crate::EventBroadcaster::new_inline) broadcaster. Calls do not themselves panic. They
/// do not log, except that the `tracing` feature logs warnings about losses if there is no
/// `on_loss` hook. A recorder does not keep the broadcaster open. After the broadcaster is closed,
/// calls return [`Recorded::Closed`].
///
/// A recorder sets the following values in each event:
///
/// - The name `<object>.<time in hexadecimal>`, which is unique in this process. If such a name
///   would not be valid, the event gets a name that looks like a random UUID.
/// - The namespace of the event's object. If the object has no namespace, the event's namespace is
///   `default`, or the namespace set by
///   [`cluster_scoped_namespace`](Self::cluster_scoped_namespace).
/// - The current time, as the first and last timestamp.
/// - A count of one.
/// - The source, which is also copied to `reporting_controller` and `reporting_instance`.
///
/// If an event has an [event time](crate::record::EventBroadcasterBuilder::event_time), the
/// recorder sets different values.
///
/// # Examples
///
/// ```
/// use eventcast::EventType::Warning;
/// use eventcast::testing::FakeRecorder;
/// use eventcast::ObjectReference;
///
/// let fake = FakeRecorder::new(16);
/// let recorder = fake.recorder("tester");
///
/// let pod = ObjectReference::new("Pod", "web-0").in_namespace("shop");
/// recorder.event(&pod, Warning, "Unhealthy", "liveness probe failed");
/// let restarts = 3;
/// recorder.event(&pod, Warning, "BackOff", format_args!("restart {restarts}"));
///
/// assert_eq!(fake.take_lines(), ["Warning Unhealthy liveness probe failed", "Warning BackOff restart 3"]);
/// ```
#[derive(Clone)]
pub struct Recorder {
    shared: Arc<RecorderState>,
}

#[derive(Clone)]
struct RecorderState {
    queue: Destination,
    source: EventSource,
    /// The invalid part of the source, if any. An API server would refuse every event because of
    /// this part.
    fault: Option<EventField>,
    /// The namespace in which events about objects without a namespace are placed.
    cluster_namespace: Text,
    context: Arc<RecorderContext>,
}

impl Recorder {
    pub(crate) fn new(
        publisher: Publisher<Event>,
        source: EventSource,
        context: Arc<RecorderContext>,
    ) -> Self {
        Self::on(Destination::Bus(publisher), source, context)
    }

    pub(super) fn on(queue: Destination, source: EventSource, context: Arc<RecorderContext>) -> Self {
        let (mut source, mut fault) = (source, None);
        if context.has_event_time {
            source = timed::with_instance(source);
            fault = timed::wrong_source(&source);
        }
        let cluster_namespace = DEFAULT_NAMESPACE;
        Self { shared: Arc::new(RecorderState { queue, source, fault, cluster_namespace, context }) }
    }

    /// Creates a recorder for programs that run without a store. The recorder counts calls but does
    /// not record events.
    ///
    /// # Examples
    ///
    /// ```
    /// use eventcast::{EventType, ObjectReference, Recorded, Recorder};
    ///
    /// let recorder = Recorder::disabled();
    /// let pod = ObjectReference::new("Pod", "web-0");
    /// assert_eq!(recorder.event(&pod, EventType::Normal, "Started", ""), Recorded::Disabled);
    /// assert_eq!(recorder.stats().disabled, 1);
    /// ```
    pub fn disabled() -> Self {
        let context = Arc::new(RecorderContext::with_clock(Clock::system()));
        Self::on(Destination::Disabled, EventSource::default(), context)
    }

    /// Sets the namespace for events about objects that have no namespace, such as nodes and
    /// cluster-scoped custom resources, and returns the recorder. Other clones of the recorder are
    /// not affected. Defaults to `default`. An empty string also selects `default`.
    ///
    /// The event's object reference still has no namespace, so `kubectl describe` finds the event.
    /// A store may restrict which namespaces are allowed:
    ///
    /// - An API server, [`MemorySink`](crate::MemorySink) and `SqliteSink` accept such an event in
    ///   `default`. If the event has an [event
    ///   time](crate::record::EventBroadcasterBuilder::event_time), they also accept `kube-system`.
    ///   These stores reject every other namespace.
    /// - Your own sink may accept any namespace.
    ///
    /// # Examples
    ///
    /// ```
    /// use eventcast::{EventBroadcaster, MemorySink, ObjectReference};
    ///
    /// let events = EventBroadcaster::builder().event_time(true).build()?;
    /// let store = MemorySink::new();
    /// events.record_to(store.clone())?;
    /// let recorder = events.recorder("node-controller").cluster_scoped_namespace("kube-system");
    /// recorder.normal(ObjectReference::new("Node", "node-1"), "Ready", "after 3 s");
    /// events.shutdown();
    /// let event = &store.events()[0];
    /// assert_eq!(event.metadata.namespace, "kube-system");
    /// assert_eq!(event.involved_object.namespace, "");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn cluster_scoped_namespace(self, namespace: impl Into<Text>) -> Self {
        let namespace = namespace.into();
        let mut state = Arc::unwrap_or_clone(self.shared);
        state.cluster_namespace = if namespace.is_empty() { DEFAULT_NAMESPACE } else { namespace };
        Self { shared: Arc::new(state) }
    }

    /// Records an event.
    ///
    /// The object is an [`ObjectReference`], or a value of a type that converts into an
    /// [`ObjectReference`]. If the object is in an `Arc` or a `Box`, pass `&*object`, because there
    /// is no conversion from `&Arc<T>`.
    ///
    /// The message is a string or `format_args!("restart {n}")`. The message is not formatted or
    /// copied if the broadcaster is closed, the recorder is disabled or the reason is empty. The
    /// same applies to [`normal`](Self::normal) and [`warning`](Self::warning).
    ///
    /// To set annotations, labels, a related object, an action or a time other than the current
    /// time, use a [`draft`](Self::draft).
    ///
    /// # Examples
    ///
    /// ```
    /// use eventcast::EventType::Warning;
    /// use eventcast::ObjectReference;
    /// use eventcast::testing::FakeRecorder;
    /// use std::sync::Arc;
    ///
    /// let fake = FakeRecorder::new(16);
    /// let pod = Arc::new(ObjectReference::new("Pod", "web-0"));
    /// assert!(fake.recorder("tester").event(&*pod, Warning, "BackOff", "restarting").is_accepted());
    /// assert_eq!(fake.take()[0].involved_object, *pod);
    ///
    /// let restarts = 3;
    /// fake.recorder("tester").event(&*pod, Warning, "BackOff", format_args!("restart {restarts}"));
    /// assert_eq!(fake.take_lines(), ["Warning BackOff restart 3"]);
    /// ```
    #[doc(alias = "Eventf")]
    pub fn event(
        &self,
        object: impl Into<ObjectReference>,
        type_: EventType,
        reason: impl Into<Text>,
        message: impl Into<Text>,
    ) -> Recorded {
        let (object, reason) = (object.into(), reason.into());
        if let Err(refusal) = self.check(&reason, "") {
            let parts = EventParts::new(object, type_.into(), reason, Text::EMPTY);
            return self.refuse_unscrubbed(refusal, parts);
        }
        self.publish(EventParts::new(object, type_.into(), reason, message.into()))
    }

    /// Records an event of the type [`Normal`](EventType::Normal), which reports normal operation.
    ///
    /// # Examples
    ///
    /// ```
    /// use eventcast::testing::FakeRecorder;
    /// use eventcast::ObjectReference;
    ///
    /// let fake = FakeRecorder::new(16);
    /// let door = ObjectReference::new("Door", "front");
    /// let key = String::from("blue");
    /// assert!(fake.recorder("tester").normal(&door, "Opened", &key).is_accepted());
    /// assert!(fake.recorder("tester").warning(&door, "Jammed", "after two tries").is_accepted());
    /// assert_eq!(fake.take_lines(), ["Normal Opened blue", "Warning Jammed after two tries"]);
    /// ```
    pub fn normal(
        &self,
        object: impl Into<ObjectReference>,
        reason: impl Into<Text>,
        message: impl Into<Text>,
    ) -> Recorded {
        self.event(object, EventType::Normal, reason, message)
    }

    /// Records an event of the type [`Warning`](EventType::Warning), which reports something that
    /// needs attention.
    ///
    /// # Examples
    ///
    /// ```
    /// use eventcast::ObjectReference;
    /// use eventcast::testing::FakeRecorder;
    ///
    /// let fake = FakeRecorder::new(16);
    /// fake.recorder("tester").warning(ObjectReference::new("Door", "front"), "Jammed", "after two tries");
    /// assert_eq!(fake.take_lines(), ["Warning Jammed after two tries"]);
    /// ```
    pub fn warning(
        &self,
        object: impl Into<ObjectReference>,
        reason: impl Into<Text>,
        message: impl Into<Text>,
    ) -> Recorded {
        self.event(object, EventType::Warning, reason, message)
    }

    /// Returns whether the calling thread is working for this recorder's broadcaster, for example
    /// because the broadcaster is calling a handler, a sink, a filter or a hook. If such code
    /// records an event, the broadcaster calls the code again, which can cause an endless loop. The
    /// `tracing` layer in `eventcast-tracing` uses this method to prevent such a loop.
    ///
    /// Returns false inside `scrub`, and inside `on_loss` if the recorder itself refused the event,
    /// because the recorder calls these functions on the thread that is recording. On an
    /// [inline](crate::EventBroadcaster::new_inline) broadcaster, a filter also runs on that
    /// thread, and the method returns true inside the filter.
    ///
    /// # Examples
    ///
    /// ```
    /// use eventcast::{EventBroadcaster, ObjectReference};
    /// use std::sync::mpsc;
    ///
    /// let events = EventBroadcaster::new()?;
    /// let (recorder, (tx, seen)) = (events.recorder("tester"), mpsc::channel());
    /// let inside = recorder.clone();
    /// events.spawn(move |_| tx.send(inside.is_own_thread()).unwrap())?;
    /// recorder.normal(ObjectReference::new("Pod", "web-0"), "Started", "");
    /// assert_eq!((recorder.is_own_thread(), seen.recv()?), (false, true));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[doc(alias("layer", "tracing"))]
    pub fn is_own_thread(&self) -> bool {
        matches!(&self.shared.queue, Destination::Bus(publisher) if publisher.is_own_thread())
    }

    /// Returns counts of the events that this recorder and all other recorders of the same
    /// broadcaster have refused or truncated so far.
    ///
    /// # Examples
    ///
    /// ```
    /// use eventcast::ObjectReference;
    /// use eventcast::testing::FakeRecorder;
    ///
    /// let recorder = FakeRecorder::new(0).recorder("tester");
    /// recorder.normal(ObjectReference::new("Pod", "web-0"), "Started", "up");
    /// assert_eq!(recorder.clone().stats().full, 1);
    /// ```
    pub fn stats(&self) -> RecorderStats {
        self.shared.context.stats()
    }

    /// Checks whether an event can be recorded, before the remaining parts of the event are built.
    /// Returns the refusal as `Err` if the event cannot be recorded.
    pub(super) fn check(&self, reason: &str, action: &str) -> Result<(), Recorded> {
        match &self.shared.queue {
            Destination::Disabled => return Err(Recorded::Disabled),
            _ if reason.is_empty() => return Err(Recorded::EmptyReason),
            Destination::Bus(publisher) if publisher.is_closed() => return Err(Recorded::Closed),
            Destination::Bus(_) | Destination::Fake(_) => {}
        }
        if !self.shared.context.has_event_time {
            return Ok(());
        }
        let wrong = self.shared.fault.or_else(|| timed::wrong_text(reason, action));
        wrong.map_or(Ok(()), |field| Err(Recorded::Invalid(field)))
    }

    /// Refuses an event that has not been scrubbed. Because the event is not scrubbed, the hook
    /// receives at most the event's object, type and reason.
    #[cold]
    pub(super) fn refuse_unscrubbed(&self, refusal: Recorded, parts: EventParts) -> Recorded {
        let RecorderState { source, context, .. } = &*self.shared;
        context.refuse(refusal, &source.component, &context.bare(parts))
    }

    /// Builds the event, and tries to add it to the queue. If there is a dispatcher, and the event
    /// does not have to be scrubbed or truncated first, the dispatcher generates the event's name
    /// later.
    pub(super) fn publish(&self, parts: EventParts) -> Recorded {
        let RecorderState { queue, source, cluster_namespace, context, .. } = &*self.shared;
        let changes = context.changes(&parts.message);
        let now = context.clock.now().into();
        let number = name::number(&context.clock, &parts.involved_object.name, now);
        let mut event = parts.into_event(number, now, source, cluster_namespace);
        match queue {
            Destination::Bus(publisher) if !changes => {
                context.complete_without_dispatcher(&mut event);
                self.outcome(publisher.try_publish(event))
            }
            _ => self.publish_changed(event),
        }
    }

    /// Scrubs and truncates an event, and tries to add it to the queue.
    #[cold]
    fn publish_changed(&self, mut event: Event) -> Recorded {
        let RecorderState { queue, context, .. } = &*self.shared;
        context.complete(&mut event);
        if !context.scrub(&mut event) {
            return self.refuse_unscrubbed(Recorded::ScrubPanicked, event.into());
        }
        // The message is truncated after scrubbing, because the `scrub` function might not
        // recognise a secret that has been truncated.
        context.finish(&mut event);
        match queue {
            Destination::Bus(publisher) => self.outcome(publisher.try_publish(event)),
            Destination::Fake(queue) => self.outcome(queue.push(event)),
            Destination::Disabled => self.refuse_unscrubbed(Recorded::Disabled, event.into()),
        }
    }

    /// Converts the result of publishing an event into a `Recorded` outcome, and reports a refusal.
    #[inline]
    fn outcome(&self, published: Result<(), PublishError<Event>>) -> Recorded {
        match published {
            Ok(()) => Recorded::Accepted,
            Err(error) => self.refuse(error),
        }
    }

    #[cold]
    fn refuse(&self, error: PublishError<Event>) -> Recorded {
        let RecorderState { source, context, .. } = &*self.shared;
        let recorded = if error.is_full() { Recorded::Full } else { Recorded::Closed };
        let mut event = error.into_inner();
        if context.scrub.is_none() {
            context.complete(&mut event);
        }
        context.refuse(recorded, &source.component, &event)
    }
}

impl fmt::Debug for Recorder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Recorder").field("source", &self.shared.source).finish_non_exhaustive()
    }
}
