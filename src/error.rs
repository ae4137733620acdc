//! Error types, one for each kind of operation that can fail. If an event was refused, the error
//! returns it to the caller.

use std::error::Error;
use std::fmt;

use crate::escape::escape;

/// The error returned by a publish call, which contains the event or batch that the bus did not
/// accept.
///
/// # Examples
///
/// ```
/// use eventcast::error::PublishError;
///
/// let error = PublishError::Full(7);
/// assert!(error.is_full() && !error.is_closed());
/// assert_eq!(error.to_string(), "the bus is full: a queue is at its capacity");
/// assert_eq!(error.into_inner(), 7);
/// ```
#[doc(alias = "SendError")]
#[doc(alias = "TrySendError")]
#[doc(alias = "SendTimeoutError")]
#[derive(Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum PublishError<T> {
    /// The incoming queue is full, or became full after it had accepted part of a batch. On an
    /// inline bus, the full queue belongs to a watcher for which publishers wait.
    Full(T),
    /// The bus has been closed.
    #[doc(alias("Stopped", "Disconnected"))]
    Closed(T),
    /// Only a reader with a pattern watches the key. Its topic does not exist, and cannot be
    /// created, because [`max_topics`](crate::topics::TopicsOptions::max_topics) other topics
    /// exist.
    #[cfg(feature = "topics")]
    TooManyTopics(T),
}

impl<T> PublishError<T> {
    /// Returns the event, or the part of the batch, that was not published.
    ///
    /// # Examples
    ///
    /// ```
    /// use eventcast::Broadcaster;
    ///
    /// let bus = Broadcaster::new()?;
    /// bus.close();
    /// let error = bus.publisher().publish("an event").unwrap_err();
    /// assert_eq!(error.into_inner(), "an event");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[doc(alias = "into_event")]
    pub fn into_inner(self) -> T {
        match self {
            Self::Full(value) | Self::Closed(value) => value,
            #[cfg(feature = "topics")]
            Self::TooManyTopics(value) => value,
        }
    }

    /// Returns whether a queue was full, in which case a later publish may succeed.
    ///
    /// # Examples
    ///
    /// ```
    /// use eventcast::error::PublishError;
    ///
    /// assert!(PublishError::Full(7).is_full());
    /// assert!(!PublishError::Closed(7).is_full());
    /// ```
    pub fn is_full(&self) -> bool {
        matches!(self, Self::Full(_))
    }

    /// Returns whether the bus has been closed, in which case it will never accept an event again.
    ///
    /// # Examples
    ///
    /// ```
    /// use eventcast::error::PublishError;
    ///
    /// assert!(PublishError::Closed(7).is_closed());
    /// assert!(!PublishError::Full(7).is_closed());
    /// ```
    pub fn is_closed(&self) -> bool {
        matches!(self, Self::Closed(_))
    }
}

impl<T> fmt::Debug for PublishError<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Full(_) => "Full(..)",
            Self::Closed(_) => "Closed(..)",
            #[cfg(feature = "topics")]
            Self::TooManyTopics(_) => "TooManyTopics(..)",
        })
    }
}

impl<T> fmt::Display for PublishError<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Full(_) => "the bus is full: a queue is at its capacity",
            Self::Closed(_) => "the bus has been closed",
            #[cfg(feature = "topics")]
            Self::TooManyTopics(_) => {
                "the limit of topics is reached: raise max_topics, or read what is queued"
            }
        })
    }
}

impl<T> Error for PublishError<T> {}

/// The error returned at the end of a watcher's stream. At that point, the watcher has been stopped
/// or evicted or the bus has ended, and everything queued has been received.
///
/// # Examples
///
/// ```
/// use eventcast::Broadcaster;
/// use eventcast::error::RecvError;
///
/// let bus = Broadcaster::<u8>::new()?;
/// let mut watcher = bus.watch()?;
/// watcher.stop();
/// assert_eq!(watcher.recv(), Err(RecvError));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[doc(alias = "Closed")]
#[doc(alias = "Disconnected")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecvError;

impl fmt::Display for RecvError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the watcher has ended")
    }
}

impl Error for RecvError {}

/// The reason why [`Watcher::try_recv`](crate::Watcher::try_recv) returned nothing.
///
/// # Examples
///
/// ```
/// use eventcast::Broadcaster;
/// use eventcast::error::TryRecvError;
///
/// let bus = Broadcaster::<u8>::new()?;
/// let mut watcher = bus.watch()?;
/// assert_eq!(watcher.try_recv(), Err(TryRecvError::Empty));
/// watcher.stop();
/// assert_eq!(watcher.try_recv(), Err(TryRecvError::Ended));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[doc(alias = "Closed")]
#[doc(alias = "Disconnected")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TryRecvError {
    /// Nothing is queued now. More events may arrive later.
    Empty,
    /// The watcher has reached its end, because it was stopped or evicted, or because the bus has
    /// ended.
    Ended,
}

impl fmt::Display for TryRecvError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Empty => "nothing to receive",
            Self::Ended => "the watcher has ended",
        })
    }
}

impl Error for TryRecvError {}

impl From<RecvError> for TryRecvError {
    fn from(_: RecvError) -> Self {
        Self::Ended
    }
}

/// The reason why [`Watcher::recv_timeout`](crate::Watcher::recv_timeout) returned nothing.
///
/// # Examples
///
/// ```
/// use eventcast::Broadcaster;
/// use eventcast::error::RecvTimeoutError;
/// use std::time::Duration;
///
/// let bus = Broadcaster::<u8>::new()?;
/// let mut watcher = bus.watch()?;
/// assert_eq!(watcher.recv_timeout(Duration::ZERO), Err(RecvTimeoutError::Timeout));
/// watcher.stop();
/// assert_eq!(watcher.recv_timeout(Duration::ZERO), Err(RecvTimeoutError::Ended));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[doc(alias = "Closed")]
#[doc(alias = "Disconnected")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecvTimeoutError {
    /// Nothing arrived in time. More events may arrive later.
    Timeout,
    /// The watcher has reached its end, because it was stopped or evicted, or because the bus has
    /// ended.
    Ended,
}

impl fmt::Display for RecvTimeoutError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Timeout => "nothing was received in time",
            Self::Ended => "the watcher has ended",
        })
    }
}

impl Error for RecvTimeoutError {}

impl From<RecvError> for RecvTimeoutError {
    fn from(_: RecvError) -> Self {
        Self::Ended
    }
}

/// The reason why a watcher could not be registered.
///
/// # Examples
///
/// ```
/// use eventcast::Broadcaster;
/// use eventcast::error::WatchError;
///
/// let bus = Broadcaster::<u8>::new()?;
/// let invalid = bus.watch_builder().queue_capacity(0).watch();
/// assert!(matches!(invalid, Err(WatchError::Invalid(error)) if error.option() == "queue_capacity"));
/// bus.close();
/// assert!(matches!(bus.watch(), Err(WatchError::Closed)));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
#[non_exhaustive]
pub enum WatchError {
    /// The bus has been closed.
    Closed,
    /// An option of the watcher is out of range.
    Invalid(BuildError),
    /// The system could not start a thread for the handler, log or recording.
    Thread(std::io::Error),
    /// The caller is inside a call to an inline bus, where waiting could last forever. See
    /// [`watch`](crate::WatchBuilder::watch).
    WouldDeadlock,
    /// This number of topics, the maximum, already exists.
    #[cfg(feature = "topics")]
    TooManyTopics(usize),
}

impl fmt::Display for WatchError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Closed => f.write_str("the bus has been closed"),
            Self::Invalid(error) => write!(f, "{error}"),
            Self::Thread(error) => write!(f, "cannot start a thread: {error}"),
            Self::WouldDeadlock => f.write_str(
                "this thread is inside a call of an inline bus: register before the call or after it",
            ),
            #[cfg(feature = "topics")]
            Self::TooManyTopics(limit) => {
                write!(
                    f,
                    "the limit of {limit} topics is reached: raise max_topics, drop watchers, or read "
                )?;
                f.write_str("what is queued for a pattern")
            }
        }
    }
}

impl Error for WatchError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Invalid(error) => Some(error),
            Self::Thread(error) => Some(error),
            Self::Closed | Self::WouldDeadlock => None,
            #[cfg(feature = "topics")]
            Self::TooManyTopics(_) => None,
        }
    }
}

impl From<BuildError> for WatchError {
    fn from(error: BuildError) -> Self {
        Self::Invalid(error)
    }
}

/// The reason why a flush did not complete.
///
/// # Examples
///
/// ```
/// use eventcast::error::FlushError;
/// use eventcast::{Broadcaster, OverflowPolicy};
/// use std::time::Duration;
///
/// let bus = Broadcaster::new()?;
/// let stuck = bus.watch_builder().name("stuck").queue_capacity(1).overflow(OverflowPolicy::Wait).watch()?;
/// bus.publisher().publish_batch([1, 2])?;
/// assert!(matches!(bus.flush(Duration::ZERO), Err(FlushError::Timeout { .. })));
/// drop(stuck);
/// assert_eq!(bus.flush(Duration::from_secs(10)), Ok(()));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FlushError {
    /// The timeout expired while these watchers still had events to handle, or events waiting for
    /// capacity in their queues. If the dispatcher itself had not reached the flush, no watcher is
    /// named. The dispatcher may fail to reach the flush in time if a filter or a hook takes a long
    /// time.
    #[non_exhaustive]
    Timeout {
        /// The names of the watchers for which the flush was still waiting.
        waiting_for: Vec<String>,
    },
    /// The caller is on a thread of this bus, or on the thread that a recording's sink needs. A
    /// handler that waited for itself would wait forever.
    WouldDeadlock,
    /// The bus was shut down with a deadline, and abandoned events that were accepted before the
    /// flush.
    Abandoned,
}

impl fmt::Display for FlushError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Timeout { waiting_for } if waiting_for.is_empty() => f.write_str("the flush timed out"),
            Self::Timeout { waiting_for } => {
                let names: Vec<_> = waiting_for.iter().map(|name| escape(name).to_string()).collect();
                write!(f, "the flush timed out, waiting for {}", names.join(", "))
            }
            Self::WouldDeadlock => f.write_str(
                "this thread belongs to the bus, or a sink needs it, so it cannot wait for itself: \
                 flush from another thread",
            ),
            Self::Abandoned => f.write_str("the bus was shut down with a deadline and abandoned events"),
        }
    }
}

impl Error for FlushError {}

/// The error for a string that cannot be parsed as an [`OverflowPolicy`](crate::OverflowPolicy) or,
/// with the `recorder` feature, as an `EventType`, an `ObjectReference` or a `Timestamp`.
///
/// The message shows the string, escaped and truncated to 64 characters, and what was expected.
///
/// # Examples
///
/// ```
/// use eventcast::OverflowPolicy;
/// use eventcast::error::ParseError;
///
/// let error: ParseError = "drop".parse::<OverflowPolicy>().unwrap_err();
/// assert!(error.to_string().ends_with("or wait_for:250ms, got drop"));
/// ```
#[cfg(feature = "serde")]
#[doc(alias = "ParseIntError")]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParseError {
    text: String,
}

#[cfg(feature = "serde")]
impl ParseError {
    /// Creates an error with this message. The caller must already have escaped the parsed string
    /// in it.
    pub(crate) fn new(text: String) -> Self {
        Self { text }
    }
}

#[cfg(feature = "serde")]
impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

#[cfg(feature = "serde")]
impl Error for ParseError {}

/// The error for an option that cannot be used. The message names the option, and either the
/// allowed values and the given value, or the cause.
///
/// # Examples
///
/// ```
/// use eventcast::{Broadcaster, BusOptions};
///
/// let error = Broadcaster::<u8>::with_options(BusOptions::default().queue_capacity(0)).unwrap_err();
/// assert_eq!(error.option(), "queue_capacity");
/// assert_eq!(error.to_string(), "queue_capacity must be 1 to 16777216 events, got 0");
/// ```
#[derive(Debug)]
pub struct BuildError {
    option: &'static str,
    text: String,
    source: Option<Box<dyn Error + Send + Sync>>,
}

impl BuildError {
    /// Creates an error for an option whose value is not allowed. Use this function for your own
    /// types, such as a sink's options.
    ///
    /// # Examples
    ///
    /// ```
    /// use eventcast::error::BuildError;
    ///
    /// let error = BuildError::new("ttl", "0s", "more than zero");
    /// assert_eq!(error.to_string(), "ttl must be more than zero, got 0s");
    /// ```
    pub fn new(option: &'static str, value: impl fmt::Display, allowed: impl fmt::Display) -> Self {
        Self { option, text: format!("{option} must be {allowed}, got {value}"), source: None }
    }

    /// Returns an error like [`new`](Self::new) unless the option's value is allowed.
    pub(crate) fn require(
        is_allowed: bool,
        option: &'static str,
        value: impl fmt::Display,
        allowed: impl fmt::Display,
    ) -> Result<(), Self> {
        if is_allowed { Ok(()) } else { Err(Self::new(option, value, allowed)) }
    }

    pub(crate) fn thread(name: &str, source: std::io::Error) -> Self {
        let text = format!("cannot start the thread `{}`", escape(name));
        Self { option: "thread_name", text, source: Some(source.into()) }
    }

    /// Creates an error for a file that cannot be opened.
    #[cfg(feature = "recorder")]
    pub(crate) fn file(path: &std::path::Path, source: std::io::Error) -> Self {
        let text = format!("cannot open {}", escape(&path.to_string_lossy()));
        Self { option: "path", text, source: Some(source.into()) }
    }

    /// Returns the option's name, as used by the setters and in configuration files.
    ///
    /// # Examples
    ///
    /// ```
    /// use eventcast::{Broadcaster, BusOptions};
    ///
    /// let error = Broadcaster::<u8>::with_options(BusOptions::default().max_batch(0)).unwrap_err();
    /// assert_eq!(error.option(), "max_batch");
    /// ```
    pub fn option(&self) -> &str {
        self.option
    }
}

impl fmt::Display for BuildError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)?;
        match &self.source {
            Some(source) => write!(f, ": {source}"),
            None => Ok(()),
        }
    }
}

impl Error for BuildError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.source.as_deref().map(|e| e as &(dyn Error + 'static))
    }
}
