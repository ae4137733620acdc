//! Errors: one type for each way to fail. What was refused comes back inside.

use std::error::Error;
use std::fmt;

use crate::escape::escaped;

/// An event, or a batch, that a bus did not take. It comes back inside.
///
/// # Examples
///
/// ```
/// use eventcast::PublishError;
///
/// let error = PublishError::Full(7);
/// assert!(error.is_full() && !error.is_stopped());
/// assert_eq!(error.to_string(), "the incoming queue is full");
/// assert_eq!(error.into_inner(), 7);
/// ```
#[derive(Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum PublishError<T> {
    /// The incoming queue is full, or became so after a part of a batch.
    Full(T),
    /// The bus has been closed.
    Stopped(T),
}

impl<T> PublishError<T> {
    /// What was not published.
    pub fn into_inner(self) -> T {
        match self {
            Self::Full(value) | Self::Stopped(value) => value,
        }
    }

    /// Whether there may be room later.
    pub fn is_full(&self) -> bool {
        matches!(self, Self::Full(_))
    }

    /// Whether the bus will never again take anything.
    pub fn is_stopped(&self) -> bool {
        matches!(self, Self::Stopped(_))
    }
}

impl<T> fmt::Debug for PublishError<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Full(_) => "Full(..)",
            Self::Stopped(_) => "Stopped(..)",
        })
    }
}

impl<T> fmt::Display for PublishError<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Full(_) => "the incoming queue is full",
            Self::Stopped(_) => "the bus has been closed",
        })
    }
}

impl<T> Error for PublishError<T> {}

/// The bus has been closed, and will never again take anything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stopped;

impl fmt::Display for Stopped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the bus has been closed")
    }
}

impl Error for Stopped {}

/// The end of a watcher's stream: it was stopped or the bus has ended, and everything queued has been read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecvError;

impl fmt::Display for RecvError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the watcher has ended")
    }
}

impl Error for RecvError {}

/// Why [`Watcher::try_recv`](crate::Watcher::try_recv) has nothing to give.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TryRecvError {
    /// Nothing now; more may come.
    Empty,
    /// The end of the stream.
    Stopped,
}

impl fmt::Display for TryRecvError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Empty => "nothing to receive now",
            Self::Stopped => "the watcher has ended",
        })
    }
}

impl Error for TryRecvError {}

impl From<RecvError> for TryRecvError {
    fn from(_: RecvError) -> Self {
        Self::Stopped
    }
}

/// Why [`Watcher::recv_timeout`](crate::Watcher::recv_timeout) has nothing to give.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecvTimeoutError {
    /// Nothing came in time; more may come.
    Timeout,
    /// The end of the stream.
    Stopped,
}

impl fmt::Display for RecvTimeoutError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Timeout => "nothing to receive in time",
            Self::Stopped => "the watcher has ended",
        })
    }
}

impl Error for RecvTimeoutError {}

impl From<RecvError> for RecvTimeoutError {
    fn from(_: RecvError) -> Self {
        Self::Stopped
    }
}

/// Why there is no watcher.
#[derive(Debug)]
#[non_exhaustive]
pub enum WatchError {
    /// The bus has been closed.
    Stopped,
    /// An option of the watcher is out of range.
    Invalid(BuildError),
    /// The system gave no thread for the handler.
    Thread(std::io::Error),
    /// The incoming queue is full, and the caller is a thread of this bus: waiting for room could never end.
    WouldDeadlock,
}

impl fmt::Display for WatchError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stopped => f.write_str("the bus has been closed"),
            Self::Invalid(error) => write!(f, "{error}"),
            Self::Thread(error) => write!(f, "no thread for the handler: {error}"),
            Self::WouldDeadlock => f.write_str(
                "the incoming queue is full and this is a thread of the bus: register from another thread",
            ),
        }
    }
}

impl Error for WatchError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Invalid(error) => Some(error),
            Self::Thread(error) => Some(error),
            Self::Stopped | Self::WouldDeadlock => None,
        }
    }
}

impl From<BuildError> for WatchError {
    fn from(error: BuildError) -> Self {
        Self::Invalid(error)
    }
}

/// Why a flush did not come to its end.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FlushError {
    /// Time is up; these watchers still have something to handle or to make room for. None is named when the
    /// dispatcher itself had not come to the flush, which happens when a filter or a hook takes its time.
    #[non_exhaustive]
    Timeout {
        /// The names of the watchers that are waited for.
        waiting_for: Vec<String>,
    },
    /// The caller is a thread of this bus: a handler that waits for itself would wait for ever.
    WouldDeadlock,
    /// The bus was shut down by a deadline, and abandoned something that was accepted before the flush.
    Abandoned,
}

impl fmt::Display for FlushError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Timeout { waiting_for } if waiting_for.is_empty() => f.write_str("not flushed in time"),
            Self::Timeout { waiting_for } => {
                f.write_str("not flushed in time, waiting for ")?;
                for (i, name) in waiting_for.iter().enumerate() {
                    if i > 0 {
                        f.write_str(", ")?;
                    }
                    write!(f, "{}", escaped(name))?;
                }
                Ok(())
            }
            Self::WouldDeadlock => f.write_str(
                "this is a thread of the bus, which cannot wait for itself: flush from another thread",
            ),
            Self::Abandoned => f.write_str("the bus was shut down by a deadline and abandoned events"),
        }
    }
}

impl Error for FlushError {}

/// An option that cannot be: names it, the value that was given, and what is allowed.
///
/// # Examples
///
/// ```
/// use eventcast::{Broadcaster, BusOptions};
///
/// let error = Broadcaster::<u8>::with_options(BusOptions::default().queue_len(0)).unwrap_err();
/// assert_eq!(error.option(), "queue_len");
/// assert_eq!(error.to_string(), "queue_len is 0, allowed is 1 to 16777216 events");
/// ```
#[derive(Debug)]
pub struct BuildError {
    option: &'static str,
    value: String,
    allowed: String,
    source: Option<Box<dyn Error + Send + Sync>>,
}

impl BuildError {
    pub(crate) fn new(option: &'static str, value: impl fmt::Display, allowed: impl fmt::Display) -> Self {
        Self { option, value: value.to_string(), allowed: allowed.to_string(), source: None }
    }

    pub(crate) fn thread(name: &str, source: std::io::Error) -> Self {
        Self {
            option: "thread_name",
            value: escaped(name).to_string(),
            allowed: "a thread that the system grants".into(),
            source: Some(source.into()),
        }
    }

    /// A configuration that no client can be made of, and why not, escaped.
    #[cfg(feature = "kube-5")]
    pub(crate) fn client(url: &str, why: String) -> Self {
        Self {
            option: "config",
            value: escaped(url).to_string(),
            allowed: "one that a client can be made of".into(),
            source: Some(why.into()),
        }
    }

    /// The option's name, as in the setters and in configuration files.
    pub fn option(&self) -> &str {
        self.option
    }
}

impl fmt::Display for BuildError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} is {}, allowed is {}", self.option, self.value, self.allowed)?;
        match &self.source {
            Some(source) => write!(f, " ({source})"),
            None => Ok(()),
        }
    }
}

impl Error for BuildError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.source.as_deref().map(|e| e as &(dyn Error + 'static))
    }
}
