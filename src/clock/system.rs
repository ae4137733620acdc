//! The system's clocks.
#![allow(clippy::disallowed_methods, reason = "here is where the system is asked")]

use std::sync::OnceLock;
use std::time::{Duration, Instant, SystemTime};

use crate::sync::HAS_TIME;

/// The origin of the monotonic time scale, which is the time of its first use.
static ORIGIN: OnceLock<Instant> = OnceLock::new();

pub(super) fn system_now() -> SystemTime {
    if HAS_TIME { SystemTime::now() } else { SystemTime::UNIX_EPOCH }
}

/// Returns the time since `ORIGIN`, or zero where time does not pass.
pub(super) fn system_monotonic() -> Duration {
    if HAS_TIME { ORIGIN.get_or_init(Instant::now).elapsed() } else { Duration::ZERO }
}

/// In a model, only a timeout of zero expires. Without a clock and threads, every timeout expires
/// immediately.
pub(super) fn system_deadline(timeout: Duration) -> Option<Duration> {
    let has_expired = timeout.is_zero() || cfg!(target_family = "wasm");
    if HAS_TIME { system_monotonic().checked_add(timeout) } else { has_expired.then_some(Duration::ZERO) }
}

/// Converts a point in time to an `Instant`. Returns `None` if the platform cannot represent it,
/// because such a time is further in the future than the machine will last.
pub(super) fn system_instant(at: Duration) -> Option<Instant> {
    if HAS_TIME { ORIGIN.get_or_init(Instant::now).checked_add(at) } else { None }
}

/// Returns the time from now until `at`, or zero if `at` has passed. On a platform without a clock,
/// no `Instant` exists with which this function could be called.
pub(crate) fn time_until(at: Instant) -> Duration {
    at.saturating_duration_since(Instant::now())
}
