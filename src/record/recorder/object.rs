//! Defines a recorder that is bound to one object.

use crate::record::event::{EventType, ObjectReference, Text};

use super::draft::EventDraft;
use super::handle::Recorder;
use super::recorded::Recorded;

/// A [`Recorder`] that is bound to one object. Cloning an `ObjectRecorder` copies the object
/// reference, but long strings in the reference are shared.
///
/// # Examples
///
/// ```
/// use eventcast::testing::FakeRecorder;
/// use eventcast::{EventType, ObjectReference};
///
/// let fake = FakeRecorder::new(16);
/// let about_pod = fake.recorder("tester").for_object(ObjectReference::new("Pod", "web-0"));
/// about_pod.event(EventType::Normal, "Started", "up");
/// about_pod.event(EventType::Normal, "Ready", format_args!("after {} s", 3));
/// assert_eq!(fake.take_lines(), ["Normal Started up", "Normal Ready after 3 s"]);
/// ```
#[derive(Clone, Debug)]
pub struct ObjectRecorder {
    recorder: Recorder,
    object: ObjectReference,
}

impl Recorder {
    /// Returns a recorder that is bound to one object, so that the object reference is built only
    /// once.
    ///
    /// # Examples
    ///
    /// ```
    /// use eventcast::ObjectReference;
    /// use eventcast::testing::FakeRecorder;
    ///
    /// let fake = FakeRecorder::new(16);
    /// let about_pod = fake.recorder("tester").for_object(ObjectReference::new("Pod", "web-0"));
    /// about_pod.warning("BackOff", "restarting");
    /// assert_eq!(fake.take()[0].involved_object, *about_pod.object());
    /// ```
    pub fn for_object(&self, object: impl Into<ObjectReference>) -> ObjectRecorder {
        ObjectRecorder { recorder: self.clone(), object: object.into() }
    }
}

impl ObjectRecorder {
    /// Creates a draft of an event about this object. See [`Recorder::draft`].
    ///
    /// # Examples
    ///
    /// ```
    /// use eventcast::EventType::Normal;
    /// use eventcast::testing::FakeRecorder;
    ///
    /// let fake = FakeRecorder::new(1);
    /// let about_disk = fake.recorder("tester").for_object(eventcast::ObjectReference::new("Disk", "sda"));
    /// about_disk.draft(Normal, "Mounted").label("team", "blue").record();
    /// let event = &fake.take()[0];
    /// assert_eq!(event.involved_object, *about_disk.object());
    /// assert_eq!(event.metadata.labels()["team"], "blue");
    /// ```
    pub fn draft(&self, type_: EventType, reason: impl Into<Text>) -> EventDraft<'_> {
        self.recorder.draft(&self.object, type_, reason)
    }

    /// Records an event about this object. See [`Recorder::event`].
    pub fn event(&self, type_: EventType, reason: impl Into<Text>, message: impl Into<Text>) -> Recorded {
        self.recorder.event(&self.object, type_, reason, message)
    }

    /// Records a `Normal` event about this object. See [`Recorder::normal`].
    ///
    /// # Examples
    ///
    /// ```
    /// use eventcast::testing::FakeRecorder;
    ///
    /// let fake = FakeRecorder::new(16);
    /// let about_pod = fake.recorder("tester").for_object(eventcast::ObjectReference::new("Pod", "web-0"));
    /// about_pod.normal("Started", "up");
    /// about_pod.warning("BackOff", "restarting");
    /// assert_eq!(fake.take_lines(), ["Normal Started up", "Warning BackOff restarting"]);
    /// ```
    pub fn normal(&self, reason: impl Into<Text>, message: impl Into<Text>) -> Recorded {
        self.recorder.normal(&self.object, reason, message)
    }

    /// Records a `Warning` event about this object. See [`Recorder::warning`].
    pub fn warning(&self, reason: impl Into<Text>, message: impl Into<Text>) -> Recorded {
        self.recorder.warning(&self.object, reason, message)
    }

    /// Returns the object that this recorder's events are about.
    pub fn object(&self) -> &ObjectReference {
        &self.object
    }
}
