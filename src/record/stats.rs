//! The counters of a recording, as values.

use std::fmt;

use crate::escape::escaped;
use crate::record::event::Timestamp;
use crate::stats::WatcherStats;

/// What one recording has done with the events that its watcher delivered.
///
/// Each delivered event has one of seven outcomes, so that, whenever the bus is quiet, exactly
///
/// `watcher.delivered` = `created` + `updated` + `skipped` + `already_existed` + `rejected` + `exhausted` + `abandoned`
///
/// which is what [`handled`](Self::handled) adds up. While it runs either side may be ahead: an outcome is counted before
/// its event is, and an event that was counted on one that waits to be tried again is delivered, and has its outcome with
/// that one.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct RecordingStats {
    /// The recording's name, and what it was offered, got, and lost before it could handle it.
    pub watcher: WatcherStats,
    /// Stored as a new event.
    pub created: u64,
    /// Counted on a stored event.
    pub updated: u64,
    /// Held back by the spam filter; counted with the next one that is stored.
    pub skipped: u64,
    /// Given up because the sink had an event of this name.
    pub already_existed: u64,
    /// Given up because the sink will never take it; or the sink, or a function of the correlator's options, panicked.
    pub rejected: u64,
    /// Given up because the sink failed as often as the retry policy allows.
    pub exhausted: u64,
    /// Given up because the sink failed, and the recording or the bus was to end.
    pub abandoned: u64,
    /// Of `created`: those that were to be counted on a stored event, which had expired.
    pub recreated: u64,
    /// Of all delivered: those that were folded into an event for a group of similar ones.
    pub aggregated: u64,
    /// Attempts beyond the first ones.
    pub retried: u64,
    /// Panics of the sink, or of a function of the correlator's options, that were caught.
    pub panics: u64,
    /// What the correlator forgot to make room. Where this grows, counts start again from one: its caches are too small.
    pub evicted: u64,
    /// Why the sink last refused an event, or gave up on it: at most about 1,000 characters,
    /// escaped.
    pub last_refusal: Option<String>,
    /// Since when the store itself is away, by the time of day. `None` when it has answered since,
    /// and when the recording has ended.
    pub unreachable_since: Option<Timestamp>,
    /// The last attempt that failed and may work later. It is set at the first failure already, and
    /// stays when the store works again.
    pub last_failure: Option<SinkFailure>,
}

/// Why an attempt to store an event failed, of those that may work later.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct SinkFailure {
    /// What the sink said, as [`SinkError`](crate::SinkError) shows it: cut and escaped.
    pub text: String,
    /// When it began, by the time of day: when the store went away, or when the first attempt at
    /// this event failed.
    pub since: Timestamp,
    /// How many attempts have failed since then: all, if the store is away, or those at this event.
    pub attempts: u64,
}

impl Default for SinkFailure {
    fn default() -> Self {
        Self { text: String::new(), since: Timestamp::UNIX_EPOCH, attempts: 0 }
    }
}

impl fmt::Display for SinkFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { text, since, attempts } = self;
        let times = if *attempts == 1 { "attempt" } else { "attempts" };
        // It may have come from a file.
        write!(f, "{attempts} {times} since {since:.0}: {}", escaped(text))
    }
}

impl RecordingStats {
    /// All outcomes together.
    pub fn handled(&self) -> u64 {
        self.created
            + self.updated
            + self.skipped
            + self.already_existed
            + self.rejected
            + self.exhausted
            + self.abandoned
    }

    /// Adds another recording's figures, for a total.
    pub(crate) fn add(&mut self, other: &Self) {
        self.watcher.add(&other.watcher);
        for (sum, count) in [
            (&mut self.created, other.created),
            (&mut self.updated, other.updated),
            (&mut self.skipped, other.skipped),
            (&mut self.already_existed, other.already_existed),
            (&mut self.rejected, other.rejected),
            (&mut self.exhausted, other.exhausted),
            (&mut self.abandoned, other.abandoned),
            (&mut self.recreated, other.recreated),
            (&mut self.aggregated, other.aggregated),
            (&mut self.retried, other.retried),
            (&mut self.panics, other.panics),
            (&mut self.evicted, other.evicted),
        ] {
            *sum += count;
        }
        if other.last_refusal.is_some() {
            self.last_refusal.clone_from(&other.last_refusal);
        }
        if other.last_failure.is_some() {
            self.last_failure.clone_from(&other.last_failure);
        }
        let since = [self.unreachable_since, other.unreachable_since];
        self.unreachable_since = since.into_iter().flatten().min();
    }
}

impl fmt::Display for RecordingStats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}: created {}, updated {}, skipped {}",
            escaped(&self.watcher.name),
            self.created,
            self.updated,
            self.skipped
        )?;
        for (name, count) in [
            ("already existed", self.already_existed),
            ("rejected", self.rejected),
            ("exhausted", self.exhausted),
            ("abandoned", self.abandoned),
            ("recreated", self.recreated),
            ("aggregated", self.aggregated),
            ("retried", self.retried),
            ("panics", self.panics),
            ("evicted", self.evicted),
            ("dropped", self.watcher.dropped.total()),
        ] {
            if count > 0 {
                write!(f, ", {name} {count}")?;
            }
        }
        if let Some(since) = self.unreachable_since {
            write!(f, ", store unreachable since {since:.0}")?;
        }
        match &self.last_failure {
            // An event that was given up for it says the same.
            Some(failure) if self.last_refusal.as_ref() != Some(&failure.text) => {
                write!(f, ", last failure: {failure}")?;
            }
            _ => {}
        }
        match &self.last_refusal {
            // It may have come from a file.
            Some(text) => write!(f, ", last refusal: {}", escaped(text)),
            None => Ok(()),
        }
    }
}
