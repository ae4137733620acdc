//! The report that a shutdown returns.

use std::fmt;

use crate::bus::counters::BusStats;

/// The result of a shutdown.
///
/// Once the bus has ended, every shutdown call returns the same report. If a shutdown call returns
/// earlier, because its timeout expired or because it was made on a thread of the bus, it returns a
/// snapshot, and a later call returns a newer report.
///
/// The report describes the bus as it was when the bus ended. A watcher that you read yourself
/// keeps its queued events, so a complete report may include such a watcher with events in its
/// queue. After you have read these events, [`Watcher::stats`](crate::Watcher::stats) returns the
/// final counters.
///
/// # Examples
///
/// `examples/more/shutdown.rs` in the repository shuts down a bus with and without losing events,
/// and reads the report.
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
    /// Whether all accepted events were offered, and handled by every handler, before any shutdown
    /// with a deadline began to abandon the rest. If this field is `false`, `bus` counts the events
    /// that were abandoned, are still queued, or are still pending. This field may be `false` even
    /// if the shutdown found no event to abandon.
    pub complete: bool,
    /// Whether the threads that the bus started for the dispatcher and the handlers have ended and
    /// have been joined, so that the program may unload the code that they ran. The thread that
    /// enforces the deadlines of `flush_async`, `drain_async` and `shutdown_async` is not joined.
    /// That thread ends after the last deadline.
    pub threads_ended: bool,
    /// The bus's counters at the time when the bus ended, including the counters of each handler.
    pub bus: BusStats,
}

impl ShutdownReport {
    pub(crate) fn new(complete: bool, bus: BusStats) -> Self {
        Self { complete, threads_ended: false, bus }
    }

    /// Returns whether no events were lost. This is the case if the report is complete, and no
    /// watcher or handler lost an event that it was offered.
    ///
    /// An event that a watcher was offered but did not receive because the watcher was stopped or
    /// dropped does not count as a loss here. If an event was dropped because the watcher's queue
    /// was full, it counts as a loss, even if the watcher's policy prescribes dropping the event.
    /// An event that a newer event [replaced](crate::WatchBuilder::conflate_by) is not a loss.
    /// Refused events do not count as losses, because they were returned to their publishers.
    ///
    /// # Examples
    ///
    /// ```
    /// use eventcast::Broadcaster;
    ///
    /// let bus = Broadcaster::new()?;
    /// let watcher = bus.watch_builder().queue_capacity(1).watch()?;
    /// bus.publisher().publish(1)?;
    /// assert!(bus.flush(std::time::Duration::from_secs(10)).is_ok());
    /// bus.publisher().publish(2)?;
    /// let report = bus.shutdown();
    /// // The second event found the queue full.
    /// assert!(report.complete && !report.is_clean());
    /// # drop(watcher);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn is_clean(&self) -> bool {
        self.complete && self.bus.is_clean()
    }
}

/// Writes the report on one line, or with `{:#}`, each watcher on a separate line.
impl fmt::Display for ShutdownReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.complete { "complete: " } else { "incomplete: " })?;
        self.bus.fmt(f)
    }
}
