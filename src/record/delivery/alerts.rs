//! Lines in the log about a sink that fails, with the feature `tracing`: the first at once, and
//! then at most one in ten seconds of each kind. Without the feature the statistics alone say it.

use crate::clock::Clock;
use crate::record::event::Timestamp;
use crate::record::stats::SinkFailure;

#[derive(Default)]
pub(super) struct Alerts {
    #[cfg(feature = "tracing")]
    event: log::Silence,
    #[cfg(feature = "tracing")]
    store: log::Silence,
    /// The log says that the store is away.
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
    use crate::escape::escaped;

    const PAUSE: Duration = Duration::from_secs(10);

    /// Until when nothing is said, and how much was not said since the last line.
    #[derive(Default)]
    pub(super) struct Silence {
        until: Deadline,
        unmentioned: u64,
    }

    impl Silence {
        /// Says it now, or counts it.
        fn say(&mut self, clock: &Clock, say: impl FnOnce(u64)) -> bool {
            if self.until.is_some() && !clock.has_passed(self.until) {
                self.unmentioned += 1;
                return false;
            }
            self.until = clock.deadline(PAUSE);
            let unmentioned = std::mem::take(&mut self.unmentioned);
            // The subscriber is the user's.
            catch_panic(|| say(unmentioned));
            true
        }
    }

    impl Alerts {
        /// An attempt to write one event failed.
        pub(crate) fn failed(&mut self, clock: &Clock, recording: &str, failure: &SinkFailure) {
            let SinkFailure { text, since, attempts } = failure;
            let recording = escaped(recording);
            self.event.say(clock, |unmentioned| {
                tracing::warn!(
                    unmentioned,
                    "{recording}: attempt {attempts} failed, the first one at {since:.0}: {text}"
                );
            });
        }

        /// The store itself is away.
        pub(crate) fn unreachable(&mut self, clock: &Clock, recording: &str, failure: &SinkFailure) {
            let SinkFailure { text, since, .. } = failure;
            let recording = escaped(recording);
            self.is_told |= self.store.say(clock, |unmentioned| {
                tracing::warn!(unmentioned, "{recording}: store unreachable since {since:.0}: {text}");
            });
        }

        /// The store answers again. Said if it was said that it was away.
        pub(crate) fn answers(&mut self, recording: &str, since: Timestamp) {
            if std::mem::take(&mut self.is_told) {
                let recording = escaped(recording);
                catch_panic(|| {
                    tracing::info!("{recording}: store answers again, unreachable since {since:.0}");
                });
            }
        }
    }
}
