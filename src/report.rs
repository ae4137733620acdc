//! The report of a shutdown.

use std::fmt;

use crate::counters::BusStats;
#[cfg(feature = "recorder")]
use crate::counters::between;
#[cfg(feature = "recorder")]
use crate::record::stats::RecordingStats;

/// The result of a shutdown. Every call returns the same report, except a call on a thread of the
/// bus, which does not wait.
///
/// The report shows the bus at its end. A watcher that you read yourself keeps its queued events,
/// so a complete report may show such a watcher with events in its queue. After you have read them,
/// [`Watcher::stats`](crate::Watcher::stats) has the final counters.
///
/// # Examples
///
/// `examples/shutdown.rs` in the repository ends with and without a loss, and reads the report.
///
/// ```
/// use eventcast::Broadcaster;
///
/// let bus = Broadcaster::new()?;
/// bus.publisher().publish(1)?;
/// let report = bus.shutdown();
/// assert!(report.complete);
/// assert_eq!(report.bus.accepted, 1);
/// assert!(report.to_string().starts_with("complete: published 1, accepted 1"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(default))]
#[non_exhaustive]
pub struct ShutdownReport {
    /// Whether all accepted events have been offered, and handled by every handler. If `false`,
    /// `bus` says what was abandoned and what is still queued. An event that a sink refused is
    /// handled too, so `true` does not mean that everything is stored. `RecordingStats::lost` says
    /// how many events are not.
    pub complete: bool,
    /// The counters at the end, including those of each handler and recording.
    pub bus: BusStats,
    /// The counters of an event broadcaster's recordings, in the order in which they were started.
    /// A recording that abandoned an event makes the report incomplete.
    #[cfg(feature = "recorder")]
    pub recordings: Vec<RecordingStats>,
}

impl ShutdownReport {
    pub(crate) fn new(complete: bool, bus: BusStats) -> Self {
        Self {
            complete,
            bus,
            #[cfg(feature = "recorder")]
            recordings: Vec::new(),
        }
    }
}

/// Shows one line. With `{:#}`, each watcher and each recording has a line of its own.
impl fmt::Display for ShutdownReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.complete { "complete: " } else { "incomplete: " })?;
        self.bus.fmt(f)?;
        #[cfg(feature = "recorder")]
        for recording in &self.recordings {
            write!(f, "{}{recording}", between(f))?;
        }
        Ok(())
    }
}
