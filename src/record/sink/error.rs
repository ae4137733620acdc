//! The errors that a sink can return.

use std::error::Error;
use std::fmt;
use std::io;
use std::time::Duration;

use crate::escape::escape;
use crate::record::event::Event;

/// The maximum number of characters that are shown of a store's message. The limit leaves enough
/// space for an API server's error response, which names the user, the verb, the group and the
/// namespace. An administrator needs all of them to correct the role.
const MAX_CAUSE: usize = 1000;

/// The cause of a sink's error.
type BoxError = Box<dyn Error + Send + Sync>;

/// An error returned by a sink. It has a cause, and a kind that determines what a recording does
/// next.
///
/// # Examples
///
/// ```
/// use eventcast::sink::SinkErrorKind;
/// use eventcast::SinkError;
/// use std::time::Duration;
///
/// let error = SinkError::retry("too many requests").with_retry_after(Duration::from_secs(1));
/// assert_eq!(error.kind(), SinkErrorKind::Retry);
/// assert_eq!(error.retry_after(), Some(Duration::from_secs(1)));
/// assert_eq!(error.to_string(), "may be tried again: too many requests");
/// ```
pub struct SinkError {
    kind: SinkErrorKind,
    retry_after: Option<Duration>,
    stored: Option<Box<Event>>,
    is_panic: bool,
    source: BoxError,
}

/// The kind of a [`SinkError`], which determines what a recording does next.
///
/// # Examples
///
/// ```
/// use eventcast::SinkError;
/// use eventcast::sink::SinkErrorKind;
///
/// fn of_status(status: u16) -> SinkError {
///     let kind = match status {
///         404 => SinkErrorKind::NotFound,
///         409 => SinkErrorKind::AlreadyExists,
///         503 | 504 => SinkErrorKind::GroupUnavailable,
///         429 | 500.. => SinkErrorKind::Retry,
///         _ => SinkErrorKind::Rejected,
///     };
///     SinkError::new(kind, status.to_string())
/// }
/// assert_eq!(of_status(500).kind(), SinkErrorKind::Retry);
/// assert_eq!(of_status(503).kind(), SinkErrorKind::GroupUnavailable);
/// assert_eq!(of_status(413).kind(), SinkErrorKind::Rejected);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum SinkErrorKind {
    /// The operation failed temporarily, because the store is busy or could not process this event.
    ///
    /// A recording retries this event according to its [`RetryPolicy`](crate::RetryPolicy), and
    /// continues to write all other events.
    Retry,
    /// The store itself is unavailable, for example because there is no connection, a file is
    /// locked or the disk is full. An operation for any other event would fail too.
    ///
    /// A recording then stops writing, and tries one event at a time until the store responds. See
    /// [`RetryPolicy`](crate::RetryPolicy). Do not return this error for a failure that may concern
    /// only one event, one tenant or one namespace, because it would delay all other events. Return
    /// [`GroupUnavailable`](Self::GroupUnavailable) or [`Retry`](Self::Retry) instead.
    #[doc(alias = "unreachable")]
    Unavailable,
    /// The store did not respond in time, or reported that it is unavailable, but it may be
    /// unavailable only for the event's [group](crate::EventSink::group).
    ///
    /// If no operation in that group has been answered since this one began, the recording closes
    /// the group. It then tries one event in the group at a time until the store answers one, and
    /// continues to write events in other groups. If two groups are closed and no other operation
    /// is answered, or if there is only one group, the store counts as unavailable.
    #[doc(alias("timeout", "deadline exceeded"))]
    GroupUnavailable,
    /// The store does not allow the sink to perform the operation, because the sink has no
    /// permission for the event's [group](crate::EventSink::group) or its credentials are invalid.
    /// Another sink, or the same sink at a later time, may be allowed to perform it.
    ///
    /// A store that has just started may refuse operations that it allows shortly afterwards. The
    /// recording therefore closes the group, as after [`GroupUnavailable`](Self::GroupUnavailable),
    /// and tries one event in the group after each pause, until 30 seconds after the first refusal.
    /// After that, each refusal causes the recording to drop the refused event and all waiting
    /// events in the group, which count as rejected. A refusal does not end a store outage. If the
    /// [`RetryPolicy`](crate::RetryPolicy) allows only one attempt, the first refusal is final.
    ///
    /// Do not return this error if the store refuses the event itself. Return
    /// [`Rejected`](Self::Rejected) instead.
    #[doc(alias("unauthorized", "permission denied"))]
    Forbidden,
    /// The operation will never succeed, because the event is invalid, too large or not permitted.
    /// A recording drops the event.
    Rejected,
    /// The operation changes an event that the store does not have. A recording then creates the
    /// event.
    #[doc(alias = "IsKeyNotFoundError")]
    NotFound,
    /// The name of a new event is already taken.
    ///
    /// - If the stored event is the same event, written by an attempt whose response was lost, a
    ///   recording treats the event as stored.
    /// - If the stored event is a different event, a recording tries once more with a new name.
    ///
    /// A store that knows which event has the name should pass that event to
    /// [`with_stored`](SinkError::with_stored).
    AlreadyExists,
}

impl SinkError {
    /// Creates an error of this kind. The cause can be any error or a string.
    ///
    /// # Examples
    ///
    /// ```
    /// use eventcast::SinkError;
    /// use eventcast::sink::SinkErrorKind;
    ///
    /// let error = SinkError::new(SinkErrorKind::Unavailable, "connection refused");
    /// assert_eq!(error.kind(), SinkErrorKind::Unavailable);
    /// assert_eq!(error.to_string(), "unavailable: connection refused");
    ///
    /// let error = SinkError::new(SinkErrorKind::NotFound, "events \"web-0.1\"");
    /// assert_eq!(error.to_string(), "not found: events \"web-0.1\"");
    /// ```
    pub fn new(kind: SinkErrorKind, source: impl Into<BoxError>) -> Self {
        Self { kind, retry_after: None, stored: None, is_panic: false, source: source.into() }
    }

    /// Creates an error of kind [`Retry`](SinkErrorKind::Retry), for an event that may be stored by
    /// a later attempt.
    ///
    /// # Examples
    ///
    /// ```
    /// use eventcast::SinkError;
    /// use eventcast::sink::SinkErrorKind;
    ///
    /// let error = SinkError::retry("the webhook of this namespace failed");
    /// assert_eq!((error.kind(), error.retry_after()), (SinkErrorKind::Retry, None));
    /// assert_eq!(error.to_string(), "may be tried again: the webhook of this namespace failed");
    /// ```
    pub fn retry(source: impl Into<BoxError>) -> Self {
        Self::new(SinkErrorKind::Retry, source)
    }

    /// Creates an error of kind [`Rejected`](SinkErrorKind::Rejected), for an event that will never
    /// be stored.
    ///
    /// # Examples
    ///
    /// ```
    /// use eventcast::{Event, EventBroadcaster, EventSink, EventType, ObjectReference, SinkError};
    ///
    /// struct Full;
    ///
    /// impl EventSink for Full {
    ///     fn create(&self, _: &Event) -> Result<Event, SinkError> {
    ///         Err(SinkError::rejected("this event is too large"))
    ///     }
    ///
    ///     fn patch(&self, event: &Event) -> Result<Event, SinkError> {
    ///         self.create(event)
    ///     }
    /// }
    ///
    /// let events = EventBroadcaster::new()?;
    /// let recording = events.record_to(Full)?;
    /// events.recorder("mounter").event(ObjectReference::new("Disk", "sda"), EventType::Normal, "Mounted", "/");
    /// events.shutdown();
    /// assert_eq!((recording.stats().rejected, recording.stats().retried), (1, 0));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn rejected(source: impl Into<BoxError>) -> Self {
        Self::new(SinkErrorKind::Rejected, source)
    }

    /// Sets the back-off that the store requested (`Retry-After`). A recording respects it for
    /// errors of kind [`Retry`](SinkErrorKind::Retry), [`Unavailable`](SinkErrorKind::Unavailable),
    /// [`GroupUnavailable`](SinkErrorKind::GroupUnavailable) or
    /// [`Forbidden`](SinkErrorKind::Forbidden).
    ///
    /// # Examples
    ///
    /// ```
    /// use eventcast::SinkError;
    /// use eventcast::sink::SinkErrorKind;
    /// use std::time::Duration;
    ///
    /// let error = SinkError::new(SinkErrorKind::Unavailable, "503 Service Unavailable");
    /// let error = error.with_retry_after(Duration::from_secs(2));
    /// assert_eq!(error.retry_after(), Some(Duration::from_secs(2)));
    /// ```
    #[doc(alias = "with_wait")]
    #[must_use]
    pub fn with_retry_after(mut self, pause: Duration) -> Self {
        self.retry_after = Some(pause);
        self
    }

    /// Sets the stored event that already has the new event's name.
    ///
    /// # Examples
    ///
    /// ```
    /// use eventcast::{Event, EventSink, MemorySink};
    ///
    /// let mut event = Event::default();
    /// event.metadata.name = "web-0.1".into();
    /// let sink = MemorySink::new();
    /// let stored = sink.create(&event)?;
    /// assert_eq!(sink.create(&event).unwrap_err().stored(), Some(&stored));
    /// # Ok::<(), eventcast::SinkError>(())
    /// ```
    #[must_use]
    pub fn with_stored(mut self, stored: Event) -> Self {
        self.stored = Some(Box::new(stored));
        self
    }

    /// Creates the error for a sink that panicked. The panic counts as a rejection of the event,
    /// because the sink would panic again on the same event.
    pub(crate) fn panicked(text: &str) -> Self {
        Self { is_panic: true, ..Self::rejected(format!("the sink panicked: {text}")) }
    }

    pub(crate) fn is_panic(&self) -> bool {
        self.is_panic
    }

    /// Returns the error's kind, which determines what a recording does next.
    ///
    /// # Examples
    ///
    /// ```
    /// use eventcast::SinkError;
    /// use eventcast::sink::SinkErrorKind;
    ///
    /// assert_eq!(SinkError::rejected("too large").kind(), SinkErrorKind::Rejected);
    /// assert_eq!(SinkError::retry("busy").kind(), SinkErrorKind::Retry);
    /// ```
    pub fn kind(&self) -> SinkErrorKind {
        self.kind
    }

    /// Returns the back-off that the store requested, or `None` if it did not request one.
    ///
    /// # Examples
    ///
    /// ```
    /// use eventcast::SinkError;
    /// use std::time::Duration;
    ///
    /// let error = SinkError::retry("429 Too Many Requests");
    /// assert_eq!(error.retry_after(), None);
    /// let pause = Duration::from_secs(1);
    /// assert_eq!(error.with_retry_after(pause).retry_after(), Some(pause));
    /// ```
    #[doc(alias = "wait")]
    pub fn retry_after(&self) -> Option<Duration> {
        self.retry_after
    }

    /// Returns the stored event that already has the new event's name, or `None` if the store did
    /// not report it.
    ///
    /// # Examples
    ///
    /// ```
    /// use eventcast::sink::SinkErrorKind;
    /// use eventcast::{Event, SinkError};
    ///
    /// let error = SinkError::new(SinkErrorKind::AlreadyExists, "the name is taken");
    /// assert_eq!(error.stored(), None);
    /// let error = error.with_stored(Event::default());
    /// assert_eq!(error.stored(), Some(&Event::default()));
    /// ```
    pub fn stored(&self) -> Option<&Event> {
        self.stored.as_deref()
    }
}

/// Converts an I/O error, such as an error from a file or a connection, to the appropriate kind of
/// sink error.
///
/// An I/O error is considered an error of the store rather than of an event, unless its kind
/// indicates otherwise:
///
/// | I/O error kind | becomes |
/// |---|---|
/// | `Interrupted`, `Deadlock`, `ExecutableFileBusy` | [`Retry`](SinkErrorKind::Retry): the next attempt may succeed |
/// | `AlreadyExists`, `DirectoryNotEmpty`, `IsADirectory`, `NotADirectory` | [`Retry`](SinkErrorKind::Retry): a path is taken, possibly the path of one event |
/// | `InvalidData`, such as a response that cannot be read, or a TLS error | [`Retry`](SinkErrorKind::Retry): the next response may differ |
/// | `Other`, as created by `io::Error::other` | [`Retry`](SinkErrorKind::Retry): it is unknown what the error concerns |
/// | `InvalidInput`, `Unsupported`, `ArgumentListTooLong` | [`Rejected`](SinkErrorKind::Rejected): the same call fails again |
/// | `TimedOut`, `WouldBlock` | [`GroupUnavailable`](SinkErrorKind::GroupUnavailable): there was no response |
/// | any other, such as `PermissionDenied`, `NotFound`, `StorageFull`, `ConnectionRefused`, or a failing disk | [`Unavailable`](SinkErrorKind::Unavailable): an operation for any other event would fail too |
///
/// - `PermissionDenied` does not become a rejection, because an administrator can grant the
///   permission, whereas a rejected event is lost immediately.
/// - `WouldBlock` is how Unix reports that a socket operation has timed out.
/// - `io::ErrorKind::NotFound` refers to a path, such as a directory that is not mounted yet. It
///   does not become [`SinkErrorKind::NotFound`], and `io::ErrorKind::AlreadyExists` does not
///   become [`SinkErrorKind::AlreadyExists`]. Those two kinds of sink errors refer to events, and
///   only the sink can detect such errors.
///
/// If a failure may concern only one event, one tenant or one namespace, create the sink error
/// yourself instead of converting the I/O error.
///
/// # Examples
///
/// ```
/// use eventcast::SinkError;
/// use eventcast::sink::SinkErrorKind;
/// use std::io;
///
/// fn store() -> Result<(), SinkError> {
///     Err(io::Error::from(io::ErrorKind::StorageFull))?
/// }
/// assert_eq!(store().unwrap_err().kind(), SinkErrorKind::Unavailable);
///
/// let error = SinkError::from(io::Error::new(io::ErrorKind::InvalidInput, "a name with NUL"));
/// assert_eq!(error.kind(), SinkErrorKind::Rejected);
/// ```
impl From<io::Error> for SinkError {
    fn from(error: io::Error) -> Self {
        use io::ErrorKind as Kind;
        match error.kind() {
            Kind::Interrupted
            | Kind::Deadlock
            | Kind::ExecutableFileBusy
            | Kind::AlreadyExists
            | Kind::DirectoryNotEmpty
            | Kind::IsADirectory
            | Kind::NotADirectory
            | Kind::InvalidData
            | Kind::Other => Self::retry(error),
            Kind::TimedOut | Kind::WouldBlock => Self::new(SinkErrorKind::GroupUnavailable, error),
            Kind::InvalidInput | Kind::Unsupported | Kind::ArgumentListTooLong => Self::rejected(error),
            _ => Self::new(SinkErrorKind::Unavailable, error),
        }
    }
}

/// Shows the kind and at most 1,000 characters of the cause. Control characters are escaped.
impl fmt::Display for SinkError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match self.kind {
            SinkErrorKind::Retry => "may be tried again",
            SinkErrorKind::Unavailable => "unavailable",
            SinkErrorKind::GroupUnavailable => "group unavailable",
            SinkErrorKind::Forbidden => "forbidden",
            SinkErrorKind::Rejected => "rejected",
            SinkErrorKind::NotFound => "not found",
            SinkErrorKind::AlreadyExists => "already exists",
        };
        write!(f, "{kind}: {:.MAX_CAUSE$}", escape(&self.source.to_string()))
    }
}

/// Shows the cause using its own `Debug` implementation. Control characters are escaped here too,
/// because not every error type escapes the text that it includes.
impl fmt::Debug for SinkError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let source = format!("{:?}", self.source);
        f.debug_struct("SinkError")
            .field("kind", &self.kind)
            .field("retry_after", &self.retry_after)
            .field("source", &format_args!("{}", escape(&source)))
            .finish_non_exhaustive()
    }
}

impl Error for SinkError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        Some(&*self.source)
    }
}
