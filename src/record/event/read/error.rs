//! The errors that are returned for input that is not an event.

use std::error::Error;
use std::{fmt, io};

use crate::escape::escape;

/// The maximum length of a description, in characters.
const LENGTH: usize = 200;

/// The category of an [`EventReadError`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum EventReadErrorKind {
    /// The line is not JSON. For example, it may be a warning printed by `kubectl`.
    Text,
    /// The document is JSON but does not describe an event. For example, it may describe a Pod.
    NotAnEvent,
    /// The document starts like JSON but is malformed. The reader resumes at the next line that
    /// starts with the same indentation or with none.
    Malformed,
    /// The event has an invalid field, for example an unparsable time.
    Invalid,
    /// The document exceeds a limit on its length, its depth, the number of its values or the
    /// length of a single string.
    TooLarge,
    /// The input ends inside a document or a list. All events before that point have been returned.
    CutOff,
    /// The underlying reader failed. The iterator ends after this error.
    Io,
}

impl EventReadErrorKind {
    /// Returns whether events were lost or may have been lost. Returns `false` for input that was
    /// never an event, namely lines of text and documents of other kinds.
    pub fn is_loss(self) -> bool {
        !matches!(self, Self::Text | Self::NotAnEvent)
    }
}

/// The error returned for a part of the input that is not an event.
///
/// [`EventReader`](crate::event::EventReader) continues after such an error, unless the underlying
/// reader failed.
///
/// # Examples
///
/// ```
/// use eventcast::event::{EventReadErrorKind, EventReader};
///
/// let input = "Warning: old version\n{\"reason\": \"Started\"}\n{\"kind\": \"Pod\"}";
/// let found: Vec<_> = EventReader::new(input.as_bytes()).collect();
/// let text = found[0].as_ref().unwrap_err();
/// assert_eq!((text.kind(), text.line()), (EventReadErrorKind::Text, 1));
/// assert_eq!(text.to_string(), "line 1: 'Warning: old version' is not JSON");
/// assert_eq!(found[1].as_ref().unwrap().event.reason, "Started");
/// assert_eq!(found[2].as_ref().unwrap_err().to_string(), "line 3: a Pod, not an Event");
/// ```
#[derive(Debug)]
pub struct EventReadError {
    kind: EventReadErrorKind,
    line: u64,
    text: String,
    source: Option<io::Error>,
}

impl EventReadError {
    pub(super) fn new(kind: EventReadErrorKind, line: u64, text: &str) -> Self {
        Self { kind, line, text: format!("{:.LENGTH$}", escape(text)), source: None }
    }

    pub(super) fn io(line: u64, error: io::Error) -> Self {
        let text = format!("{:.LENGTH$}", escape(&error.to_string()));
        Self { kind: EventReadErrorKind::Io, line, text, source: Some(error) }
    }

    /// Returns the category of the error.
    pub fn kind(&self) -> EventReadErrorKind {
        self.kind
    }

    /// Returns the number, starting at 1, of the line on which the faulty part of the input begins.
    /// If the input was truncated, this method returns the number of the last line.
    pub fn line(&self) -> u64 {
        self.line
    }

    /// Returns the description without the line number. Control characters are escaped.
    pub fn text(&self) -> &str {
        &self.text
    }
}

impl fmt::Display for EventReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.text)
    }
}

impl Error for EventReadError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.source.as_ref().map(|error| error as &(dyn Error + 'static))
    }
}
