//! The outcome of a recording call.

use std::fmt;

use serde::Serialize;

use crate::record::event::EventField;

/// The outcome of one call to a recorder.
///
/// A caller may ignore the outcome. Every refusal is counted, and every refusal by a broadcaster is
/// reported to its `on_loss` hook.
///
/// # Examples
///
/// ```
/// use eventcast::testing::FakeRecorder;
/// use eventcast::{EventType, ObjectReference, Recorded};
///
/// let recorder = FakeRecorder::new(1).recorder("tester");
/// let pod = ObjectReference::new("Pod", "web-0");
/// assert!(recorder.event(&pod, EventType::Normal, "Started", "").is_accepted());
/// let refused = recorder.event(&pod, EventType::Normal, "Started", "");
/// assert_eq!(refused, Recorded::Full);
/// assert_eq!(refused.to_string(), "the queue is full");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Recorded {
    /// The event is in the queue, and will be offered to every watcher.
    Accepted,
    /// The queue is full, because events are recorded faster than the watchers can take them. The
    /// queue is the incoming queue or, on an [inline](crate::EventBroadcaster::new_inline)
    /// broadcaster, the queue of a watcher or recording that the recorder would otherwise have to
    /// wait for. No watcher, log or recording receives the event.
    Full,
    /// The broadcaster has been closed.
    #[doc(alias = "Stopped")]
    Closed,
    /// The recorder was created by [`Recorder::disabled`](crate::Recorder::disabled).
    Disabled,
    /// The reason is empty, but every event must have a reason.
    EmptyReason,
    /// An API server would refuse the event because this field is invalid. Only recorders whose
    /// events have an [event time](crate::record::EventBroadcasterBuilder::event_time) check this.
    Invalid(EventField),
    /// The function that scrubs events panicked, so the event might contain data that the function
    /// should have removed.
    ScrubPanicked,
}

impl Recorded {
    /// Returns whether the event is in the queue.
    pub fn is_accepted(self) -> bool {
        self == Self::Accepted
    }
}

impl fmt::Display for Recorded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Invalid(field) => return write!(f, "the {field} is not valid"),
            Self::Accepted => "accepted",
            Self::Full => "the queue is full",
            Self::Closed => "the broadcaster has been closed",
            Self::Disabled => "the recorder is disabled",
            Self::EmptyReason => "the reason is empty",
            Self::ScrubPanicked => "the scrubbing function panicked",
        })
    }
}
