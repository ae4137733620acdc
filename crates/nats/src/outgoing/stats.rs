//! Counters of the outgoing side.

use std::fmt;

use crate::remote_status::RemoteStatus;
use eventcast::escape::escape;
use eventcast::stats::WatcherStats;
use serde::{Deserialize, Serialize};

/// The counters of a [`NatsPublisher`](crate::NatsPublisher), which count events unless a field
/// states otherwise.
///
/// While no event changes its state, `offered` = `acknowledged` + `dropped` + `too_large` +
/// `encode` + `refused` + `abandoned` + `in_flight` + `queued`. While a message is in flight, the
/// queue's counters are at most a tenth of a second old. Otherwise, the queue's counters date from
/// the last time that the bridge checked the queue, which happens at every event.
///
/// # Examples
///
/// ```
/// use eventcast_nats::NatsPublisherStats;
///
/// assert_eq!(NatsPublisherStats::default().total(), 0);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct NatsPublisherStats {
    /// The status of the connection and of the stream.
    pub status: RemoteStatus,
    /// The number of events that the bus has offered to the bridge.
    pub offered: u64,
    /// The number of events in messages that the server has acknowledged. An acknowledged event is
    /// not necessarily on disk. `docs/nats.md` in the repository describes what a server can still
    /// lose afterwards.
    pub acknowledged: u64,
    /// The number of events that the bus dropped because the queue was full or the watcher had
    /// ended.
    pub dropped: u64,
    /// The number of events that are too large for a message.
    pub too_large: u64,
    /// The number of events that the codec refused, or for which a user-supplied function panicked.
    pub encode: u64,
    /// The number of events that a full stream refused, with [`OnFull::Drop`](crate::OnFull::Drop).
    pub refused: u64,
    /// The number of events that were abandoned at shutdown.
    pub abandoned: u64,
    /// The number of events in messages that have not been acknowledged.
    pub in_flight: u64,
    /// The number of events in the watcher's queue.
    pub queued: u64,
    /// The number of losses that were reported to the bus with
    /// [`publish_gap`](eventcast::Publisher::publish_gap). These losses are not included in
    /// `offered`.
    pub missed: u64,
    /// The number of messages that the server has acknowledged.
    pub messages: u64,
    /// The number of acknowledged messages that the server had already stored.
    pub duplicates: u64,
    /// The number of repeated attempts to send a message, not counting first attempts.
    pub retries: u64,
    /// The number of caught panics in user-supplied functions.
    pub panics: u64,
    /// The total payload of the acknowledged messages in bytes.
    pub bytes: u64,
}

impl NatsPublisherStats {
    /// Returns the sum of all outcomes, which equals `offered` while no event changes its state.
    ///
    /// # Examples
    ///
    /// ```
    /// use eventcast_nats::NatsPublisherStats;
    ///
    /// let stats: NatsPublisherStats = serde_json::from_str(r#"{"acknowledged": 3, "dropped": 2}"#)?;
    /// assert_eq!(stats.total(), 5);
    /// # Ok::<(), serde_json::Error>(())
    /// ```
    pub fn total(&self) -> u64 {
        self.acknowledged + self.lost() + self.abandoned + self.in_flight + self.queued
    }

    /// Returns the number of events that readers see as gaps, which are all lost events except the
    /// events abandoned at shutdown.
    ///
    /// # Examples
    ///
    /// ```
    /// use eventcast_nats::NatsPublisherStats;
    ///
    /// let stats: NatsPublisherStats = serde_json::from_str(r#"{"encode": 1, "dropped": 2}"#)?;
    /// assert_eq!(stats.lost(), 3);
    /// # Ok::<(), serde_json::Error>(())
    /// ```
    pub fn lost(&self) -> u64 {
        self.dropped + self.too_large + self.encode + self.refused
    }

    /// Updates the queue's counters. `received` is the number of events taken from the queue.
    pub(crate) fn look_at(&mut self, watcher: &WatcherStats, received: u64) {
        self.offered = watcher.offered;
        self.dropped = watcher.dropped.total();
        self.missed = watcher.missed;
        self.queued = watcher.offered.saturating_sub(self.dropped).saturating_sub(received);
    }
}

impl fmt::Display for NatsPublisherStats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { status, offered, acknowledged, dropped, in_flight, queued, .. } = self;
        let state = status.state;
        write!(f, "{state}: offered {offered}, acknowledged {acknowledged}, dropped {dropped}")?;
        write!(f, ", in flight {in_flight}, queued {queued}")?;
        let rare = [
            ("too large", self.too_large),
            ("not encoded", self.encode),
            ("refused", self.refused),
            ("abandoned", self.abandoned),
            ("duplicates", self.duplicates),
            ("retries", self.retries),
            ("panics", self.panics),
        ];
        for (name, count) in rare.into_iter().filter(|(_, count)| *count > 0) {
            write!(f, ", {name} {count}")?;
        }
        match status.failure() {
            Some(failure) => write!(f, ", last failure: {}", escape(failure)),
            None => Ok(()),
        }
    }
}

/// The result of shutting down a [`NatsPublisher`](crate::NatsPublisher).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct NatsReport {
    /// Whether the bridge has ended without abandoning any events.
    pub complete: bool,
    /// The final statistics.
    pub stats: NatsPublisherStats,
}

impl fmt::Display for NatsReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { complete, stats } = self;
        write!(f, "{}: {stats}", if *complete { "complete" } else { "not complete" })
    }
}
