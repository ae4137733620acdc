//! The outcome of a call.

use std::error::Error;
use std::fmt;

use serde::Serialize;

use crate::record::event::EventField;

/// The outcome of one call of a recorder.
///
/// A caller may ignore the outcome. Every refusal is counted, and every refusal by a broadcaster
/// reaches its `on_loss` hook.
///
/// # Examples
///
/// ```
/// use eventcast::testing::FakeRecorder;
/// use eventcast::{EventType, ObjectReference, Recorded};
///
/// let recorder = FakeRecorder::new(1).recorder();
/// let pod = ObjectReference::new("Pod", "web-0");
/// assert!(recorder.event(&pod, EventType::Normal, "Started", "").is_accepted());
/// let refused = recorder.event(&pod, EventType::Normal, "Started", "");
/// assert_eq!(refused, Recorded::Full);
/// let error = refused.into_result().unwrap_err();
/// assert_eq!(error.to_string(), "cannot record the event: the queue is full");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Recorded {
    /// The event is in the queue, and will be offered to every watcher.
    Accepted,
    /// The queue is full: recorders record more than the watchers can take. This is the incoming
    /// queue, or on an [inline](crate::EventBroadcaster::inline) broadcaster the queue of a watcher
    /// or recording for which recorders would have to wait. Nothing gets the event.
    Full,
    /// The broadcaster has been closed.
    Stopped,
    /// The recorder comes from [`Recorder::disabled`](crate::Recorder::disabled).
    Disabled,
    /// The reason is empty, but an event must have one.
    EmptyReason,
    /// An API server would refuse the event because of this field. Only recorders whose events have
    /// an [event time](crate::record::EventBroadcasterBuilder::event_time) look at it.
    Invalid(EventField),
    /// The function that scrubs events panicked, so the event might show what the function was to
    /// hide.
    ScrubPanicked,
}

impl Recorded {
    /// Returns whether the event is in the queue.
    pub fn is_accepted(self) -> bool {
        self == Self::Accepted
    }

    /// Returns the outcome as a result, for `?`.
    ///
    /// # Errors
    ///
    /// Returns every outcome except [`Accepted`](Self::Accepted) as an error.
    ///
    /// # Examples
    ///
    /// ```
    /// use eventcast::record::RecordError;
    /// use eventcast::{Recorded, Recorder};
    ///
    /// fn note(recorder: &Recorder) -> Result<(), RecordError> {
    ///     recorder.normal(eventcast::ObjectReference::new("Pod", "web-0"), "Started", "up").into_result()
    /// }
    ///
    /// assert_eq!(note(&Recorder::disabled()).map_err(RecordError::outcome), Err(Recorded::Disabled));
    /// assert_eq!(Recorded::Accepted.into_result(), Ok(()));
    /// ```
    pub fn into_result(self) -> Result<(), RecordError> {
        if self.is_accepted() { Ok(()) } else { Err(RecordError(self)) }
    }
}

impl fmt::Display for Recorded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Invalid(field) => return write!(f, "the {field} is not valid"),
            Self::Accepted => "accepted",
            Self::Full => "the queue is full",
            Self::Stopped => "the broadcaster has been closed",
            Self::Disabled => "the recorder is disabled",
            Self::EmptyReason => "the reason is empty",
            Self::ScrubPanicked => "the scrubbing function panicked",
        })
    }
}

/// The error for an event that was not recorded.
///
/// # Examples
///
/// ```
/// use eventcast::Recorded;
///
/// let error = Recorded::EmptyReason.into_result().unwrap_err();
/// assert_eq!(error.outcome(), Recorded::EmptyReason);
/// assert_eq!(error.to_string(), "cannot record the event: the reason is empty");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RecordError(Recorded);

impl RecordError {
    /// Returns the outcome of the call, which is never [`Recorded::Accepted`].
    pub fn outcome(self) -> Recorded {
        self.0
    }
}

impl fmt::Display for RecordError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cannot record the event: {}", self.0)
    }
}

impl Error for RecordError {}
