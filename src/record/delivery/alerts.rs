//! Lines in the log about a sink that fails, with the feature `tracing`. Of each kind the first
//! line is written at once, and then at most one in ten seconds. Without the feature only the
//! statistics report a failure.

use std::fmt;

use crate::catch::catch_panic;
use crate::clock::Clock;
use crate::escape::escape;
use crate::record::event::Timestamp;
use crate::record::stats::SinkFailure;

/// A function that learns that the store is unavailable, and that it is there again.
pub(super) type OutageHook = Box<dyn FnMut(&Outage<'_>) + Send>;

/// The beginning or the end of an outage of a recording's store, as
/// [`on_outage`](crate::record::RecordingBuilder::on_outage) receives it.
///
/// # Examples
///
/// ```
/// use eventcast::sink::SinkErrorKind;
/// use eventcast::{Event, EventBroadcaster, EventSink, ObjectReference, SinkError};
/// use std::sync::mpsc;
///
/// struct Away;
///
/// impl EventSink for Away {
///     fn create(&self, _: &Event) -> Result<Event, SinkError> {
///         Err(SinkError::new(SinkErrorKind::Unavailable, "connection refused"))
///     }
///     fn patch(&self, event: &Event) -> Result<Event, SinkError> {
///         self.create(event)
///     }
/// }
///
/// let (tx, outages) = mpsc::channel();
/// let events = EventBroadcaster::new()?;
/// events
///     .recording()
///     .on_outage(move |outage| tx.send((outage.cause.is_some(), outage.to_string())).unwrap())
///     .start(Away)?;
/// events.recorder("doc").normal(ObjectReference::new("Pod", "web-0"), "Run", "it runs");
/// let (has_begun, text) = outages.recv()?;
/// assert!(has_begun && text.starts_with("recording: store unavailable since "));
/// assert!(text.ends_with(": unavailable: connection refused"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Outage<'a> {
    /// The name of the recording.
    pub recording: &'a str,
    /// The [group](crate::EventSink::group) that is slow or not served, or `None` if the store is
    /// unavailable, for all groups.
    pub group: Option<&'a str>,
    /// The time of day at which the outage began.
    pub since: Timestamp,
    /// The sink's error, cut and escaped, or that the sink does not answer. `None` at the end of
    /// the outage: the store answers again, or serves the group again.
    #[doc(alias = "is_over")]
    pub cause: Option<&'a str>,
}

impl fmt::Display for Outage<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (recording, since) = (escape(self.recording), self.since);
        match (self.group.map(escape), self.cause) {
            (None, Some(cause)) => write!(f, "{recording}: store unavailable since {since:.0}: {cause}"),
            (None, None) => write!(f, "{recording}: store answers again, unavailable since {since:.0}"),
            (Some(group), Some(cause)) => {
                write!(f, "{recording}: group \"{group}\" degraded since {since:.0}: {cause}")
            }
            (Some(group), None) => {
                write!(f, "{recording}: group \"{group}\" works again, degraded since {since:.0}")
            }
        }
    }
}

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
    /// Whether the log says that the store is unavailable.
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

    /// Tells the hook that the store is unavailable. Returns whether the hook panicked.
    pub(super) fn begin(&mut self, recording: &str, since: Timestamp, cause: &str) -> bool {
        self.tell(&Outage { recording, group: None, since, cause: Some(cause) })
    }

    /// Logs that the store answers again, and tells the hook. Returns whether the hook panicked.
    pub(super) fn end(&mut self, recording: &str, since: Timestamp) -> bool {
        self.answers(recording, since);
        self.tell(&Outage { recording, group: None, since, cause: None })
    }

    /// Logs that a group is slow or closed, and tells the hook. Returns whether the hook panicked.
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

    /// Logs that a group works again, and tells the hook. Returns whether the hook panicked.
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

        /// Logs that the store itself is unavailable.
        pub(crate) fn unavailable(&mut self, clock: &Clock, recording: &str, failure: &SinkFailure) {
            let SinkFailure { text, since, .. } = failure;
            let recording = escape(recording);
            self.is_told |= self.store.say(clock, |unmentioned| {
                tracing::warn!(unmentioned, "{recording}: store unavailable since {since:.0}: {text}");
            });
        }

        /// Logs that a group is degraded, or works again.
        pub(crate) fn degraded(&mut self, clock: &Clock, outage: &Outage<'_>) {
            if outage.cause.is_none() {
                self.group_end.say(clock, |unmentioned| tracing::info!(unmentioned, "{outage}"));
            } else {
                self.group.say(clock, |unmentioned| tracing::warn!(unmentioned, "{outage}"));
            }
        }

        /// Logs that the store answers again, if the log says that the store is unavailable.
        pub(crate) fn answers(&mut self, recording: &str, since: Timestamp) {
            if std::mem::take(&mut self.is_told) {
                let recording = escape(recording);
                catch_panic(|| {
                    tracing::info!("{recording}: store answers again, unavailable since {since:.0}");
                });
            }
        }
    }
}
