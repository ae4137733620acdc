//! The report of an event broadcaster's shutdown.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::bus::counters::{BusStats, between};
use crate::bus::report::ShutdownReport;
use crate::record::stats::RecordingStats;

/// The result of an event broadcaster's shutdown: the report of its bus, and the counters of its
/// recordings.
///
/// Once the broadcaster has ended, every call returns the same report. A call that returns earlier
/// returns a snapshot, which the report of a later call supersedes. See [`ShutdownReport`].
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
    /// Whether all recorded events have been offered and then handled by every handler and
    /// recording, and neither a call nor a recording has abandoned events. An event that a sink
    /// refused counts as handled, so `true` does not mean that everything is stored.
    /// [`RecordingStats::lost`] returns how many events are not.
    pub complete: bool,
    /// Whether the threads of the broadcaster have ended, as in
    /// [`ShutdownReport::threads_ended`].
    pub threads_ended: bool,
    /// The final counters of the bus, including the counters of each handler and recording.
    pub bus: BusStats,
    /// The counters of the recordings, in the order in which the recordings were started. A
    /// recording that abandoned an event makes the report incomplete.
    pub recordings: Vec<RecordingStats>,
}

impl EventBroadcasterReport {
    /// Adds the recordings to the report from the bus. Their counters no longer change once the bus
    /// has ended.
    pub(super) fn new(report: ShutdownReport, recordings: Vec<RecordingStats>) -> Self {
        let ShutdownReport { complete, threads_ended, bus } = report;
        let complete = complete && recordings.iter().all(|recording| recording.abandoned == 0);
        Self { complete, threads_ended, bus, recordings }
    }

    /// Returns whether nothing was lost: the report is complete, no watcher and no handler lost an
    /// event that it was offered, and no recording lost one.
    ///
    /// See [`ShutdownReport::is_clean`] for which events of the bus count as lost.
    pub fn is_clean(&self) -> bool {
        self.complete && self.bus.is_clean() && self.recordings.iter().all(|recording| recording.lost() == 0)
    }
}

/// Formats the report as one line. With `{:#}`, each watcher, each recording and each failure of a
/// recording is on a separate line.
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
