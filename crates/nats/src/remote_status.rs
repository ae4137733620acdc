//! The status of one side of a bridge, as reported to the program.

use std::fmt;

use eventcast::Timestamp;
use eventcast::escape::escape;
use eventcast::stats::RemoteState;
use serde::{Deserialize, Serialize};

/// The maximum length of a displayed failure, in characters.
const SHOWN: usize = 500;

/// The status of a part of a program that depends on a remote service. The status contains the
/// part's state and the reason for this state.
///
/// `Display` writes one line. Unless there has been a success since the last failure, the line
/// includes this failure, truncated to 500 characters and with control characters escaped.
///
/// # Examples
///
/// ```
/// use eventcast_nats::RemoteStatus;
///
/// let mut status = RemoteStatus::default();
/// assert_eq!(status.to_string(), "connecting");
/// status.last_failure = Some("10.0.0.7:4222: connection refused".to_owned());
/// status.attempts = 3;
/// status.waiting = 12;
/// assert_eq!(
///     status.to_string(),
///     "connecting: 10.0.0.7:4222: connection refused (failed attempts: 3, waiting: 12)"
/// );
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct RemoteStatus {
    /// The current state.
    pub state: RemoteState,
    /// The time at which the part entered this state.
    pub since: Timestamp,
    /// The unmodified text of the last failure, or `None` if there has been no failure. A success
    /// does not clear this field.
    pub last_failure: Option<String>,
    /// The number of failed attempts since the last success.
    pub attempts: u64,
    /// The number of events or operations waiting for the service.
    pub waiting: u64,
}

impl RemoteStatus {
    /// Returns the status of a part that has entered a state without a failure.
    pub(crate) fn new(state: RemoteState, since: Timestamp) -> Self {
        Self { state, since, last_failure: None, attempts: 0, waiting: 0 }
    }

    /// Returns the last failure, or `None` if there has been no failure since the last success.
    ///
    /// # Examples
    ///
    /// ```
    /// use eventcast_nats::RemoteStatus;
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
    /// Returns the status of a part that has been connecting since 1970.
    fn default() -> Self {
        Self::new(RemoteState::default(), Timestamp::UNIX_EPOCH)
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

#[cfg(test)]
mod tests {
    use eventcast::Timestamp;
    use eventcast::stats::RemoteState;

    use super::RemoteStatus;

    #[test]
    fn a_status_shows_only_a_failure_that_lasts_and_in_one_harmless_line() {
        let mut status = RemoteStatus::new(RemoteState::Refused, Timestamp::UNIX_EPOCH);
        status.last_failure = Some("no space\n\u{1b}[2J left".to_owned());
        assert_eq!((status.to_string().as_str(), status.failure()), ("refused", None));
        status.attempts = 2;
        assert_eq!(
            status.to_string(),
            "refused: no space\\n\\u{1b}[2J left (failed attempts: 2, waiting: 0)"
        );
        status.last_failure = Some("x".repeat(5000));
        assert!(status.to_string().len() < 600);
    }

    #[test]
    fn a_status_survives_json_with_its_time() {
        let since = Timestamp::new(1_700_000_000, 250_000_000).unwrap();
        let mut status = RemoteStatus::new(RemoteState::Unavailable, since);
        status.waiting = 7;
        let json = serde_json::to_value(&status).unwrap();
        assert_eq!(
            (&json["state"], &json["since"]),
            (&"unavailable".into(), &"2023-11-14T22:13:20.25Z".into())
        );
        assert_eq!(serde_json::from_value::<RemoteStatus>(json).unwrap(), status);
        assert!(serde_json::from_str::<RemoteStatus>(r#"{"since": "yesterday"}"#).is_err());
    }
}
