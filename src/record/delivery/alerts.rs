//! Calls the outage hook and, if the `tracing` feature is enabled, writes log lines about a failing
//! sink. The first line of each kind is written immediately, and further lines are written at most
//! once every ten seconds. Without the feature, failures are not logged, and only the statistics
//! and the hook report them.

use crate::catch::catch_panic;
use crate::clock::Clock;
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

    /// Calls the hook, and logs the outage unless it is an outage of the store that begins, which
    /// has been logged earlier. Returns whether the hook panicked.
    pub(super) fn report(&mut self, clock: &Clock, outage: &Outage<'_>) -> bool {
        if outage.group.is_some() || outage.cause.is_none() {
            self.log(clock, outage);
        }
        self.hook.as_mut().is_some_and(|hook| catch_panic(|| hook(outage)).is_none())
    }
}

#[cfg(not(feature = "tracing"))]
#[allow(clippy::unused_self, reason = "with the feature `tracing` they use it")]
impl Alerts {
    pub(super) fn failed(&mut self, _: &Clock, _: &str, _: &SinkFailure) {}

    pub(super) fn log(&mut self, _: &Clock, _: &Outage<'_>) {}
}

#[cfg(feature = "tracing")]
mod log {
    use std::time::Duration;

    use super::{Alerts, Clock, Outage, SinkFailure};
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

        /// Logs that the store or a group is unavailable, or works again. The end of an outage of
        /// the store is logged if the outage has been logged.
        pub(crate) fn log(&mut self, clock: &Clock, outage: &Outage<'_>) {
            let warn = |unmentioned| tracing::warn!(unmentioned, "{outage}");
            let info = |unmentioned| tracing::info!(unmentioned, "{outage}");
            match (outage.group, outage.cause) {
                (None, Some(_)) => self.is_told |= self.store.say(clock, warn),
                (None, None) if std::mem::take(&mut self.is_told) => {
                    catch_panic(|| tracing::info!("{outage}"));
                }
                (None, None) => {}
                (Some(_), Some(_)) => _ = self.group.say(clock, warn),
                (Some(_), None) => _ = self.group_end.say(clock, info),
            }
        }
    }
}
