//! Lines in the log about a sink that fails, with the feature `tracing`. Of each kind the first
//! line is written at once, and then at most one in ten seconds. Without the feature only the
//! statistics report a failure.

use crate::clock::Clock;
use crate::record::event::Timestamp;
use crate::record::stats::SinkFailure;

#[derive(Default)]
pub(super) struct Alerts {
    #[cfg(feature = "tracing")]
    event: log::Silence,
    #[cfg(feature = "tracing")]
    store: log::Silence,
    /// Whether the log says that the store is away.
    #[cfg(feature = "tracing")]
    is_told: bool,
}

#[cfg(not(feature = "tracing"))]
#[allow(clippy::unused_self, reason = "with the feature `tracing` they use it")]
impl Alerts {
    pub(super) fn failed(&mut self, _: &Clock, _: &str, _: &SinkFailure) {}

    pub(super) fn unreachable(&mut self, _: &Clock, _: &str, _: &SinkFailure) {}

    pub(super) fn answers(&mut self, _: &str, _: Timestamp) {}
}

#[cfg(feature = "tracing")]
mod log {
    use std::time::Duration;

    use super::{Alerts, Clock, SinkFailure, Timestamp};
    use crate::catch::catch_panic;
    use crate::clock::Deadline;
    use crate::escape::escape;

    const PAUSE: Duration = Duration::from_secs(10);

    /// The limit on one kind of line: the time until which none is written, and the number of lines
    /// left out since the last one.
    #[derive(Default)]
    pub(super) struct Silence {
        until: Deadline,
        unmentioned: u64,
    }

    impl Silence {
        /// Writes a line now, or counts it as left out. Returns whether the line was written.
        fn say(&mut self, clock: &Clock, say: impl FnOnce(u64)) -> bool {
            if self.until.is_some() && !clock.has_passed(self.until) {
                self.unmentioned += 1;
                return false;
            }
            self.until = clock.deadline(PAUSE);
            let unmentioned = std::mem::take(&mut self.unmentioned);
            // The subscriber is the user's code, and may panic.
            catch_panic(|| say(unmentioned));
            true
        }
    }

    impl Alerts {
        /// Logs that an attempt to write one event failed.
        pub(crate) fn failed(&mut self, clock: &Clock, recording: &str, failure: &SinkFailure) {
            let SinkFailure { text, since, attempts } = failure;
            let recording = escape(recording);
            self.event.say(clock, |unmentioned| {
                tracing::warn!(
                    unmentioned,
                    "{recording}: attempt {attempts} failed, the first one at {since:.0}: {text}"
                );
            });
        }

        /// Logs that the store itself is away.
        pub(crate) fn unreachable(&mut self, clock: &Clock, recording: &str, failure: &SinkFailure) {
            let SinkFailure { text, since, .. } = failure;
            let recording = escape(recording);
            self.is_told |= self.store.say(clock, |unmentioned| {
                tracing::warn!(unmentioned, "{recording}: store unreachable since {since:.0}: {text}");
            });
        }

        /// Logs that the store answers again, if the log says that the store is away.
        pub(crate) fn answers(&mut self, recording: &str, since: Timestamp) {
            if std::mem::take(&mut self.is_told) {
                let recording = escape(recording);
                catch_panic(|| {
                    tracing::info!("{recording}: store answers again, unreachable since {since:.0}");
                });
            }
        }
    }
}
