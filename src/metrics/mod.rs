//! Publishes statistics as metrics, through the `metrics` facade. The program calls a method to
//! publish the statistics, so this module needs neither a thread nor a timer.
//!
//! Counters are set, not incremented, so it is harmless to publish the statistics twice. Labels are
//! names that the program chose. The values of everything without a name are summed up, so that
//! thousands of short-lived watchers create one series instead of thousands.

mod bus;
#[cfg(feature = "recorder")]
mod recorder;

/// Registers a description and a unit for each metric with the `metrics` recorder. Call this
/// function once at start-up, after the recorder has been installed. To publish the values, call
/// [`emit_metrics`](crate::stats::BusStats::emit_metrics) on the statistics.
///
/// # Examples
///
/// ```
/// eventcast::metrics::describe_metrics();
/// ```
pub fn describe_metrics() {
    bus::describe();
    #[cfg(feature = "recorder")]
    recorder::describe();
}
