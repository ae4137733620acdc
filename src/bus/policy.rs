//! The overflow policy, which determines what happens to an event that does not fit into a
//! watcher's queue. The policy is set in the options, applied by the bus, and shown in the
//! statistics.

use std::fmt;
#[cfg(feature = "serde")]
use std::str::FromStr;
use std::time::Duration;

#[cfg(feature = "serde")]
use crate::duration;
#[cfg(feature = "serde")]
use crate::error::ParseError;
#[cfg(feature = "serde")]
use crate::escape::escape;

/// The action that the bus takes when a watcher's queue is full.
///
/// `examples/bus/policies.rs` in the repository shows which events are lost under each policy.
///
/// In a configuration file (feature `serde`), a policy is written as `drop_incoming`,
/// `drop_oldest`, `evict`, `wait`, or `wait_for` with a duration, as in `{"wait_for": "250ms"}`. On
/// a command line, `WaitFor` is written as `wait_for:250ms`.
///
#[cfg_attr(
    feature = "serde",
    doc = r#"# Examples

```
use eventcast::OverflowPolicy;
use std::time::Duration;

let policy: OverflowPolicy = "wait_for:250ms".parse()?;
assert_eq!(policy, OverflowPolicy::WaitFor(Duration::from_millis(250)));
assert_eq!(policy.to_string(), "wait_for:250ms");
assert!("sometimes".parse::<OverflowPolicy>().is_err());
# Ok::<(), eventcast::error::ParseError>(())
```"#
)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(rename_all = "snake_case"))]
#[non_exhaustive]
pub enum OverflowPolicy {
    /// The watcher loses the incoming event. The bus never waits for the watcher. This is the
    /// default.
    #[default]
    #[doc(alias = "DropIfChannelFull")]
    #[doc(alias = "drop newest")]
    DropIncoming,
    /// The watcher loses the oldest event in its queue, so the newest events are kept. The bus
    /// never waits for the watcher.
    #[doc(alias = "conflate")]
    #[doc(alias = "drop oldest")]
    DropOldest,
    /// The bus ends the watcher before the first event that does not fit into the watcher's queue.
    /// The bus never waits for the watcher.
    ///
    /// The bus does not offer this event or any later event to the watcher. The watcher delivers
    /// the events that are in its queue and then reports that it has ended, and
    /// [`end_reason`](crate::Watcher::end_reason) returns
    /// [`Evicted`](crate::bus::EndReason::Evicted). No offered event is lost, so no event counts as
    /// dropped. The eviction is counted in [`evictions`](crate::stats::WatcherStats::evictions).
    /// Use this policy for a remote client that may read too slowly. When the client's watcher is
    /// evicted, close the client's connection, and let the client reconnect and
    /// [continue](crate::WatchBuilder::start) where it left off. Choose a queue at least as long as
    /// the largest burst, because a batch that does not fit evicts even an idle reader. A handler
    /// is evicted in the same way as a watcher, and the handler's statistics show the eviction. A
    /// recording cannot use this policy.
    Evict,
    /// The dispatcher waits for capacity in the watcher's queue. Eventually, all watchers and
    /// publishers wait as well. The watcher does not lose any events. On an
    /// [inline](crate::Broadcaster::new_inline) bus, the publishers wait instead of the dispatcher.
    #[doc(alias = "WaitIfChannelFull")]
    Wait,
    /// The dispatcher waits for capacity in the watcher's queue, but for no longer than the given
    /// time for each batch. After that time, the watcher loses the events that did not fit. On an
    /// [inline](crate::Broadcaster::new_inline) bus, the time starts at the first publish call that
    /// finds no capacity, even if the watcher's filter refuses the event. A publish call made from
    /// inside another call does not start the time. After the time has passed, the watcher loses
    /// each event until its queue has capacity again, and no publish call waits for the watcher.
    WaitFor(#[cfg_attr(feature = "serde", serde(with = "crate::duration"))] Duration),
}

impl OverflowPolicy {
    /// Returns whether the dispatcher waits for watchers with this policy.
    pub(crate) fn waits(self) -> bool {
        matches!(self, Self::Wait | Self::WaitFor(_))
    }
}

/// Writes the policy in the form that `FromStr` parses.
impl fmt::Display for OverflowPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::DropIncoming => f.write_str("drop_incoming"),
            Self::DropOldest => f.write_str("drop_oldest"),
            Self::Evict => f.write_str("evict"),
            Self::Wait => f.write_str("wait"),
            Self::WaitFor(limit) => write!(f, "wait_for:{limit:?}"),
        }
    }
}

/// Parses a policy in its command-line form: `drop_incoming`, `drop_oldest`, `evict`, `wait`, or
/// `wait_for:` and a duration such as `250ms` or `1m30s`.
#[cfg(feature = "serde")]
impl FromStr for OverflowPolicy {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        let limit = text.strip_prefix("wait_for:").and_then(duration::parse);
        match text {
            "drop_incoming" => Ok(Self::DropIncoming),
            "drop_oldest" => Ok(Self::DropOldest),
            "evict" => Ok(Self::Evict),
            "wait" => Ok(Self::Wait),
            _ => limit.map(Self::WaitFor).ok_or_else(|| {
                let allowed = "drop_incoming, drop_oldest, evict, wait or wait_for:250ms";
                ParseError::new(format!("policy must be {allowed}, got {:.64}", escape(text)))
            }),
        }
    }
}
