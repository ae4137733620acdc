//! Defines event drafts, which can set values for which the other recording methods have no
//! parameter.

use std::fmt;

use crate::record::event::{Event, EventType, ObjectReference, Text, Timestamp};

use super::handle::Recorder;
use super::recorded::Recorded;

/// A builder for an event. Nothing is recorded until [`record`](Self::record) is called.
///
/// # Examples
///
/// ```
/// use eventcast::testing::FakeRecorder;
/// use eventcast::{EventType, ObjectReference};
///
/// let fake = FakeRecorder::new(16);
/// let recorder = fake.recorder("tester");
/// let recorded = recorder
///     .draft(ObjectReference::new("Pod", "web-0"), EventType::Normal, "Scheduled")
///     .message(format_args!("assigned to {}", "node-1"))
///     .related(ObjectReference::new("Node", "node-1"))
///     .action("Binding")
///     .label("team", "blue")
///     .record();
/// assert!(recorded.is_accepted());
/// let event = &fake.take()[0];
/// assert_eq!(event.message, "assigned to node-1");
/// assert_eq!(event.related().unwrap().name, "node-1");
/// ```
#[must_use = "a draft records nothing until `record` is called"]
pub struct EventDraft<'r> {
    recorder: &'r Recorder,
    event: Event,
}

impl Recorder {
    /// Creates an event draft. A draft can set values that the other methods do not accept, such as
    /// labels, a related object or an action. To record the event, call
    /// [`record`](EventDraft::record).
    ///
    /// # Examples
    ///
    /// ```
    /// use eventcast::EventType::Warning;
    /// use eventcast::testing::FakeRecorder;
    ///
    /// let fake = FakeRecorder::new(1);
    /// let disk = eventcast::ObjectReference::new("Disk", "sda");
    /// let draft = fake.recorder("tester");
    /// let draft = draft.draft(&disk, Warning, "AlmostFull").message("97 % are used");
    /// assert!(fake.take().is_empty());
    /// assert!(draft.record().is_accepted());
    /// assert_eq!(fake.take_lines(), ["Warning AlmostFull 97 % are used"]);
    /// ```
    #[doc(alias = "AnnotatedEventf")]
    #[doc(alias = "PastEventf")]
    pub fn draft(
        &self,
        object: impl Into<ObjectReference>,
        type_: EventType,
        reason: impl Into<Text>,
    ) -> EventDraft<'_> {
        let mut event = Event::default();
        event.involved_object = object.into();
        event.type_ = type_.into();
        event.reason = reason.into();
        EventDraft { recorder: self, event }
    }
}

impl EventDraft<'_> {
    /// Sets the message. Pass a string or `format_args!(..)`, which is formatted immediately.
    ///
    /// # Examples
    ///
    /// ```
    /// use eventcast::EventType::Normal;
    /// use eventcast::testing::FakeRecorder;
    ///
    /// let fake = FakeRecorder::new(1);
    /// let pod = eventcast::ObjectReference::new("Pod", "web-0");
    /// fake.recorder("tester").draft(&pod, Normal, "Scheduled").message(format_args!("on node {}", 1)).record();
    /// assert_eq!(fake.take()[0].message, "on node 1");
    /// ```
    pub fn message(mut self, message: impl Into<Text>) -> Self {
        self.event.message = message.into();
        self
    }

    /// Sets an annotation. If the same key is set more than once, the last value is used.
    ///
    /// # Examples
    ///
    /// ```
    /// use eventcast::EventType::Normal;
    /// use eventcast::testing::FakeRecorder;
    ///
    /// let fake = FakeRecorder::new(1);
    /// let pod = eventcast::ObjectReference::new("Pod", "web-0");
    /// fake.recorder("tester").draft(&pod, Normal, "Scheduled").annotation("try", "1").annotation("try", "2").record();
    /// assert_eq!(fake.take()[0].metadata.annotations()["try"], "2");
    /// ```
    #[doc(alias = "AnnotatedEventf")]
    pub fn annotation(mut self, key: impl Into<Text>, value: impl Into<Text>) -> Self {
        self.event.metadata.annotations_mut().insert(key.into(), value.into());
        self
    }

    /// Sets a label. If the same key is set more than once, the last value is used.
    ///
    /// # Examples
    ///
    /// ```
    /// use eventcast::EventType::Normal;
    /// use eventcast::testing::FakeRecorder;
    ///
    /// let fake = FakeRecorder::new(1);
    /// let pod = eventcast::ObjectReference::new("Pod", "web-0");
    /// fake.recorder("tester").draft(&pod, Normal, "Scheduled").label("team", "red").label("team", "blue").record();
    /// assert_eq!(fake.take()[0].metadata.labels()["team"], "blue");
    /// ```
    pub fn label(mut self, key: impl Into<Text>, value: impl Into<Text>) -> Self {
        self.event.metadata.labels_mut().insert(key.into(), value.into());
        self
    }

    /// Sets the related object, which is a second object involved in the event.
    ///
    /// # Examples
    ///
    /// ```
    /// use eventcast::EventType::Normal;
    /// use eventcast::testing::FakeRecorder;
    ///
    /// let fake = FakeRecorder::new(1);
    /// let pod = eventcast::ObjectReference::new("Pod", "web-0");
    /// fake.recorder("tester").draft(&pod, Normal, "Scheduled").related(eventcast::ObjectReference::new("Node", "n1")).record();
    /// assert_eq!(fake.take()[0].related().unwrap().name, "n1");
    /// ```
    pub fn related(mut self, object: impl Into<ObjectReference>) -> Self {
        self.event.set_related(object.into());
        self
    }

    /// Sets the action that was taken on the object, as one word in `CamelCase`.
    ///
    /// # Examples
    ///
    /// ```
    /// use eventcast::EventType::Normal;
    /// use eventcast::testing::FakeRecorder;
    ///
    /// let fake = FakeRecorder::new(1);
    /// let pod = eventcast::ObjectReference::new("Pod", "web-0");
    /// fake.recorder("tester").draft(&pod, Normal, "Scheduled").action("Binding").record();
    /// assert_eq!(fake.take()[0].action(), "Binding");
    /// ```
    pub fn action(mut self, action: impl Into<Text>) -> Self {
        self.event.set_action(action);
        self
    }

    /// Sets the time when the event happened, if it is not the current time. This time is used as
    /// the event's first and last timestamp. The event's name and the correlator's windows are
    /// still based on the clock.
    ///
    /// # Examples
    ///
    /// ```
    /// use eventcast::EventType::Normal;
    /// use eventcast::testing::FakeRecorder;
    ///
    /// let fake = FakeRecorder::new(1);
    /// let pod = eventcast::ObjectReference::new("Pod", "web-0");
    /// fake.recorder("tester").draft(&pod, Normal, "Scheduled").at(eventcast::Timestamp::UNIX_EPOCH).record();
    /// let event = &fake.take()[0];
    /// assert_eq!(event.first_timestamp, Some(eventcast::Timestamp::UNIX_EPOCH));
    /// assert_eq!(event.first_timestamp, event.last_timestamp);
    /// ```
    #[doc(alias = "PastEventf")]
    pub fn at(mut self, at: Timestamp) -> Self {
        self.event.first_timestamp = Some(at);
        self.event.last_timestamp = Some(at);
        self
    }

    /// Records the event.
    ///
    /// # Examples
    ///
    /// ```
    /// use eventcast::{EventType, ObjectReference, Recorded, Recorder};
    ///
    /// let recorder = Recorder::disabled();
    /// let draft = recorder.draft(ObjectReference::new("Pod", "web-0"), EventType::Normal, "Started");
    /// assert_eq!(draft.record(), Recorded::Disabled);
    /// ```
    pub fn record(self) -> Recorded {
        match self.recorder.check(&self.event.reason, self.event.action()) {
            Ok(()) => self.recorder.publish(self.event.into()),
            Err(refusal) => self.recorder.refuse_unscrubbed(refusal, self.event.into()),
        }
    }
}

impl fmt::Debug for EventDraft<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The message is omitted, because it has not been scrubbed yet.
        f.debug_struct("EventDraft")
            .field("object", &self.event.involved_object)
            .field("reason", &self.event.reason)
            .finish_non_exhaustive()
    }
}
