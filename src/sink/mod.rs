//! Where events are kept: what a store must be able to do, and what its refusals mean.
//!
//! A sink does one thing at a time and says how it went. When to try again, what to do about an event that has expired,
//! and what to remember are the recording's business, not the sink's.

mod admission;
mod filter;
mod memory;
mod pages;
mod query;
mod rules;
#[cfg(feature = "sqlite-system")]
mod sqlite;
mod table;
mod tee;

use std::error::Error;
use std::fmt;
use std::time::Duration;

use crate::escape::{escaped, escaped_to};
use crate::event::{Event, EventPatch};
use crate::guard::caught;
use crate::sync::Arc;

pub use filter::Filter;
pub use memory::{MemoryEvents, MemorySink, MemorySinkOptions, MemorySinkStats};
pub use query::EventQuery;
#[cfg(feature = "sqlite-system")]
pub use sqlite::{
    SqliteChanges, SqliteError, SqliteErrorKind, SqliteEvents, SqliteSink, SqliteSinkOptions,
    SqliteSinkStats, SqliteSynchronous,
};
pub use table::EventTable;
pub use tee::{Tee, TeeStats};

/// A store for events.
///
/// It is called by the threads of a recording, one unless [`workers`](crate::RecordingBuilder::workers) asks for more,
/// never by a thread that records or distributes events, so it may take as long as it needs; other recordings do not
/// notice. If it panics, the event is given up as if it had been rejected.
/// An `Arc` and a `Box` of a sink are sinks, so one store can serve several recordings and be read meanwhile.
///
/// The trait is synchronous. A store with an asynchronous client blocks on its runtime's handle inside the call.
/// The example `custom_sink` shows it.
///
/// # Examples
///
/// ```
/// use eventcast::{Event, EventSink, SinkError};
///
/// /// Keeps nothing and prints what happens.
/// struct Printer;
///
/// impl EventSink for Printer {
///     fn create(&self, event: &Event) -> Result<Event, SinkError> {
///         println!("new: {}", event.to_json());
///         Ok(event.clone())
///     }
///
///     fn update(&self, event: &Event) -> Result<Event, SinkError> {
///         println!("again: {}", event.to_json());
///         Ok(event.clone())
///     }
/// }
///
/// let mut event = Event::default();
/// event.reason = "Started".into();
/// assert_eq!(Printer.create(&event).unwrap(), event);
/// ```
pub trait EventSink: Send + Sync + 'static {
    /// Stores a new event, in the namespace that it names, and returns it as stored.
    ///
    /// # Errors
    ///
    /// [`SinkError::already_exists`] when there is an event of this name; see there for the others.
    #[doc(alias = "Create")]
    fn create(&self, event: &Event) -> Result<Event, SinkError>;

    /// Replaces the stored event of this name, and returns it as stored. Recordings do not call it themselves.
    ///
    /// # Errors
    ///
    /// [`SinkError::not_found`] when there is none, unless the store creates it then; see there for the others.
    #[doc(alias = "Update")]
    fn update(&self, event: &Event) -> Result<Event, SinkError>;

    /// Changes count, last time and message of the stored event of this name, and returns it as stored.
    ///
    /// `event` is the whole event as it should be afterwards, `patch` the bytes that client-go would send; a store uses what
    /// is handier. Unless overridden this is [`update`](Self::update).
    ///
    /// # Errors
    ///
    /// [`SinkError::not_found`] when there is none, because it has expired: a recording then creates it. See there for
    /// the others.
    #[doc(alias = "Patch")]
    fn patch(&self, event: &Event, patch: &EventPatch) -> Result<Event, SinkError> {
        let _ = patch;
        self.update(event)
    }

    /// Several operations in order, with one answer each: for stores where a transaction for all of them is cheaper. Unless
    /// overridden it performs them one by one, and goes on after one that fails or panics.
    ///
    /// This is what recordings call, with 2 to 256 operations, no two of them about the same event; a single one they call
    /// by itself. An operation whose answer is missing counts as rejected. If it panics, each operation is done again by
    /// itself, so it should answer [`SinkError::already_exists`] for what it has done already.
    fn apply(&self, batch: &[SinkOp]) -> Vec<Result<Event, SinkError>> {
        let perform =
            |op: &SinkOp| caught(|| op.apply_to(self)).unwrap_or_else(|text| Err(SinkError::panicked(&text)));
        batch.iter().map(perform).collect()
    }
}

/// One thing to do to a store.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum SinkOp {
    /// See [`EventSink::create`].
    Create(Event),
    /// See [`EventSink::update`].
    Update(Event),
    /// See [`EventSink::patch`].
    Patch(Event, EventPatch),
}

impl SinkOp {
    /// The event: as it is to be stored, or, of a patch, as it should be afterwards.
    pub fn event(&self) -> &Event {
        match self {
            Self::Create(event) | Self::Update(event) | Self::Patch(event, _) => event,
        }
    }

    /// Does it.
    ///
    /// # Errors
    ///
    /// The sink's.
    ///
    /// # Examples
    ///
    /// ```
    /// use eventcast::{Event, EventSink, MemorySink, SinkOp};
    ///
    /// let mut event = Event::default();
    /// event.metadata.name = "web-0.1".into();
    /// let sink = MemorySink::new();
    /// let answers = sink.apply(&[SinkOp::Create(event.clone()), SinkOp::Create(event)]);
    /// assert!(answers[0].is_ok());
    /// assert_eq!(answers[1].as_ref().unwrap_err().to_string(), "already exists: events \"web-0.1\" in namespace default");
    /// ```
    pub fn apply_to<S: EventSink + ?Sized>(&self, sink: &S) -> Result<Event, SinkError> {
        match self {
            Self::Create(event) => sink.create(event),
            Self::Update(event) => sink.update(event),
            Self::Patch(event, patch) => sink.patch(event, patch),
        }
    }
}

macro_rules! forward {
    ($($pointer:ty, $($generic:ident)?);*) => {$(
        impl$(<$generic: EventSink + ?Sized>)? EventSink for $pointer {
            fn create(&self, event: &Event) -> Result<Event, SinkError> {
                (**self).create(event)
            }

            fn update(&self, event: &Event) -> Result<Event, SinkError> {
                (**self).update(event)
            }

            fn patch(&self, event: &Event, patch: &EventPatch) -> Result<Event, SinkError> {
                (**self).patch(event, patch)
            }

            fn apply(&self, batch: &[SinkOp]) -> Vec<Result<Event, SinkError>> {
                (**self).apply(batch)
            }
        }
    )*};
}

forward!(Arc<S>, S; Box<dyn EventSink>,);

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
