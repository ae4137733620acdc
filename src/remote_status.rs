//! The status of a part of a program that depends on a remote service.

use std::fmt;
use std::time::SystemTime;

use crate::escape::escape;

/// The longest failure that is shown, in characters.
const SHOWN: usize = 500;

/// The state of a part of a program that depends on a remote service, such as a server.
///
/// # Examples
///
/// ```
/// use eventcast::stats::RemoteState;
///
/// assert_eq!(RemoteState::default(), RemoteState::Connecting);
/// assert_eq!(RemoteState::Unavailable.to_string(), "unavailable");
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(rename_all = "snake_case"))]
#[non_exhaustive]
pub enum RemoteState {
    /// The service has not answered yet, or was not needed yet.
    #[default]
    Connecting,
    /// The service does what it is asked.
    Ready,
    /// The service was lost, or does not answer. This is tried again.
    Unavailable,
    /// The service answers and refuses, for lack of a permission or of space for example. This is
    /// tried again too, but an operator may have to act.
    Refused,
    /// The part has ended, and tries nothing any more.
    Ended,
}

impl fmt::Display for RemoteState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Connecting => "connecting",
            Self::Ready => "ready",
            Self::Unavailable => "unavailable",
            Self::Refused => "refused",
            Self::Ended => "ended",
        })
    }
}

/// The status of a part of a program that depends on a remote service: its state, and why.
///
/// `Display` writes one line. It shows the last failure unless there was a success after it, cut to
/// 500 characters and with control characters escaped.
///
/// # Examples
///
/// ```
/// use eventcast::stats::{RemoteState, RemoteStatus};
/// use std::time::SystemTime;
///
/// let mut status = RemoteStatus::new(RemoteState::Connecting, SystemTime::now());
/// assert_eq!(status.to_string(), "connecting");
/// status.last_failure = Some("10.0.0.7:4222: connection refused".to_owned());
/// status.attempts = 3;
/// status.waiting = 12;
/// assert_eq!(
///     status.to_string(),
///     "connecting: 10.0.0.7:4222: connection refused (failed attempts: 3, waiting: 12)"
/// );
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(default))]
#[non_exhaustive]
pub struct RemoteStatus {
    /// The state.
    pub state: RemoteState,
    /// The time at which the part entered this state. In JSON in the form of RFC 3339.
    #[cfg_attr(feature = "serde", serde(with = "rfc3339"))]
    pub since: SystemTime,
    /// The text of the last failure, as it came, or `None` if there was none. A success does not
    /// remove it.
    pub last_failure: Option<String>,
    /// The number of failed attempts since the last success.
    pub attempts: u64,
    /// The number of events or operations that wait for the service.
    pub waiting: u64,
}

impl RemoteStatus {
    /// Returns the status of a part that has entered a state without a failure.
    pub fn new(state: RemoteState, since: SystemTime) -> Self {
        Self { state, since, last_failure: None, attempts: 0, waiting: 0 }
    }

    /// Returns the last failure, unless there was a success after it.
    ///
    /// # Examples
    ///
    /// ```
    /// use eventcast::stats::RemoteStatus;
    ///
    /// let mut status = RemoteStatus::default();
    /// status.last_failure = Some("connection refused".to_owned());
    /// assert_eq!(status.failure(), None);
    /// status.attempts = 1;
    /// assert_eq!(status.failure(), Some("connection refused"));
    /// ```
    pub fn failure(&self) -> Option<&str> {
        self.last_failure.as_deref().filter(|_| self.attempts > 0)
    }
}

impl Default for RemoteStatus {
    /// Returns the status of a part that is connecting since 1970.
    fn default() -> Self {
        Self::new(RemoteState::default(), SystemTime::UNIX_EPOCH)
    }
}

impl fmt::Display for RemoteStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.state)?;
        if let Some(failure) = self.failure() {
            write!(f, ": {:.SHOWN$} (failed attempts: {}", escape(failure), self.attempts)?;
            write!(f, ", waiting: {})", self.waiting)?;
        }
        Ok(())
    }
}

#[cfg(feature = "serde")]
mod rfc3339 {
    use std::time::SystemTime;

    use jiff::Timestamp;
    use serde::{Deserialize, Deserializer, Serializer, de, ser};

    pub(super) fn serialize<S: Serializer>(at: &SystemTime, to: S) -> Result<S::Ok, S::Error> {
        let at = Timestamp::try_from(*at).map_err(ser::Error::custom)?;
        to.collect_str(&at)
    }

    pub(super) fn deserialize<'a, D: Deserializer<'a>>(from: D) -> Result<SystemTime, D::Error> {
        let text = String::deserialize(from)?;
        text.parse::<Timestamp>().map(SystemTime::from).map_err(de::Error::custom)
    }
}
