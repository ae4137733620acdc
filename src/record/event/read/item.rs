//! An event that was read, with what the form around it says.

use crate::record::event::core_v1::Event;

/// An event that was read.
///
/// # Examples
///
/// ```
/// use eventcast::event::EventReader;
///
/// let input = r#"{"type": "DELETED", "object": {"reason": "Started"}}"#;
/// let read = EventReader::new(input.as_bytes()).next().unwrap()?;
/// assert_eq!((read.event.reason.as_str(), read.is_deleted, read.line), ("Started", true, 1));
/// # Ok::<(), eventcast::event::EventReadError>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct ReadEvent {
    /// The event.
    pub event: Event,
    /// The document says that the event was deleted: the watch's event `DELETED`, or the record of
    /// a request that deletes. The event did not occur once more.
    pub is_deleted: bool,
    /// The line, counted from 1, in which the document begins.
    pub line: u64,
}
