//! The report of an event broadcaster's shutdown.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::bus::counters::{BusStats, between};
use crate::bus::report::ShutdownReport;
use crate::record::stats::RecordingStats;

/// The result of an event broadcaster's shutdown, which consists of the bus's report and the
/// recordings' counters.
///
/// Once the broadcaster has ended, every shutdown call returns the same report. If a shutdown call
/// returns before the broadcaster has ended, its report is a snapshot, which the report of a later
/// call supersedes. See [`ShutdownReport`].
///
/// # Examples
///
/// ```
/// use eventcast::{EventBroadcaster, MemorySink, ObjectReference};
///
/// let events = EventBroadcaster::new()?;
/// events.record_to(MemorySink::new())?;
/// events.recorder("kubelet").normal(ObjectReference::new("Pod", "web-0"), "Started", "up");
/// let report = events.shutdown();
/// assert!(report.complete && report.is_clean());
/// assert_eq!((report.bus.accepted, report.recordings[0].created), (1, 1));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct EventBroadcasterReport {
    /// Whether all recorded events have been offered, and have then been handled by every handler
    /// and recording, and neither a call nor a recording has abandoned any events. An event that a
    /// sink refused counts as handled, so `true` does not mean that every event was stored.
    /// [`RecordingStats::lost`] returns the number of events that were lost.
    pub complete: bool,
    /// Whether the broadcaster's threads have ended, as in [`ShutdownReport::threads_ended`].
    pub threads_ended: bool,
    /// The final counters of the bus, including the counters of each handler and recording.
    pub bus: BusStats,
    /// The counters of the recordings, in the order in which the recordings were started. If a
    /// recording abandoned an event, the report is incomplete.
    pub recordings: Vec<RecordingStats>,
}

impl EventBroadcasterReport {
    /// Combines the bus's report with the recordings' counters. The recordings' counters no longer
    /// change once the bus has ended.
    pub(super) fn new(report: ShutdownReport, recordings: Vec<RecordingStats>) -> Self {
        let ShutdownReport { complete, threads_ended, bus } = report;
        let complete = complete && recordings.iter().all(|recording| recording.abandoned == 0);
        Self { complete, threads_ended, bus, recordings }
    }

    /// Returns `true` if the report is complete, no watcher or handler lost an event that was
    /// offered to it, and no recording lost an event.
    ///
    /// [`ShutdownReport::is_clean`] documents which of the bus's events count as lost.
    pub fn is_clean(&self) -> bool {
        self.complete && self.bus.is_clean() && self.recordings.iter().all(|recording| recording.lost() == 0)
    }
}

/// Formats the report as one line. With `{:#}`, each watcher, each recording and each recording
/// failure is printed on a separate line.
impl fmt::Display for EventBroadcasterReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.complete { "complete: " } else { "incomplete: " })?;
        self.bus.fmt(f)?;
        for recording in &self.recordings {
            f.write_str(between(f))?;
            recording.fmt(f)?;
        }
        Ok(())
    }
}
