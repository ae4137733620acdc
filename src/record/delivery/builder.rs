//! A recording's options.

use std::fmt;
use std::time::Duration;

use crate::bus::WatchBuilder;
use crate::bus::policy::OverflowPolicy;
use crate::record::correlator::CorrelatorOptions;
use crate::record::event::Event;
use crate::record::series::SeriesOptions;
use crate::record::sink::{SinkError, WriteOrder};

use super::handle::Recordings;
use super::outage::{Outage, OutageHook};
use super::retry::{RetryIf, RetryPolicy};

/// A builder for a recording whose options differ from the broadcaster's defaults.
/// [`start`](Self::start) starts the recording.
///
/// # Examples
///
/// ```
/// use eventcast::{CorrelatorOptions, EventBroadcaster, MemorySink, OverflowPolicy, RetryPolicy};
/// use std::time::Duration;
///
/// let events = EventBroadcaster::new()?;
/// let recording = events
///     .recording()
///     .name("warnings")
///     .queue_capacity(100)
///     .overflow(OverflowPolicy::DropOldest)
///     .filter(|event| event.type_ == "Warning")
///     .correlator(CorrelatorOptions::default().spam_filter(None))
///     .retry(RetryPolicy::default().delay(Duration::from_millis(100)))
///     .start(MemorySink::new())?;
/// assert_eq!(recording.stats().watcher.name, "warnings");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use = "nothing is recorded until `start`"]
pub struct RecordingBuilder<'b> {
    pub(super) watch: WatchBuilder<'b, Event>,
    pub(super) correlator: CorrelatorOptions,
    pub(super) series: Choice<SeriesOptions>,
    pub(super) update_every: Option<Duration>,
    pub(super) refresh_every: Choice<Duration>,
    pub(super) retry: RetryPolicy,
    pub(super) retry_if: Option<RetryIf>,
    pub(super) on_outage: Option<OutageHook>,
    pub(super) workers: usize,
    pub(super) group_queue_capacity: Option<usize>,
    pub(super) order: Option<WriteOrder>,
    pub(super) recordings: &'b Recordings,
}

/// An option that can be disabled, and whose default depends on the sink.
#[derive(Debug)]
pub(super) enum Choice<T> {
    Default,
    Set(Option<T>),
}

impl<T> Choice<T> {
    pub(super) fn unwrap_or_else(self, default: impl FnOnce() -> Option<T>) -> Option<T> {
        match self {
            Self::Default => default(),
            Self::Set(value) => value,
        }
    }
}

impl<'b> RecordingBuilder<'b> {
    /// Creates a recording builder from a watch builder whose watcher reports its own losses.
    pub(crate) fn new(
        watch: WatchBuilder<'b, Event>,
        correlator: CorrelatorOptions,
        retry: RetryPolicy,
        recordings: &'b Recordings,
    ) -> Self {
        let watch = watch.name(&recordings.next_name());
        Self {
            watch,
            correlator,
            series: Choice::Default,
            update_every: None,
            refresh_every: Choice::Default,
            retry,
            retry_if: None,
            on_outage: None,
            workers: 1,
            group_queue_capacity: None,
            order: None,
            recordings,
        }
    }

    /// Sets the recording's name, which appears in statistics and errors and is also the name of
    /// the recording's thread. The threads that call the sink have the same name with the prefix
    /// `1/`, `2/` and so on. By default, the first recording is named `recording`, the second one
    /// `recording-2`, and so on.
    ///
    /// # Examples
    ///
    /// ```
    /// use eventcast::{EventBroadcaster, MemorySink};
    ///
    /// let events = EventBroadcaster::new()?;
    /// let named = events.recording().name("audit").start(MemorySink::new())?;
    /// let unnamed = events.recording().start(MemorySink::new())?;
    /// assert_eq!(named.stats().watcher.name, "audit");
    /// assert_eq!(unnamed.stats().watcher.name, "recording-2");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn name(mut self, name: &str) -> Self {
        self.watch = self.watch.name(name);
        self
    }

    /// Sets the maximum number of events that may wait while the sink is slow or failing. The
    /// number must be between 1 and 16,777,216, and defaults to the broadcaster's setting. On an
    /// [inline](crate::EventBroadcaster::new_inline) broadcaster, the default is the sum of
    /// `incoming_capacity` and `queue_capacity`. A repeat of an event whose write is pending does
    /// not take up space, except with [`WriteOrder::Bus`]. When the limit is reached, the
    /// [`overflow`](Self::overflow) policy applies to any additional event, even if that event is a
    /// repeat. By default, the additional event is lost.
    ///
    /// # Examples
    ///
    /// ```
    /// use eventcast::{EventBroadcaster, MemorySink};
    ///
    /// let events = EventBroadcaster::new()?;
    /// assert!(events.recording().queue_capacity(64).start(MemorySink::new()).is_ok());
    /// let error = events.recording().queue_capacity(0).start(MemorySink::new()).unwrap_err();
    /// assert_eq!(error.to_string(), "queue_capacity must be 1 to 16777216 events, got 0");
    /// # Ok::<(), eventcast::error::BuildError>(())
    /// ```
    pub fn queue_capacity(mut self, events: usize) -> Self {
        self.watch = self.watch.queue_capacity(events);
        self
    }

    /// Sets how many events in one [group](crate::EventSink::group) may be waiting or in progress
    /// once other groups are known. The number must be at least 1. Together, the groups that are
    /// slow or not served may have twice this number of events. Any additional event in a group is
    /// lost and counts as [`group_full`](crate::stats::RecordingStats::group_full), so that the
    /// event does not take capacity from other groups. A repeat of an event that is waiting or in
    /// progress is not refused. A group may use the whole queue while there is only one group, or
    /// with [`OverflowPolicy::Wait`].
    ///
    /// Defaults to a quarter of [`queue_capacity`](Self::queue_capacity). With this default, a
    /// group that is neither slow nor unserved may also use any free capacity in the first half of
    /// the queue, so that a burst in one group can use capacity that no other group needs.
    ///
    /// # Examples
    ///
    /// ```
    /// use eventcast::{EventBroadcaster, MemorySink};
    ///
    /// let events = EventBroadcaster::new()?;
    /// assert!(events.recording().group_queue_capacity(100).start(MemorySink::new()).is_ok());
    /// let error = events.recording().group_queue_capacity(0).start(MemorySink::new()).unwrap_err();
    /// assert_eq!(error.to_string(), "group_queue_capacity must be 1 event or more, got 0");
    /// # Ok::<(), eventcast::error::BuildError>(())
    /// ```
    pub fn group_queue_capacity(mut self, events: usize) -> Self {
        self.group_queue_capacity = Some(events);
        self
    }

    /// Sets what happens to a new event while [`queue_capacity`](Self::queue_capacity) events are
    /// waiting. The default is the broadcaster's policy.
    ///
    /// With [`Wait`](OverflowPolicy::Wait), no events are lost in the recording's queue. However, a
    /// failing sink then blocks all watchers for as long as its writes are retried, and recorders
    /// find the broadcaster full. [`Evict`](OverflowPolicy::Evict) would end the recording, so
    /// `start` refuses this policy.
    ///
    /// # Examples
    ///
    /// ```
    /// use eventcast::{EventBroadcaster, MemorySink, OverflowPolicy};
    ///
    /// let events = EventBroadcaster::new()?;
    /// let recording = events.recording().overflow(OverflowPolicy::DropOldest).start(MemorySink::new())?;
    /// assert_eq!(recording.stats().watcher.policy, Some(OverflowPolicy::DropOldest));
    /// let error = events.recording().overflow(OverflowPolicy::Evict).start(MemorySink::new()).unwrap_err();
    /// assert_eq!(error.to_string(), "overflow must be a policy that does not end recordings, got evict");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn overflow(mut self, policy: OverflowPolicy) -> Self {
        self.watch = self.watch.overflow(policy);
        self
    }

    /// Sets a filter. Events for which `keep` returns `false` are not recorded. `keep` runs on the
    /// dispatcher or, on an [inline](crate::EventBroadcaster::new_inline) broadcaster, on the
    /// thread that records. See [`WatchBuilder::filter`].
    ///
    /// # Examples
    ///
    /// ```
    /// use eventcast::EventType::{Normal, Warning};
    /// use eventcast::{EventBroadcaster, MemorySink, ObjectReference};
    ///
    /// let (events, store) = (EventBroadcaster::new()?, MemorySink::new());
    /// events.recording().filter(|event| event.event_type() == Some(Warning)).start(store.clone())?;
    /// let (recorder, pod) = (events.recorder("doc"), ObjectReference::new("Pod", "a"));
    /// recorder.event(&pod, Normal, "Run", "it runs");
    /// recorder.event(&pod, Warning, "BackOff", "restarting");
    /// let report = events.shutdown();
    /// assert_eq!((store.len(), report.recordings[0].watcher.filtered), (1, 1));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn filter(mut self, keep: impl FnMut(&Event) -> bool + Send + 'static) -> Self {
        self.watch = self.watch.filter(keep);
        self
    }

    /// Sets how events are aggregated, counted and deferred. The recording always uses the
    /// broadcaster's clock, regardless of the clock in the options, and reads it once for the
    /// events that it takes from its queue together. Unlike in an
    /// [`EventCorrelator`](crate::correlator::EventCorrelator) of your own, two groups of an object
    /// never have the same name.
    ///
    /// # Examples
    ///
    /// ```
    /// use eventcast::correlator::SpamFilter;
    /// use eventcast::{CorrelatorOptions, EventBroadcaster, EventType, MemorySink, ObjectReference};
    ///
    /// let events = EventBroadcaster::new()?;
    /// let one_event = CorrelatorOptions::default().spam_filter(SpamFilter::default().burst(1));
    /// let strict = events.recording().correlator(one_event).start(MemorySink::new())?;
    /// let usual = events.recording().start(MemorySink::new())?;
    /// let (recorder, pod) = (events.recorder("doc"), ObjectReference::new("Pod", "a"));
    /// recorder.event(&pod, EventType::Normal, "Pulled", "the image is here");
    /// recorder.event(&pod, EventType::Normal, "Run", "it runs");
    /// events.shutdown();
    /// assert_eq!((strict.stats().skipped, usual.stats().skipped), (1, 0));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[doc(alias = "WithCorrelatorOptions")]
    pub fn correlator(mut self, options: CorrelatorOptions) -> Self {
        self.correlator = options;
        self
    }

    /// Sets how events with an [event time](crate::record::EventBroadcasterBuilder::event_time) are
    /// counted. The correlator handles only events without an event time.
    ///
    /// Defaults to the default [`SeriesOptions`]. With [`WriteOrder::Bus`], the update option
    /// defaults to [`SeriesUpdate::Always`](crate::record::SeriesUpdate::Always), because a log
    /// contains every event. With `None`, events are not counted, and each event is stored as a new
    /// event.
    ///
    /// # Examples
    ///
    /// ```
    /// use eventcast::record::{SeriesOptions, SeriesUpdate};
    /// use eventcast::{EventBroadcaster, EventType, MemorySink, ObjectReference};
    ///
    /// let events = EventBroadcaster::builder().event_time(true).build()?;
    /// let (counted, single) = (MemorySink::new(), MemorySink::new());
    /// let always = SeriesOptions::default().update(SeriesUpdate::Always);
    /// events.recording().series(always).start(counted.clone())?;
    /// events.recording().series(None).start(single.clone())?;
    /// let (recorder, pod) = (events.recorder("doc"), ObjectReference::new("Pod", "a"));
    /// for _ in 0..3 {
    ///     recorder.event(&pod, EventType::Warning, "BackOff", "restarting");
    /// }
    /// events.shutdown();
    /// assert_eq!(counted.events()[0].series().unwrap().count, 3);
    /// assert_eq!((counted.len(), single.len()), (1, 3));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn series(mut self, options: impl Into<Option<SeriesOptions>>) -> Self {
        self.series = Choice::Set(options.into());
        self
    }

    /// Sets the minimum time between two writes of one stored event, so that a fast-growing count
    /// causes few writes. The time must be at least 1 ms. Defaults to `None`, in which case each
    /// repeat that passes the spam filter is written.
    ///
    /// A repeat that arrives too soon is counted and held, and the latest count is written once the
    /// time has passed. If a flush runs or the recording ends, the count is written earlier. If
    /// counts are held for more than [`cache_size`](CorrelatorOptions::cache_size) keys, the count
    /// of the key with the least time left is also written early. A held event does not take up
    /// space in the queue. For events with an event time, use
    /// [`SeriesUpdate::Every`](crate::record::SeriesUpdate::Every).
    ///
    /// # Examples
    ///
    /// ```
    /// use eventcast::testing::FakeClock;
    /// use eventcast::{EventBroadcaster, MemorySink, ObjectReference};
    /// use std::time::{Duration, SystemTime};
    ///
    /// // The clock stands still, so the time never passes.
    /// let clock = FakeClock::new(SystemTime::UNIX_EPOCH);
    /// let events = EventBroadcaster::builder().clock(clock.clock()).build()?;
    /// let store = MemorySink::new();
    /// let minute = Duration::from_secs(60);
    /// let recording = events.recording().update_every(minute).start(store.clone())?;
    /// let about_pod = events.recorder("doc").for_object(ObjectReference::new("Pod", "web-0"));
    /// for _ in 0..20 {
    ///     about_pod.warning("BackOff", "restarting");
    /// }
    /// events.shutdown();
    /// // The last count is written when the recording ends.
    /// assert_eq!(store.events()[0].count, 20);
    /// assert!(recording.stats().written() <= 2);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[doc(alias = "throttle")]
    #[doc(alias = "rate limit")]
    pub fn update_every(mut self, time: impl Into<Option<Duration>>) -> Self {
        self.update_every = time.into();
        self
    }

    /// Sets the maximum time for which a count that the spam filter stopped is held. The time must
    /// be at least 1 ms. With `None`, the count is written only at a flush and when the recording
    /// ends. By default, the sink decides
    /// ([`EventSink::refresh_every`](crate::EventSink::refresh_every)).
    ///
    /// # Examples
    ///
    /// ```
    /// use eventcast::{EventBroadcaster, MemorySink};
    /// use std::time::Duration;
    ///
    /// let events = EventBroadcaster::new()?;
    /// let five_minutes = Duration::from_secs(300);
    /// assert!(events.recording().refresh_every(five_minutes).start(MemorySink::new()).is_ok());
    /// let error = events.recording().refresh_every(Duration::ZERO).start(MemorySink::new()).unwrap_err();
    /// assert_eq!(error.to_string(), "refresh_every must be 1ms or more, got 0ns");
    /// # Ok::<(), eventcast::error::BuildError>(())
    /// ```
    pub fn refresh_every(mut self, time: impl Into<Option<Duration>>) -> Self {
        self.refresh_every = Choice::Set(time.into());
        self
    }

    /// Sets when a failed write is retried.
    ///
    /// # Examples
    ///
    /// ```
    /// use eventcast::{EventBroadcaster, MemorySink, RetryPolicy};
    ///
    /// let events = EventBroadcaster::new()?;
    /// assert!(events.recording().retry(RetryPolicy::default().attempts(1)).start(MemorySink::new()).is_ok());
    /// let never = RetryPolicy::default().attempts(0);
    /// let error = events.recording().retry(never).start(MemorySink::new()).unwrap_err();
    /// assert_eq!(error.to_string(), "attempts must be 1 or more, got 0");
    /// # Ok::<(), eventcast::error::BuildError>(())
    /// ```
    #[doc(alias = "WithSleepDuration")]
    pub fn retry(mut self, policy: RetryPolicy) -> Self {
        self.retry = policy;
        self
    }

    /// Sets a function that decides whether a temporary error is worth another attempt. `worth` is
    /// called for errors of the [kinds](crate::sink::SinkErrorKind) `Retry`, `Unavailable`,
    /// `GroupUnavailable` and `Forbidden`. If `worth` returns `false`, the event is dropped
    /// immediately, and counts as exhausted, or as rejected if the error is `Forbidden`. By
    /// default, every such error is worth another attempt. `worth` runs on the recording's thread.
    /// If `worth` panics, the event is retried.
    ///
    /// # Examples
    ///
    /// ```
    /// use eventcast::{EventBroadcaster, MemorySink};
    ///
    /// let events = EventBroadcaster::new()?;
    /// // Only if the store itself specifies when to retry.
    /// events.recording().retry_if(|error| error.retry_after().is_some()).start(MemorySink::new())?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn retry_if(mut self, worth: impl FnMut(&SinkError) -> bool + Send + 'static) -> Self {
        self.retry_if = Some(Box::new(worth));
        self
    }

    /// Sets a hook that is called when the store becomes unavailable, and when the store responds
    /// again. The store counts as unavailable in the following cases:
    ///
    /// - The sink returns an error of the kind `Unavailable`.
    /// - The sink does not respond to any operation for more than one second while at least one
    ///   operation is in progress. Fake clocks do not measure this time.
    /// - Two [groups](crate::EventSink::group), or the only group, are not served, and the sink
    ///   does not respond to any other operation.
    ///
    /// If there are several groups, the hook is also called when a group is slow or not served, and
    /// when that group is working again ([`Outage::group`]). The hook runs on the recording's
    /// thread. A panic in the hook is caught and counted.
    ///
    /// The statistics contain the same information:
    /// [`RecordingStats::unavailable_since`](crate::stats::RecordingStats::unavailable_since),
    /// [`RecordingStats::degraded_groups`](crate::stats::RecordingStats::degraded_groups) and
    /// [`RecordingStats::last_failure`](crate::stats::RecordingStats::last_failure).
    ///
    /// # Examples
    ///
    /// ```
    /// use eventcast::{EventBroadcaster, MemorySink};
    ///
    /// let events = EventBroadcaster::new()?;
    /// events.recording().on_outage(|outage| eprintln!("{outage}")).start(MemorySink::new())?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn on_outage(mut self, hook: impl FnMut(&Outage<'_>) + Send + 'static) -> Self {
        self.on_outage = Some(Box::new(hook));
        self
    }

    /// Sets the order in which the sink receives the writes, and whether the sink receives all
    /// writes. By default, the sink decides
    /// ([`EventSink::write_order`](crate::EventSink::write_order)).
    ///
    /// # Examples
    ///
    /// ```
    /// use eventcast::sink::WriteOrder;
    /// use eventcast::{EventBroadcaster, MemorySink, ObjectReference};
    ///
    /// let events = EventBroadcaster::new()?;
    /// let every_one = events.recording().order(WriteOrder::Bus).start(MemorySink::new())?;
    /// let about_pod = events.recorder("doc").for_object(ObjectReference::new("Pod", "web-0"));
    /// for _ in 0..3 {
    ///     about_pod.normal("Run", "it runs");
    /// }
    /// events.shutdown();
    /// assert_eq!(every_one.stats().written(), 3);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn order(mut self, order: WriteOrder) -> Self {
        self.order = Some(order);
        self
    }

    /// Sets the number of threads that call the sink, from 1 (the default) to 256. With
    /// [`WriteOrder::Bus`], only 1 is allowed. The recording's own thread never calls the sink,
    /// except for its [`group`](crate::EventSink::group) method.
    ///
    /// Additional threads help if a sink performs one operation, or one batch, at a time and blocks
    /// on the network. Each thread takes the next writes when the thread is free. If a call hangs,
    /// it occupies its thread, and delays the events that the thread has taken. A sink whose
    /// [`mode`](crate::EventSink::mode) is [`InFlight`](crate::sink::SinkMode::InFlight) needs only
    /// one thread.
    ///
    /// # Examples
    ///
    /// ```
    /// use eventcast::{EventBroadcaster, EventType, MemorySink, ObjectReference};
    ///
    /// let (events, store) = (EventBroadcaster::new()?, MemorySink::new());
    /// events.recording().workers(4).start(store.clone())?;
    /// let recorder = events.recorder("doc");
    /// for number in 0..100 {
    ///     let pod = ObjectReference::new("Pod", format!("web-{number}"));
    ///     recorder.event(&pod, EventType::Normal, "Run", "it runs");
    /// }
    /// assert_eq!((events.shutdown().recordings[0].created, store.len()), (100, 100));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn workers(mut self, workers: usize) -> Self {
        self.workers = workers;
        self
    }
}

impl fmt::Debug for RecordingBuilder<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RecordingBuilder")
            .field("watch", &self.watch)
            .field("correlator", &self.correlator)
            .field("series", &self.series)
            .field("update_every", &self.update_every)
            .field("refresh_every", &self.refresh_every)
            .field("retry", &self.retry)
            .field("workers", &self.workers)
            .field("group_queue_capacity", &self.group_queue_capacity)
            .field("order", &self.order)
            .finish_non_exhaustive()
    }
}
