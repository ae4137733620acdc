//! The errors that a sink can return.

use std::error::Error;
use std::fmt;
use std::io;
use std::time::Duration;

use crate::escape::escape;
use crate::record::event::Event;

/// The maximum number of characters of a store's message that are shown. This limit leaves enough
/// space for an API server's error response, which names the user, the verb, the group and the
/// namespace. An administrator needs all of this information to correct the role.
const MAX_CAUSE: usize = 1000;

/// The type of the cause of a sink's error.
type BoxError = Box<dyn Error + Send + Sync>;

/// An error returned by a sink. The error has a cause, and a kind that determines what a recording
/// does next.
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
    /// The operation failed temporarily, because the store is busy or was unable to process this
    /// event.
    ///
    /// A recording retries the failed event according to the recording's
    /// [`RetryPolicy`](crate::RetryPolicy), and continues to write all other events.
    Retry,
    /// The store itself is unavailable, for example because there is no connection, a file is
    /// locked or the disk is full. Operations for all other events would also fail.
    ///
    /// After this error, a recording stops writing, and tries one event at a time until the store
    /// responds. See [`RetryPolicy`](crate::RetryPolicy). If a failure may concern only one event,
    /// one tenant or one namespace, do not return this error, because all other events would be
    /// delayed. Return [`GroupUnavailable`](Self::GroupUnavailable) or [`Retry`](Self::Retry)
    /// instead.
    #[doc(alias = "unreachable")]
    Unavailable,
    /// The store did not respond in time or reported that it is unavailable, but possibly only for
    /// the event's [group](crate::EventSink::group).
    ///
    /// If no operation in that group has been answered since the failed operation began, the
    /// recording closes the group. The recording then tries one event in the group at a time until
    /// the store answers an operation in that group, and continues to write events in other groups.
    /// The store counts as unavailable if two groups are closed and no other operation is answered,
    /// or if there is only one group.
    #[doc(alias("timeout", "deadline exceeded"))]
    GroupUnavailable,
    /// The store does not allow the sink to perform the operation, because the sink has no
    /// permission for the event's [group](crate::EventSink::group) or its credentials are invalid.
    /// Another sink, or the same sink at a later time, may be allowed to perform the operation.
    ///
    /// A store that has just started may refuse operations that it allows shortly afterwards. The
    /// recording therefore closes the group, as after [`GroupUnavailable`](Self::GroupUnavailable).
    /// Until 30 seconds after the first refusal, the recording tries one event in the group after
    /// each pause. Later, each refusal causes the recording to drop the refused event and all
    /// waiting events in the group, which count as rejected. A refusal does not end a store outage.
    /// If the [`RetryPolicy`](crate::RetryPolicy) allows only one attempt, the first refusal is
    /// final.
    ///
    /// If the store refuses the event itself, do not return this error. Return
    /// [`Rejected`](Self::Rejected) instead.
    #[doc(alias("unauthorized", "permission denied"))]
    Forbidden,
    /// The operation will never succeed, because the event is invalid, too large or not permitted.
    /// A recording drops the event.
    Rejected,
    /// The operation changes an event that does not exist in the store. After this error, a
    /// recording creates the event.
    #[doc(alias = "IsKeyNotFoundError")]
    NotFound,
    /// The name of a new event is already taken.
    ///
    /// - If the stored event is the same event, because the response to an earlier attempt was
    ///   lost, a recording treats the event as stored.
    /// - If the stored event is a different event, a recording retries once with a new name.
    ///
    /// If the store knows which event has the name, it should pass that event to
    /// [`with_stored`](SinkError::with_stored).
    AlreadyExists,
}

impl SinkError {
    /// Creates an error of the given kind. The cause can be any error or a string.
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

    /// Creates an error of kind [`Retry`](SinkErrorKind::Retry), which indicates that a later
    /// attempt to store the event may succeed.
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

    /// Creates an error of kind [`Rejected`](SinkErrorKind::Rejected), which indicates that the
    /// event will never be stored.
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

    /// Sets the back-off that the store requested (`Retry-After`). A recording respects the
    /// back-off if the error is of kind [`Retry`](SinkErrorKind::Retry),
    /// [`Unavailable`](SinkErrorKind::Unavailable),
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

    /// Attaches the stored event that already has the new event's name.
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

    /// Creates the error that is used if a sink panics. A panic counts as a rejection of the event,
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

    /// Returns the back-off that the store requested, or `None` if the store did not request a
    /// back-off.
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
    /// not report that event.
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

/// Converts an I/O error, for example from a file or a connection, to the appropriate kind of sink
/// error.
///
/// An I/O error is attributed to the store rather than to an event, unless the error's kind
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
/// - `PermissionDenied` is not converted to a rejection, because an administrator can grant the
///   permission, whereas a rejected event is lost immediately.
/// - On Unix, a socket operation that times out fails with `WouldBlock`.
/// - `io::ErrorKind::NotFound` refers to a path, for example to a directory that is not mounted
///   yet. It is therefore not converted to [`SinkErrorKind::NotFound`]. In the same way,
///   `io::ErrorKind::AlreadyExists` is not converted to [`SinkErrorKind::AlreadyExists`]. These two
///   kinds of sink errors refer to events, and only the sink can detect such errors.
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

/// Formats the kind and at most 1,000 characters of the cause. Control characters are escaped.
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

/// Formats the cause by using its own `Debug` implementation. Control characters are escaped here
/// as well, because not every error type escapes the text that it includes.
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
