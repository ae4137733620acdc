//! The state of a component that depends on a remote service.

use std::fmt;

/// The state of a component that depends on a remote service, such as a server.
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
    /// The service has not responded yet, or has not been needed yet.
    #[default]
    Connecting,
    /// The service fulfils the requests that it receives.
    Ready,
    /// The service became unreachable, or does not respond. The component retries.
    Unavailable,
    /// The service responds but refuses the requests, for example because a permission is missing
    /// or space has run out. The component retries in this state too, but an operator may have to
    /// intervene.
    Refused,
    /// The component has ended, and makes no further attempts.
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
