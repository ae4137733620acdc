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
    /// The watcher starts at the first event whose publish call begins after the registration. This
    /// is the default.
    #[default]
    Next,
    /// The watcher starts at the oldest event that the [history](crate::BusOptions::history) still
    /// holds. Without a history, `Oldest` is the same as `Next`.
    Oldest,
    /// The watcher starts at the event after this position, which an earlier call to
    /// [`Watcher::position`](crate::Watcher::position) returned. Zero is the position before the
    /// bus's first event. If the history no longer holds some events after this position, the
    /// watcher receives a gap of exactly that many events. If the bus has not reached the position
    /// yet, the watcher starts as with `Next`.
    After(u64),
}
