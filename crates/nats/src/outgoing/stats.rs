//! The counters of an outgoing side.

use std::fmt;

use crate::remote_status::RemoteStatus;
use eventcast::escape::escape;
use eventcast::stats::WatcherStats;
use serde::{Deserialize, Serialize};

/// The counters of a [`NatsPublisher`](crate::NatsPublisher), in events except where a field says
/// something else.
///
/// Whenever nothing moves, `offered` = `acknowledged` + `dropped` + `too_large` + `encode` +
/// `refused` + `abandoned` + `in_flight` + `queued`. The figures of the queue are at most a tenth
/// of a second old while a message is on its way, and otherwise as the queue was when the bridge
/// last looked, which it does at every event.
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
    /// The events that the bus has offered to the bridge.
    pub offered: u64,
    /// The events in messages that the server has acknowledged. Acknowledged is not on disk:
    /// `docs/nats.md` in the repository says what a server can lose afterwards.
    pub acknowledged: u64,
    /// The events that the bus has dropped, because the queue was full or the watcher has ended.
    pub dropped: u64,
    /// The events that no message can hold.
    pub too_large: u64,
    /// The events that the codec refused, or for which one of the program's functions panicked.
    pub encode: u64,
    /// The events that a full stream refused, with [`OnFull::Drop`](crate::OnFull::Drop).
    pub refused: u64,
    /// The events that a shutdown gave up.
    pub abandoned: u64,
    /// The events in messages that are not acknowledged.
    pub in_flight: u64,
    /// The events in the queue of the watcher.
    pub queued: u64,
    /// The losses that were put into the order of the bus from outside, as
    /// [`publish_gap`](eventcast::Publisher::publish_gap) does. They are not part of `offered`.
    pub missed: u64,
    /// The number of messages that the server has acknowledged.
    pub messages: u64,
    /// The number of these that the server knew already.
    pub duplicates: u64,
    /// The number of attempts beyond the first ones.
    pub retries: u64,
    /// The number of panics of the program's functions that were caught.
    pub panics: u64,
    /// The payload bytes of the acknowledged messages.
    pub bytes: u64,
}

impl NatsPublisherStats {
    /// Returns the sum of all fates of an event, which equals `offered` whenever nothing moves.
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

    /// Returns the events that became a gap at the readers: all losses except by a shutdown.
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

    /// Takes over the figures of the queue, out of which `received` events were taken.
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

/// The result of the shutdown of a [`NatsPublisher`](crate::NatsPublisher).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct NatsReport {
    /// Whether the bridge has ended, and has given up no event.
    pub complete: bool,
    /// The figures at the end.
    pub stats: NatsPublisherStats,
}

impl fmt::Display for NatsReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { complete, stats } = self;
        write!(f, "{}: {stats}", if *complete { "complete" } else { "not complete" })
    }
}
