//! What a reader of events cannot read.

use std::error::Error;
use std::{fmt, io};

use crate::escape::escape_to;

/// The longest text of an error, in characters.
const LENGTH: usize = 200;

/// The kind of a part that an [`EventReader`](super::EventReader) could not read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum EventReadErrorKind {
    /// A line that is not JSON, such as a warning of the program that wrote the input.
    Text,
    /// JSON that is not an event, such as a Pod or the bookmark of a watch.
    NotAnEvent,
    /// Text that begins as JSON and is not JSON. The reader goes on with the next line that begins
    /// as the broken document did.
    Malformed,
    /// An event with a field that cannot be read, such as a time that is none.
    Invalid,
    /// A document that is too long or too deep, or has a string that is too long.
    TooLarge,
    /// The input ends inside a document or inside a list. What came before has been read.
    CutOff,
    /// The source of the bytes has failed. Nothing more is read.
    Io,
}

impl EventReadErrorKind {
    /// Returns whether an event has been lost, or may have been. This is false for what was never
    /// an event: lines of text and documents of other kinds.
    pub fn is_loss(self) -> bool {
        !matches!(self, Self::Text | Self::NotAnEvent)
    }
}

/// The error for a part of the input that is not an event.
///
/// The reader can go on behind it, except behind an error of the source itself.
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
        Self { kind, line, text: escape_to(text, LENGTH).to_string(), source: None }
    }

    pub(super) fn io(line: u64, error: io::Error) -> Self {
        let text = escape_to(&error.to_string(), LENGTH).to_string();
        Self { kind: EventReadErrorKind::Io, line, text, source: Some(error) }
    }

    /// Returns the kind of the error.
    pub fn kind(&self) -> EventReadErrorKind {
        self.kind
    }

    /// Returns the line, counted from 1, in which the part begins. At an end that came too early,
    /// this is the last line.
    pub fn line(&self) -> u64 {
        self.line
    }

    /// Returns what is wrong, without the line. Characters that a terminal could obey are escaped.
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
