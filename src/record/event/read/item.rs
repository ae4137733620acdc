//! Defines `ReadEvent`, which holds an event that was read and the information from its envelope.

use crate::record::event::core_v1::Event;

/// An event returned by an [`EventReader`](crate::event::EventReader).
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
    /// The event that was read.
    pub event: Event,
    /// Whether the envelope reports a deletion. Such an envelope is a `DELETED` watch event or an
    /// audit record of a delete request. A deletion does not count as another occurrence of the
    /// event.
    pub is_deleted: bool,
    /// The number, starting at 1, of the line on which the document begins.
    pub line: u64,
}
