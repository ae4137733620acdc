//! Statistics summed over all topics.

use std::fmt;

use crate::stats::WatcherStats;

/// A snapshot of the counters of [`Topics`](super::Topics), including the counters of removed
/// topics.
///
/// If topics are removed during the call, the snapshot may count them twice or not at all. While no
/// thread is publishing, receiving, or adding or dropping watchers, the number of events passed to
/// `publish*`, except by `publish_async` calls that were dropped, is exactly `accepted + unheard +
/// rejected_full + rejected_closed`, and `watchers.offered = watchers.delivered +
/// watchers.dropped.total() + watchers.queued`.
///
/// # Examples
///
/// ```
/// use eventcast::topics::Topics;
///
/// let topics = Topics::new();
/// let mut watcher = topics.watch(&"a")?;
/// topics.publish(&"a", 1)?;
/// topics.publish(&"b", 2)?;
/// let stats = topics.stats();
/// assert_eq!((stats.topics, stats.accepted, stats.unheard), (1, 1, 1));
/// assert_eq!(stats.watchers.queued, 1);
/// # watcher.recv()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(default))]
#[non_exhaustive]
pub struct TopicsStats {
    /// The number of topics that exist.
    pub topics: u64,
    /// The number of topics created so far.
    pub created: u64,
    /// The number of events that were accepted for a topic with watchers.
    pub accepted: u64,
    /// The number of events whose topic had no watcher. These events are not counted in `accepted`,
    /// unlike those in [`BusStats::unheard`](crate::stats::BusStats::unheard).
    pub unheard: u64,
    /// The number of events refused because a watcher with the policy `Wait` or `WaitFor` had no
    /// capacity, because a nested call was refused, or because
    /// [`max_topics`](super::TopicsOptions::max_topics) was reached.
    pub rejected_full: u64,
    /// The number of events refused because the topics were closed.
    pub rejected_closed: u64,
    /// The counters of all watchers, summed. `high_water` is the largest one. The `name` and
    /// `policy` fields are not set.
    pub watchers: WatcherStats,
}

impl fmt::Display for TopicsStats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { topics, created, accepted, unheard, rejected_full, rejected_closed, watchers } = self;
        write!(
            f,
            "topics {topics} (created {created}), accepted {accepted}, unheard {unheard}, rejected {} (full \
             {rejected_full}, closed {rejected_closed}); watchers{watchers}",
            rejected_full.saturating_add(*rejected_closed)
        )
    }
}
