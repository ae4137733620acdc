//! A snapshot of a recording's counters.

use std::fmt;

use crate::bus::counters::WatcherStats;
use crate::escape::escape;
use crate::record::event::Timestamp;
use crate::remote_state::RemoteState;

/// A recording's counters for the events that its watcher delivered.
///
/// Each delivered event has one of eight outcomes. After a flush, or once the recording has ended,
/// the following equation holds exactly:
///
/// `watcher.delivered` = `created` + `updated` + `skipped` + `already_existed` + `rejected` +
/// `exhausted` + `group_full` + `abandoned`
///
/// [`handled`](Self::handled) returns the right-hand side of this equation. While the recording is
/// running, either side of the equation may be ahead of the other:
///
/// - The recording counts an event's outcome before it counts the event as delivered.
/// - An event may be added to the count of another event with the same key that has not been
///   written yet. An event may also be held, either by its
///   [series](crate::record::RecordingBuilder::series), because the
///   [spam filter](crate::correlator::SpamFilter) stopped the event, or because of
///   [`update_every`](crate::record::RecordingBuilder::update_every). An event that was added to
///   another event's count, or that is held, already counts as delivered, but gets its outcome only
///   with the write that includes the event.
///
/// `already_existed`, `rejected`, `exhausted`, `group_full` and `abandoned` may decrease. A stored
/// event's count includes all earlier occurrences. If the store accepts a later write of the same
/// stored event, the earlier occurrences with one of these outcomes are therefore counted as
/// updated and coalesced instead.
///
/// # Examples
///
/// ```
/// use eventcast::{EventBroadcaster, MemorySink, ObjectReference};
/// use std::time::Duration;
///
/// let events = EventBroadcaster::new()?;
/// let recording = events.recording().name("store").start(MemorySink::new())?;
/// let about_pod = events.recorder("kubelet").for_object(ObjectReference::new("Pod", "web-0"));
/// for _ in 0..3 {
///     about_pod.warning("BackOff", "restarting");
///     // Without the pause, a repeat may reach the store together with the event before it.
///     events.flush(Duration::from_secs(60))?;
/// }
/// let stats = recording.stats();
/// assert_eq!(stats.handled(), stats.watcher.delivered);
/// assert_eq!(stats.to_string(), "store: created 1, updated 2, skipped 0");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct RecordingStats {
    /// The recording's name, and the numbers of events that were offered to the recording, that the
    /// recording received, and that the recording lost before it could handle them.
    pub watcher: WatcherStats,
    /// Events that the sink stored as new events.
    pub created: u64,
    /// Events that were added to the count of a stored event.
    pub updated: u64,
    /// Events that the spam filter stopped before any equal event had passed. The store therefore
    /// has no event for the skipped occurrences. If an equal event passes the filter later, that
    /// event's count includes the skipped events. Repeats of an event that is already stored are
    /// not counted as skipped, because a later write adds the repeats to the stored event's count.
    pub skipped: u64,
    /// Events not written because the sink already had an event with the same name.
    pub already_existed: u64,
    /// Events not written because the sink will never accept them, or because the sink or a
    /// function in the correlator's options panicked.
    pub rejected: u64,
    /// Events not written because the sink failed on every attempt that the retry policy allowed,
    /// or because `retry_if` did not allow another attempt.
    pub exhausted: u64,
    /// Events not written because their [group](crate::EventSink::group) had reached its
    /// [share](crate::record::RecordingBuilder::group_queue_capacity) of the queue.
    pub group_full: u64,
    /// Events not written because the sink failed while the recording or the bus was ending, or
    /// because a shutdown's deadline passed first.
    pub abandoned: u64,
    /// The events in `created` that should have been added to a stored event's count, but could not
    /// be because the stored event had expired.
    pub recreated: u64,
    /// The events in `created` and `updated` that reached the store in the same write as a later
    /// occurrence of the same stored event. `coalesced` grows when a sink is slow or unavailable,
    /// and when repeats were held or refused earlier.
    pub coalesced: u64,
    /// The delivered events that were folded into an aggregate event for a group of similar events.
    pub aggregated: u64,
    /// Write attempts, not counting the first attempt at each write.
    pub retried: u64,
    /// Caught panics in the sink, in its errors' destructors, in `retry_if`, or in a function in
    /// the correlator's options.
    pub panics: u64,
    /// Entries that the correlator evicted because its caches were full, and series that ended for
    /// the same reason. If `evicted` grows, the caches are too small, and counts restart from one.
    pub evicted: u64,
    /// The reason why the sink last refused an event, or why the recording last stopped trying to
    /// write an event. The string is escaped, and has at most about 1,000 characters. Abandoned
    /// events do not change this field.
    pub last_refusal: Option<String>,
    /// The state of the recording with respect to its store:
    ///
    /// - [`Connecting`](RemoteState::Connecting): the store has not responded yet, or has not been
    ///   needed yet.
    /// - [`Ready`](RemoteState::Ready): the store responds. Some groups may be
    ///   [degraded](Self::degraded_groups).
    /// - [`Unavailable`](RemoteState::Unavailable): the store has been unavailable since
    ///   [`unavailable_since`](Self::unavailable_since).
    /// - [`Refused`](RemoteState::Refused): the store is unavailable because it does not allow the
    ///   sink to write ([`SinkErrorKind::Forbidden`](crate::sink::SinkErrorKind::Forbidden)).
    /// - [`Ended`](RemoteState::Ended): the recording has ended.
    ///
    /// [`on_outage`](crate::record::RecordingBuilder::on_outage) is called each time the store
    /// becomes unavailable, and each time the store becomes available again.
    pub state: RemoteState,
    /// The time of day at which the recording entered its current state. The field is `None` only
    /// in a total over several recordings.
    pub state_since: Option<Timestamp>,
    /// The time of day at which the store itself became unavailable. The field is `None` if the
    /// store has never been unavailable, if the store is available again, or if the recording has
    /// ended.
    #[doc(alias = "unreachable")]
    pub unavailable_since: Option<Timestamp>,
    /// The last transient failure, which is a failure after which a later attempt may succeed. The
    /// recording sets this field on the first failure, and does not clear the field when the store
    /// is available again.
    pub last_failure: Option<SinkFailure>,
    /// Up to 16 [groups](crate::EventSink::group) that the store is currently serving slowly or not
    /// at all.
    pub degraded_groups: Vec<DegradedGroup>,
}

/// A group of events that the store is serving slowly or not at all.
///
/// # Examples
///
/// ```
/// use eventcast::stats::DegradedGroup;
///
/// let mut group = DegradedGroup::default();
/// (group.group, group.text) = ("shop".to_owned(), "no answer".to_owned());
/// assert_eq!(group.to_string(), "\"shop\" since 1970-01-01T00:00:00Z: no answer");
/// ```
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct DegradedGroup {
    /// The group's name, as returned by the sink.
    pub group: String,
    /// The time of day at which the group became degraded.
    pub since: Timestamp,
    /// The reason why the group is degraded. The string either states that the group's operations
    /// take a long time, or contains the sink's error, truncated and escaped.
    pub text: String,
}

impl Default for DegradedGroup {
    fn default() -> Self {
        Self { group: String::new(), since: Timestamp::UNIX_EPOCH, text: String::new() }
    }
}

impl fmt::Display for DegradedGroup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { group, since, text } = self;
        // The strings may have been read from a file, so they are escaped here.
        write!(f, "\"{}\" since {since:.0}: {}", escape(group), escape(text))
    }
}

/// A transient failure to store an event, after which a later attempt may succeed.
///
/// # Examples
///
/// ```
/// use eventcast::Timestamp;
/// use eventcast::stats::SinkFailure;
///
/// let mut failure = SinkFailure::default();
/// (failure.text, failure.attempts) = ("no answer".to_owned(), 3);
/// assert_eq!(failure.since, Timestamp::UNIX_EPOCH);
/// assert_eq!(failure.to_string(), "3 attempts since 1970-01-01T00:00:00Z: no answer");
/// ```
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct SinkFailure {
    /// The sink's error as [`SinkError`](crate::SinkError) displays it, truncated and escaped.
    pub text: String,
    /// The time of day at which the failures began. If the store is unavailable or the
    /// event's group is not served, this is the time at which that began. Otherwise, it is the time
    /// at which the first attempt to write the event failed.
    pub since: Timestamp,
    /// The number of attempts that have failed since the failures began. If the store is
    /// unavailable or the event's group is not served, all attempts for the store or the group are
    /// counted. Otherwise, only the attempts to write this event are counted.
    pub attempts: u64,
}

impl Default for SinkFailure {
    fn default() -> Self {
        Self { text: String::new(), since: Timestamp::UNIX_EPOCH, attempts: 0 }
    }
}

impl fmt::Display for SinkFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { text, since, attempts } = self;
        let times = if *attempts == 1 { "attempt" } else { "attempts" };
        // The text may have been read from a file, so it is escaped here.
        write!(f, "{attempts} {times} since {since:.0}: {}", escape(text))
    }
}

impl RecordingStats {
    /// Returns the number of events that should be in the store but are not, because the queue was
    /// full, the recording ended or the sink failed. Events that the spam filter skipped are not
    /// included. If the result is zero, all events except the skipped ones were stored.
    ///
    /// # Examples
    ///
    /// ```
    /// use eventcast::{Event, EventBroadcaster, EventSink, ObjectReference, SinkError};
    ///
    /// struct Closed;
    ///
    /// impl EventSink for Closed {
    ///     fn create(&self, _: &Event) -> Result<Event, SinkError> {
    ///         Err(SinkError::rejected("the archive is closed"))
    ///     }
    ///
    ///     fn patch(&self, event: &Event) -> Result<Event, SinkError> {
    ///         self.create(event)
    ///     }
    /// }
    ///
    /// let events = EventBroadcaster::new()?;
    /// events.record_to(Closed)?;
    /// events.recorder("doc").normal(&ObjectReference::new("Pod", "web-0"), "Run", "it runs");
    /// let report = events.shutdown();
    /// assert!(report.complete);
    /// assert_eq!(report.recordings[0].lost(), 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn lost(&self) -> u64 {
        let outcomes = [self.already_existed, self.rejected, self.exhausted, self.group_full, self.abandoned];
        outcomes.into_iter().fold(self.watcher.dropped.total(), u64::saturating_add)
    }

    /// Returns the sum of all outcomes, including the outcomes of lost events.
    pub fn handled(&self) -> u64 {
        let stored = [self.created, self.updated, self.skipped];
        let lost = [self.already_existed, self.rejected, self.exhausted, self.group_full, self.abandoned];
        stored.into_iter().chain(lost).fold(0, u64::saturating_add)
    }

    /// Returns the number of successful writes of delivered events, which is `created` + `updated`
    /// − `coalesced`.
    ///
    /// # Examples
    ///
    /// ```
    /// use eventcast::{EventBroadcaster, MemorySink, ObjectReference};
    ///
    /// let events = EventBroadcaster::new()?;
    /// let recording = events.record_to(MemorySink::new())?;
    /// let about_pod = events.recorder("doc").for_object(ObjectReference::new("Pod", "web-0"));
    /// for _ in 0..20 {
    ///     about_pod.normal("Run", "it runs");
    /// }
    /// events.shutdown();
    /// let stats = recording.stats();
    /// // How many events share a write depends on the speed of the sink.
    /// assert_eq!((stats.created, stats.updated), (1, 19));
    /// assert_eq!(stats.written() + stats.coalesced, 20);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn written(&self) -> u64 {
        self.created.saturating_add(self.updated).saturating_sub(self.coalesced)
    }

    /// Adds another recording's counters to `self`, to compute a total.
    pub(crate) fn add(&mut self, other: &Self) {
        self.watcher.add(&other.watcher);
        for (sum, count) in [
            (&mut self.created, other.created),
            (&mut self.updated, other.updated),
            (&mut self.skipped, other.skipped),
            (&mut self.already_existed, other.already_existed),
            (&mut self.rejected, other.rejected),
            (&mut self.exhausted, other.exhausted),
            (&mut self.group_full, other.group_full),
            (&mut self.abandoned, other.abandoned),
            (&mut self.recreated, other.recreated),
            (&mut self.coalesced, other.coalesced),
            (&mut self.aggregated, other.aggregated),
            (&mut self.retried, other.retried),
            (&mut self.panics, other.panics),
            (&mut self.evicted, other.evicted),
        ] {
            *sum += count;
        }
        if other.last_refusal.is_some() {
            self.last_refusal.clone_from(&other.last_refusal);
        }
        if other.last_failure.is_some() {
            self.last_failure.clone_from(&other.last_failure);
        }
        let since = [self.unavailable_since, other.unavailable_since];
        self.unavailable_since = since.into_iter().flatten().min();
        self.degraded_groups.extend_from_slice(&other.degraded_groups);
    }
}

/// Formats the counters on one line. With `{:#}`, degraded groups, the last failure and the last
/// refusal are on separate lines.
impl fmt::Display for RecordingStats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let between = if f.alternate() { "\n    " } else { ", " };
        write!(
            f,
            "{}: created {}, updated {}, skipped {}",
            escape(&self.watcher.name),
            self.created,
            self.updated,
            self.skipped
        )?;
        for (name, count) in [
            ("already existed", self.already_existed),
            ("rejected", self.rejected),
            ("exhausted", self.exhausted),
            ("group full", self.group_full),
            ("abandoned", self.abandoned),
            ("recreated", self.recreated),
            ("coalesced", self.coalesced),
            ("aggregated", self.aggregated),
            ("retried", self.retried),
            ("panics", self.panics),
            ("evicted", self.evicted),
            ("dropped", self.watcher.dropped.total()),
        ] {
            if count > 0 {
                write!(f, ", {name} {count}")?;
            }
        }
        if let Some(since) = self.unavailable_since {
            write!(f, ", store unavailable since {since:.0}")?;
        }
        for group in &self.degraded_groups {
            write!(f, "{between}degraded group {group}")?;
        }
        match &self.last_failure {
            // If an event was not written because of the last failure, the event's refusal has the
            // same text as the failure, so the text is shown only once.
            Some(failure) if self.last_refusal.as_ref() != Some(&failure.text) => {
                write!(f, "{between}last failure: {failure}")?;
            }
            _ => {}
        }
        match &self.last_refusal {
            // The text may have been read from a file, so it is escaped here.
            Some(text) => write!(f, "{between}last refusal: {}", escape(text)),
            None => Ok(()),
        }
    }
}
