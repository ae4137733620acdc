//! The state of a part of a program that depends on a remote service.

use std::fmt;

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
    /// The service has not responded yet, or has not been needed yet.
    #[default]
    Connecting,
    /// The service carries out what is requested of it.
    Ready,
    /// The service was lost, or does not respond. The part tries again.
    Unavailable,
    /// The service responds but refuses, for example for lack of a permission or of space. The part
    /// tries again here too, but an operator may have to act.
    Refused,
    /// The part has ended, and no longer tries anything.
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
