//! The point in the order of events at which a watcher starts.

/// The point in the order of events at which a watcher starts. See
/// [`WatchBuilder::start`](crate::WatchBuilder::start).
///
/// In a configuration file (feature `serde`), write a start as `next`, `oldest`, or
/// `{"after": 17}`.
///
/// # Examples
///
/// ```
/// use eventcast::bus::Start;
///
/// assert_eq!(Start::default(), Start::Next);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(rename_all = "snake_case"))]
#[non_exhaustive]
pub enum Start {
    /// The first event whose publish call begins after the registration. This is the default.
    #[default]
    Next,
    /// The oldest event that the [history](crate::BusOptions::history) still holds. Without a
    /// history, this is the same as `Next`.
    Oldest,
    /// The event after this position, which an earlier call of
    /// [`Watcher::position`](crate::Watcher::position) returned. Zero is the position before the
    /// bus's first event. Events that the history no longer holds are reported as a gap of exactly
    /// that many events. If the bus has not reached the position yet, the watcher starts as with
    /// `Next`.
    After(u64),
}
