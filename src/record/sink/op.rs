//! The operations that a store performs, and the error type for failed operations.

use std::error::Error;
use std::fmt;

use crate::record::event::Event;

use super::error::SinkError;

/// An operation to be performed on a store.
///
/// # Examples
///
/// ```
/// use eventcast::Event;
/// use eventcast::sink::SinkOp;
///
/// fn is_repeat(op: &SinkOp) -> bool {
///     !matches!(op, SinkOp::Create(_))
/// }
/// assert!(is_repeat(&SinkOp::Update(Event::default())));
/// ```
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum SinkOp {
    /// Stores a new event, like [`EventSink::create`](crate::EventSink::create).
    Create(Event),
    /// Replaces an event, like [`EventSink::update`](crate::EventSink::update).
    Update(Event),
    /// Changes an event, like [`EventSink::patch`](crate::EventSink::patch). The variant holds the
    /// event in the state that it should have after the patch.
    Patch(Event),
}

impl SinkOp {
    /// Returns the event to store. For a patch, this is the event in the state that it should have
    /// after the patch.
    ///
    /// # Examples
    ///
    /// ```
    /// use eventcast::Event;
    /// use eventcast::sink::SinkOp;
    ///
    /// let mut event = Event::default();
    /// event.count = 2;
    /// assert_eq!(SinkOp::Patch(event.clone()).event(), &event);
    /// ```
    pub fn event(&self) -> &Event {
        match self {
            Self::Create(event) | Self::Update(event) | Self::Patch(event) => event,
        }
    }

    /// Converts the operation into its event, without copying the event.
    pub fn into_event(self) -> Event {
        match self {
            Self::Create(event) | Self::Update(event) | Self::Patch(event) => event,
        }
    }

    /// Creates an error that holds this operation and the reason for its failure.
    ///
    /// # Examples
    ///
    /// ```
    /// use eventcast::sink::SinkOp;
    /// use eventcast::{Event, SinkError};
    ///
    /// let failed = SinkOp::Create(Event::default()).failed(SinkError::retry("busy"));
    /// assert_eq!(failed.to_string(), "may be tried again: busy");
    /// let (op, error) = failed.into_parts();
    /// assert_eq!((op.into_event(), error.retry_after()), (Event::default(), None));
    /// ```
    pub fn failed(self, error: SinkError) -> SinkOpError {
        SinkOpError(Box::new((self, error)))
    }
}

/// The error returned when an operation fails. The error also holds the operation, so that the
/// event is not lost. `Display` and `source` forward to the [`SinkError`].
pub struct SinkOpError(Box<(SinkOp, SinkError)>);

impl SinkOpError {
    /// Returns the operation that failed.
    pub fn op(&self) -> &SinkOp {
        &self.0.0
    }

    /// Returns the reason for the failure.
    pub fn error(&self) -> &SinkError {
        &self.0.1
    }

    /// Returns the operation and the reason for its failure.
    pub fn into_parts(self) -> (SinkOp, SinkError) {
        *self.0
    }
}

impl fmt::Display for SinkOpError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.error().fmt(f)
    }
}

/// Formats only the error, because the event may contain data that must not be logged.
impl fmt::Debug for SinkOpError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SinkOpError").field("error", self.error()).finish_non_exhaustive()
    }
}

impl Error for SinkOpError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.error().source()
    }
}
