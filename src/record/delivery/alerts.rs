//! Calls the outage hook and, if the `tracing` feature is enabled, writes log lines about a failing
//! sink. The first line of each kind is written immediately, and further lines are written at most
//! once every ten seconds. Without the feature, failures are not logged, and only the statistics
//! and the hook report them.

use crate::catch::catch_panic;
use crate::clock::Clock;
use crate::record::event::Timestamp;
use crate::record::stats::SinkFailure;

use super::outage::{Outage, OutageHook};

#[derive(Default)]
pub(super) struct Alerts {
    hook: Option<OutageHook>,
    #[cfg(feature = "tracing")]
    event: log::Silence,
    #[cfg(feature = "tracing")]
    store: log::Silence,
    #[cfg(feature = "tracing")]
    group: log::Silence,
    #[cfg(feature = "tracing")]
    group_end: log::Silence,
    /// Whether the store's outage has been logged.
    #[cfg(feature = "tracing")]
    is_told: bool,
}

impl Alerts {
    #[cfg_attr(
        not(feature = "tracing"),
        allow(clippy::needless_update, reason = "with the feature `tracing` there are other fields")
    )]
    pub(super) fn new(hook: Option<OutageHook>) -> Self {
        Self { hook, ..Self::default() }
    }

    /// Calls the hook to report that the store is unavailable. Returns whether the hook panicked.
    pub(super) fn begin(&mut self, recording: &str, since: Timestamp, cause: &str) -> bool {
        self.tell(&Outage { recording, group: None, since, cause: Some(cause) })
    }

    /// Logs that the store is responding again, and calls the hook. Returns whether the hook
    /// panicked.
    pub(super) fn end(&mut self, recording: &str, since: Timestamp) -> bool {
        self.answers(recording, since);
        self.tell(&Outage { recording, group: None, since, cause: None })
    }

    /// Logs that a group is slow or closed, and calls the hook. Returns whether the hook panicked.
    pub(super) fn group_begins(
        &mut self,
        clock: &Clock,
        recording: &str,
        group: &str,
        since: Timestamp,
        cause: &str,
    ) -> bool {
        let outage = Outage { recording, group: Some(group), since, cause: Some(cause) };
        self.degraded(clock, &outage);
        self.tell(&outage)
    }

    /// Logs that a group is working again, and calls the hook. Returns whether the hook panicked.
    pub(super) fn group_ends(
        &mut self,
        clock: &Clock,
        recording: &str,
        group: &str,
        since: Timestamp,
    ) -> bool {
        let outage = Outage { recording, group: Some(group), since, cause: None };
        self.degraded(clock, &outage);
        self.tell(&outage)
    }

    fn tell(&mut self, outage: &Outage<'_>) -> bool {
        self.hook.as_mut().is_some_and(|hook| catch_panic(|| hook(outage)).is_none())
    }
}

#[cfg(not(feature = "tracing"))]
#[allow(clippy::unused_self, reason = "with the feature `tracing` they use it")]
impl Alerts {
    pub(super) fn failed(&mut self, _: &Clock, _: &str, _: &SinkFailure) {}

    pub(super) fn unavailable(&mut self, _: &Clock, _: &str, _: &SinkFailure) {}

    pub(super) fn answers(&mut self, _: &str, _: Timestamp) {}

    pub(super) fn degraded(&mut self, _: &Clock, _: &Outage<'_>) {}
}

#[cfg(feature = "tracing")]
mod log {
    use std::time::Duration;

    use super::{Alerts, Clock, Outage, SinkFailure, Timestamp};
    use crate::catch::catch_panic;
    use crate::clock::Deadline;
    use crate::escape::escape;

    const PAUSE: Duration = Duration::from_secs(10);

    /// The rate limiter for one kind of line. The rate limiter holds the time until which no line
    /// is written, and the number of lines omitted since the last line.
    #[derive(Default)]
    pub(super) struct Silence {
        until: Deadline,
        unmentioned: u64,
    }

    impl Silence {
        /// Writes a line now, or counts it as omitted. Returns whether the line was written.
        fn say(&mut self, clock: &Clock, say: impl FnOnce(u64)) -> bool {
            if self.until.is_some() && !clock.has_passed(self.until) {
                self.unmentioned += 1;
                return false;
            }
            self.until = clock.deadline(PAUSE);
            let unmentioned = std::mem::take(&mut self.unmentioned);
            // The `tracing` subscriber is user code, and may panic.
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

        /// Logs that the store itself is unavailable.
        pub(crate) fn unavailable(&mut self, clock: &Clock, recording: &str, failure: &SinkFailure) {
            let SinkFailure { text, since, .. } = failure;
            let recording = escape(recording);
            self.is_told |= self.store.say(clock, |unmentioned| {
                tracing::warn!(unmentioned, "{recording}: store unavailable since {since:.0}: {text}");
            });
        }

        /// Logs that a group is degraded or is working again.
        pub(crate) fn degraded(&mut self, clock: &Clock, outage: &Outage<'_>) {
            if outage.cause.is_none() {
                self.group_end.say(clock, |unmentioned| tracing::info!(unmentioned, "{outage}"));
            } else {
                self.group.say(clock, |unmentioned| tracing::warn!(unmentioned, "{outage}"));
            }
        }

        /// Logs that the store is responding again, if its outage has been logged.
        pub(crate) fn answers(&mut self, recording: &str, since: Timestamp) {
            if std::mem::take(&mut self.is_told) {
                let recording = escape(recording);
                catch_panic(|| {
                    tracing::info!("{recording}: store available again, unavailable since {since:.0}");
                });
            }
        }
    }
}
