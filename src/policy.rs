//! The overflow policy: the fate of an event for which a watcher's queue has no room. Options
//! choose it, the bus carries it out, and the statistics name it.

use std::fmt;
use std::time::Duration;

/// The action of the bus for a watcher whose queue is full.
///
/// In a configuration file (feature `serde`) a policy is `drop_incoming`, `drop_oldest`, `wait`, or
/// `wait_for` with a duration: `{"wait_for": "250ms"}`.
#[doc(alias = "FullChannelBehavior")]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(rename_all = "snake_case"))]
#[non_exhaustive]
pub enum OverflowPolicy {
    /// The watcher loses the incoming event. Nobody waits. This is the default.
    #[default]
    #[doc(alias = "DropIfChannelFull")]
    DropIncoming,
    /// The watcher loses the oldest event in its queue, so that the newest are kept. Nobody waits.
    DropOldest,
    /// The dispatcher waits for room. In time, all watchers and publishers wait with it. The
    /// watcher loses nothing.
    #[doc(alias = "WaitIfChannelFull")]
    Wait,
    /// The dispatcher waits for room, for each batch at most this long. Then the watcher loses the
    /// events that have found no room.
    WaitFor(#[cfg_attr(feature = "serde", serde(with = "crate::duration"))] Duration),
}

impl OverflowPolicy {
    /// Returns whether the dispatcher waits for watchers of this policy.
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
