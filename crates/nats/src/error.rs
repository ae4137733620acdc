//! The error returned if a bridge cannot be created.

use std::error::Error;
use std::fmt;
use std::io;

use eventcast::error::WatchError;
use eventcast::escape::escape;

/// The error returned if a publisher, a subscriber or a sink cannot be created. The error message
/// names the cause, with control characters escaped, and never contains a password or a token.
///
/// # Examples
///
/// ```
/// use eventcast::Broadcaster;
/// use eventcast_nats::{BuildError, NatsPublisher};
///
/// let bus = Broadcaster::<u64>::new()?;
/// let error = NatsPublisher::builder("nats://127.0.0.1:4222").prefix("two words").attach(&bus).unwrap_err();
/// assert!(matches!(error, BuildError::Invalid { .. }));
/// assert_eq!(error.to_string(), "prefix must be tokens separated by dots, got `two words`");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
#[non_exhaustive]
pub enum BuildError {
    /// An option has an invalid value, or this build does not support the option.
    #[non_exhaustive]
    Invalid {
        /// The name of the option.
        option: &'static str,
        /// The allowed values, and the invalid value.
        text: String,
    },
    /// A file that the connection requires cannot be used, or the options require a connection and
    /// there is none in time.
    #[non_exhaustive]
    Connect {
        /// The addresses, without credentials.
        servers: String,
        /// The cause.
        text: String,
    },
    /// The bus refused the watcher.
    Watch(WatchError),
    /// The system cannot start the thread or its runtime.
    Thread(io::Error),
    /// The system cannot provide random numbers for a publisher's identity.
    Random(io::Error),
    /// The saved position cannot be read.
    Position(io::Error),
}

impl BuildError {
    pub(crate) fn invalid(option: &'static str, allowed: impl fmt::Display, got: impl fmt::Display) -> Self {
        Self::Invalid { option, text: format!("{option} must be {allowed}, got {got}") }
    }
}

impl fmt::Display for BuildError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Invalid { text, .. } => write!(f, "{}", escape(text)),
            Self::Connect { servers, text } => {
                write!(f, "cannot connect to {}: {}", escape(servers), escape(text))
            }
            Self::Watch(error) => write!(f, "cannot watch the bus: {error}"),
            Self::Thread(error) => write!(f, "cannot start the thread `eventcast-nats`: {error}"),
            Self::Random(error) => write!(f, "cannot generate an identity: {error}"),
            Self::Position(error) => write!(f, "cannot read the saved position: {error}"),
        }
    }
}

impl Error for BuildError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self {
            Self::Watch(error) => Some(error),
            Self::Thread(error) | Self::Random(error) | Self::Position(error) => Some(error),
            Self::Invalid { .. } | Self::Connect { .. } => None,
        }
    }
}

impl From<WatchError> for BuildError {
    fn from(error: WatchError) -> Self {
        Self::Watch(error)
    }
}
