//! The errors of a store.

use std::error::Error;
use std::fmt;
use std::time::Duration;

use crate::escape::{escaped, escaped_to};
use crate::record::event::Event;

/// So many characters of what a store says are shown. An API server's refusal names the user, the
/// verb, the group and the namespace, and all of them are needed to mend the role.
const MAX_CAUSE: usize = 1000;

/// What a sink's errors carry.
type BoxError = Box<dyn Error + Send + Sync>;

/// Why a sink did not do it: what a recording should do next, and the cause.
///
/// # Examples
///
/// ```
/// use eventcast::{SinkError, SinkErrorKind};
/// use std::time::Duration;
///
/// let error = SinkError::retry_after("too many requests", Duration::from_secs(1));
/// assert_eq!(error.kind(), SinkErrorKind::Retry);
/// assert_eq!(error.wait(), Some(Duration::from_secs(1)));
/// assert_eq!(error.to_string(), "may be tried again: too many requests");
/// ```
pub struct SinkError {
    kind: SinkErrorKind,
    wait: Option<Duration>,
    stored: Option<Box<Event>>,
    is_unreachable: bool,
    is_panic: bool,
    source: BoxError,
}

/// What a recording should do about a [`SinkError`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum SinkErrorKind {
    /// It may work later.
    Retry,
    /// It will never work.
    Rejected,
    /// There is no event of this name.
    NotFound,
    /// There is an event of this name already.
    AlreadyExists,
}

impl SinkError {
    /// It may work later: the store is busy, or has failed at this event. A recording tries this
    /// event again as its [`RetryPolicy`](crate::RetryPolicy) says, and writes all others
    /// meanwhile. If the store itself is away, return [`unreachable`](Self::unreachable).
    pub fn retry(source: impl Into<BoxError>) -> Self {
        Self::new(SinkErrorKind::Retry, None, source.into())
    }

    /// As [`retry`](Self::retry), when the store has said how long to wait.
    pub fn retry_after(source: impl Into<BoxError>, wait: Duration) -> Self {
        Self::new(SinkErrorKind::Retry, Some(wait), source.into())
    }

    /// The store itself is away: no connection, no answer in time, a locked file, a full disk. No
    /// other event would fare better now. The kind is [`Retry`](SinkErrorKind::Retry).
    ///
    /// A recording then stops writing, and tries one event at a time until the store answers. See
    /// [`RetryPolicy`](crate::RetryPolicy). Do not return this for a failure that may be about one
    /// event, one tenant or one namespace: it would hold up all the others.
    ///
    /// # Examples
    ///
    /// ```
    /// use eventcast::{SinkError, SinkErrorKind};
    /// use std::time::Duration;
    ///
    /// let error = SinkError::unreachable("connection refused");
    /// assert_eq!((error.kind(), error.is_unreachable()), (SinkErrorKind::Retry, true));
    /// assert!(!SinkError::retry("the webhook of this namespace failed").is_unreachable());
    ///
    /// let busy = SinkError::unreachable("503 Service Unavailable").with_wait(Duration::from_secs(2));
    /// assert_eq!(busy.wait(), Some(Duration::from_secs(2)));
    /// ```
    pub fn unreachable(source: impl Into<BoxError>) -> Self {
        Self { is_unreachable: true, ..Self::retry(source) }
    }

    /// It will never work: the event is invalid, too large, or not allowed. A recording gives it up.
    pub fn rejected(source: impl Into<BoxError>) -> Self {
        Self::new(SinkErrorKind::Rejected, None, source.into())
    }

    /// There is no event of this name to change. A recording creates it.
    #[doc(alias = "IsKeyNotFoundError")]
    pub fn not_found(source: impl Into<BoxError>) -> Self {
        Self::new(SinkErrorKind::NotFound, None, source.into())
    }

    /// There is an event of this name, so it cannot be created. If it is the same event, written by an attempt whose
    /// answer was lost, a recording takes it for stored; if it is another one, a recording tries once more, under a new
    /// name. A store that can say which event it is says so with [`with_stored`](Self::with_stored).
    pub fn already_exists(source: impl Into<BoxError>) -> Self {
        Self::new(SinkErrorKind::AlreadyExists, None, source.into())
    }

    /// How long the store wants to be left alone. A recording heeds it for errors of the kind
    /// [`Retry`](SinkErrorKind::Retry).
    pub fn with_wait(mut self, wait: Duration) -> Self {
        self.wait = Some(wait);
        self
    }

    /// The event that already has the name, as it is stored.
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
    pub fn with_stored(mut self, stored: Event) -> Self {
        self.stored = Some(Box::new(stored));
        self
    }

    fn new(kind: SinkErrorKind, wait: Option<Duration>, source: BoxError) -> Self {
        Self { kind, wait, stored: None, is_unreachable: false, is_panic: false, source }
    }

    /// The sink panicked, and is taken to have refused the event: it would do so again.
    pub(crate) fn panicked(text: &str) -> Self {
        Self { is_panic: true, ..Self::rejected(format!("the sink panicked: {text}")) }
    }

    pub(crate) fn is_panic(&self) -> bool {
        self.is_panic
    }

    /// What to do next.
    pub fn kind(&self) -> SinkErrorKind {
        self.kind
    }

    /// Whether the store itself is away, so that no other event would fare better now.
    pub fn is_unreachable(&self) -> bool {
        self.is_unreachable
    }

    /// How long the store wants to be left alone.
    pub fn wait(&self) -> Option<Duration> {
        self.wait
    }

    /// The event that already has the name, if the store has said.
    pub fn stored(&self) -> Option<&Event> {
        self.stored.as_deref()
    }
}

/// The kind and the cause, of which at most 1,000 characters, control characters escaped.
impl fmt::Display for SinkError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match self.kind {
            SinkErrorKind::Retry => "may be tried again",
            SinkErrorKind::Rejected => "rejected",
            SinkErrorKind::NotFound => "not found",
            SinkErrorKind::AlreadyExists => "already exists",
        };
        write!(f, "{kind}: {}", escaped_to(&self.source.to_string(), MAX_CAUSE))
    }
}

/// With the cause's own `Debug`, control characters of that escaped too: not every error escapes what it quotes.
impl fmt::Debug for SinkError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let source = format!("{:?}", self.source);
        f.debug_struct("SinkError")
            .field("kind", &self.kind)
            .field("wait", &self.wait)
            .field("source", &format_args!("{}", escaped(&source)))
            .finish_non_exhaustive()
    }
}

impl Error for SinkError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        Some(&*self.source)
    }
}
