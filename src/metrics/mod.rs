//! Statistics as metrics, through the `metrics` facade. The program publishes them by a call, so
//! this module has no thread and no timer.
//!
//! Counters are set, not incremented, so publishing twice does no harm. A label is a name that the
//! program chose. Everything without a name is summed up, so that watchers which come and go by the
//! thousand are one series and not thousands.

mod bus;
#[cfg(feature = "recorder")]
mod recorder;

/// Gives the `metrics` recorder a text and a unit for each metric. One call at the start is enough,
/// after the recorder was installed. [`emit_metrics`](crate::stats::BusStats::emit_metrics) of the
/// statistics publishes the figures.
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
