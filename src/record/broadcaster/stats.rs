//! A snapshot of an event broadcaster's counters.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::bus::counters::{BusStats, between};
use crate::record::recorder::RecorderStats;
use crate::record::stats::RecordingStats;

/// The counters of an event broadcaster since its start, in events.
///
/// Whenever the broadcaster is idle, `bus.accepted` + `recorder.refused()` is the total number of
/// calls to recorders.
///
/// # Examples
///
/// ```
/// use eventcast::{EventBroadcaster, ObjectReference};
///
/// let events = EventBroadcaster::new()?;
/// let about_pod = events.recorder("kubelet").for_object(ObjectReference::new("Pod", "web-0"));
/// for reason in ["Started", "", "Killing"] {
///     about_pod.normal(reason, "");
/// }
/// events.shutdown();
/// let stats = events.stats();
/// assert_eq!((stats.bus.accepted, stats.recorder.refused()), (2, 1));
/// # Ok::<(), eventcast::error::BuildError>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct EventBroadcasterStats {
    /// The accepted events, and their outcomes at each watcher.
    pub bus: BusStats,
    /// The events that recorders refused or truncated.
    pub recorder: RecorderStats,
    /// The counters of each recording, in the order in which the recordings were started. If many
    /// recordings have been started, the first entry is named `departed` and contains the sums for
    /// the ended recordings that are no longer listed individually.
    pub recordings: Vec<RecordingStats>,
}

/// Formats the counters as one line. With `{:#}`, each watcher and each recording is printed on a
/// separate line.
impl fmt::Display for EventBroadcasterStats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.bus.fmt(f)?;
        let between = between(f);
        write!(f, "{between}{}", self.recorder)?;
        for recording in &self.recordings {
            write!(f, "{between}{recording}")?;
        }
        Ok(())
    }
}
