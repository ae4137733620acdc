//! What became of a call.

use std::error::Error;
use std::fmt;

/// What became of one call. It need not be looked at: every refusal is counted, and reaches the broadcaster's `on_loss`.
///
/// # Examples
///
/// ```
/// use eventcast::{EventType, FakeRecorder, ObjectReference, Recorded};
///
/// let recorder = FakeRecorder::new(1).recorder();
/// let pod = ObjectReference::new("Pod", "web-0");
/// assert!(recorder.event(&pod, EventType::Normal, "Started", "").is_accepted());
/// let refused = recorder.event(&pod, EventType::Normal, "Started", "");
/// assert_eq!(refused.ok(), Err(Recorded::Full));
/// assert_eq!(refused.to_string(), "the queue is full");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Recorded {
    /// It is in the queue, and will be offered to every watcher.
    Accepted,
    /// The queue is full: more is recorded than watchers can take.
    Full,
    /// The broadcaster has been closed.
    Stopped,
    /// The recorder is one of [`Recorder::disabled`].
    Disabled,
    /// An event must have a reason.
    EmptyReason,
    /// The function that scrubs events panicked; the event might show what it was to hide.
    ScrubPanicked,
}

impl Recorded {
    /// Whether the event is in the queue.
    pub fn is_accepted(self) -> bool {
        self == Self::Accepted
    }

    /// As a result, for `?`.
    ///
    /// # Errors
    ///
    /// Everything but [`Accepted`](Self::Accepted).
    pub fn ok(self) -> Result<(), Self> {
        if self.is_accepted() { Ok(()) } else { Err(self) }
    }
}

impl fmt::Display for Recorded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Accepted => "accepted",
            Self::Full => "the queue is full",
            Self::Stopped => "the broadcaster has been closed",
            Self::Disabled => "the recorder is disabled",
            Self::EmptyReason => "the reason is empty",
            Self::ScrubPanicked => "the scrubbing function panicked",
        })
    }
}

impl Error for Recorded {}
