//! What becomes of an event for which a watcher's queue has no room: chosen by options, carried out by the bus, named by
//! the statistics.

use std::fmt;
use std::time::Duration;

/// What the bus does for a watcher whose queue is full.
///
/// In a configuration file (feature `serde`) it is `drop_incoming`, `drop_oldest`, `wait`, or `wait_for` with a duration:
/// `{"wait_for": "250ms"}`.
#[doc(alias = "FullChannelBehavior")]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(rename_all = "snake_case"))]
#[non_exhaustive]
pub enum OverflowPolicy {
    /// The watcher loses the incoming event. Nobody waits. The default.
    #[default]
    #[doc(alias = "DropIfChannelFull")]
    DropIncoming,
    /// The watcher loses the oldest event in its queue, so that the newest are kept. Nobody waits.
    DropOldest,
    /// The dispatcher waits for room, and with it, in time, all watchers and publishers. The watcher loses nothing.
    #[doc(alias = "WaitIfChannelFull")]
    Wait,
    /// The dispatcher waits for room at most so long for each batch; then the watcher loses what has found no room.
    WaitFor(#[cfg_attr(feature = "serde", serde(with = "crate::duration"))] Duration),
}

impl OverflowPolicy {
    /// Whether the dispatcher waits for watchers of this policy.
    pub(crate) fn waits(self) -> bool {
        matches!(self, Self::Wait | Self::WaitFor(_))
    }
}

impl fmt::Display for OverflowPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::DropIncoming => f.write_str("drop incoming"),
            Self::DropOldest => f.write_str("drop oldest"),
            Self::Wait => f.write_str("wait"),
            Self::WaitFor(limit) => write!(f, "wait for {limit:?}"),
        }
    }
}
