//! Defines the outcome of a recording call.

use std::fmt;

use serde::Serialize;

use crate::record::event::EventField;

/// The outcome of one call to a recorder.
///
/// A caller may ignore the outcome. Every refusal is counted. If a broadcaster refuses an event,
/// the refusal is also reported to the broadcaster's `on_loss` hook.
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
    /// The event was added to the queue, and will be offered to every watcher.
    Accepted,
    /// The queue is full, because events are recorded faster than the watchers receive them. The
    /// full queue is the incoming queue or, on an [inline](crate::EventBroadcaster::new_inline)
    /// broadcaster, the queue of a watcher or recording for which the recorder would otherwise have
    /// to wait. The event does not reach any watcher, log or recording.
    Full,
    /// The broadcaster has been closed.
    #[doc(alias = "Stopped")]
    Closed,
    /// The recorder was created by [`Recorder::disabled`](crate::Recorder::disabled).
    Disabled,
    /// The reason is empty, but every event must have a reason.
    EmptyReason,
    /// An API server would refuse the event because the given field is invalid. A recorder checks
    /// the fields only if its events have an [event
    /// time](crate::record::EventBroadcasterBuilder::event_time).
    Invalid(EventField),
    /// The `scrub` function panicked, so the event might still contain data that the function
    /// should have removed.
    ScrubPanicked,
}

impl Recorded {
    /// Returns whether the event was added to the queue.
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
