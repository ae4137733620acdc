//! Publishes statistics as metrics, through the `metrics` facade. The program calls a method to
//! publish them, so this module has no thread and no timer.
//!
//! Counters are set, not incremented, so publishing twice is harmless. Labels are names that the
//! program chose. Everything without a name is summed up, so that thousands of short-lived watchers
//! create one series instead of thousands.

mod bus;
#[cfg(feature = "recorder")]
mod recorder;

/// Registers a description and a unit for each metric with the `metrics` recorder. One call at
/// start-up is enough, after the recorder has been installed. To publish the values, call
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
