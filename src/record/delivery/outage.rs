//! Reports outages to the program.

use std::fmt;

use crate::escape::escape;
use crate::record::event::Timestamp;

/// A function that is called when the store becomes unavailable, and when the store becomes
/// available again.
pub(super) type OutageHook = Box<dyn FnMut(&Outage<'_>) + Send>;

/// The start or the end of an outage of a recording's store, as passed to the
/// [`on_outage`](crate::record::RecordingBuilder::on_outage) hook.
///
/// # Examples
///
/// ```
/// use eventcast::sink::SinkErrorKind;
/// use eventcast::{Event, EventBroadcaster, EventSink, ObjectReference, SinkError};
/// use std::sync::mpsc;
///
/// struct Away;
///
/// impl EventSink for Away {
///     fn create(&self, _: &Event) -> Result<Event, SinkError> {
///         Err(SinkError::new(SinkErrorKind::Unavailable, "connection refused"))
///     }
///     fn patch(&self, event: &Event) -> Result<Event, SinkError> {
///         self.create(event)
///     }
/// }
///
/// let (tx, outages) = mpsc::channel();
/// let events = EventBroadcaster::new()?;
/// events
///     .recording()
///     .on_outage(move |outage| tx.send((outage.cause.is_some(), outage.to_string())).unwrap())
///     .start(Away)?;
/// events.recorder("doc").normal(ObjectReference::new("Pod", "web-0"), "Run", "it runs");
/// let (has_begun, text) = outages.recv()?;
/// assert!(has_begun && text.starts_with("recording: store unavailable since "));
/// assert!(text.ends_with(": unavailable: connection refused"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Outage<'a> {
    /// The name of the recording.
    pub recording: &'a str,
    /// The [group](crate::EventSink::group) that is slow or not served, or `None` if the store is
    /// unavailable for all groups.
    pub group: Option<&'a str>,
    /// The time of day at which the outage began.
    pub since: Timestamp,
    /// The sink's error, truncated and escaped, or a note that the sink is not responding. The
    /// field is `None` at the end of the outage, when the store responds or serves the group again.
    #[doc(alias = "is_over")]
    pub cause: Option<&'a str>,
}

impl fmt::Display for Outage<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (recording, since) = (escape(self.recording), self.since);
        match (self.group.map(escape), self.cause) {
            (None, Some(cause)) => write!(f, "{recording}: store unavailable since {since:.0}: {cause}"),
            (None, None) => write!(f, "{recording}: store available again, unavailable since {since:.0}"),
            (Some(group), Some(cause)) => {
                write!(f, "{recording}: group \"{group}\" degraded since {since:.0}: {cause}")
            }
            (Some(group), None) => {
                write!(f, "{recording}: group \"{group}\" works again, degraded since {since:.0}")
            }
        }
    }
}
