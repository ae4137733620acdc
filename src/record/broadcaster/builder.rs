//! An event broadcaster's options.

use std::fmt;
use std::time::Duration;

use crate::bus::{Broadcaster, BusOptions, Completion, OverflowPolicy};
use crate::clock::Clock;
use crate::error::BuildError;
use crate::record::correlator::{CorrelatorOptions, EventCorrelator};
use crate::record::delivery::{Recordings, RetryPolicy};
use crate::record::event::Event;
use crate::record::event::timed::MAX_TIMED_MESSAGE;
use crate::record::loss::{Loss, LossHook, OnLoss};
use crate::record::recorder::{DEFAULT_MAX_MESSAGE_LEN, RecorderContext, Scrub};
use crate::sync::{Arc, Mutex};

use super::{EventBroadcaster, Shared, both_queues};

/// A builder for an [`EventBroadcaster`] with non-default options. [`build`](Self::build) starts
/// the broadcaster.
///
/// # Examples
///
/// ```
/// use eventcast::{BusOptions, EventBroadcaster};
/// use std::sync::atomic::{AtomicU64, Ordering};
/// use std::time::Duration;
///
/// static LOST: AtomicU64 = AtomicU64::new(0);
/// let events = EventBroadcaster::builder()
///     .bus(BusOptions::default().queue_capacity(100))
///     .max_message_len(1024)
///     .scrub(|event| {
///         if event.message.contains("password") {
///             event.message = "(removed)".into();
///         }
///     })
///     .on_loss(|loss| {
///         LOST.fetch_add(loss.count, Ordering::Relaxed);
///     })
///     .drop_timeout(Duration::from_secs(5))
///     .build()?;
/// events.shutdown();
/// assert_eq!(LOST.load(Ordering::Relaxed), 0);
/// # Ok::<(), eventcast::error::BuildError>(())
/// ```
#[must_use = "nothing happens until `build`"]
pub struct EventBroadcasterBuilder {
    bus: BusOptions,
    clock: Clock,
    max_message_len: Option<usize>,
    event_time: bool,
    scrub: Option<Scrub>,
    on_loss: Option<OnLoss>,
    drop_timeout: Duration,
    correlator: CorrelatorOptions,
    retry: RetryPolicy,
}

impl Default for EventBroadcasterBuilder {
    fn default() -> Self {
        Self {
            bus: BusOptions::default(),
            clock: Clock::system(),
            max_message_len: None,
            event_time: false,
            scrub: None,
            on_loss: None,
            drop_timeout: Duration::from_secs(2),
            correlator: CorrelatorOptions::default(),
            retry: RetryPolicy::default(),
        }
    }
}

impl EventBroadcaster {
    /// Returns a builder that configures a broadcaster's queues, policy, clock, hooks and limits.
    ///
    /// # Examples
    ///
    /// ```
    /// use eventcast::{BusOptions, EventBroadcaster};
    ///
    /// let events = EventBroadcaster::builder().bus(BusOptions::default().queue_capacity(8)).build()?;
    /// assert!(events.shutdown().complete);
    /// # Ok::<(), eventcast::error::BuildError>(())
    /// ```
    pub fn builder() -> EventBroadcasterBuilder {
        EventBroadcasterBuilder::default()
    }
}

impl EventBroadcasterBuilder {
    /// Sets the bus options, such as the queue lengths, the policy for full watcher queues, and the
    /// name of the dispatcher thread. [`build`](Self::build) refuses
    /// [`Evict`](crate::OverflowPolicy::Evict) as the default policy, because that policy would end
    /// recordings and logs. An individual watcher may still use `Evict`.
    ///
    /// If [direct delivery](BusOptions::direct_delivery) is on, a thread that records a lone event
    /// while the only watcher's reader and the dispatcher are asleep delivers the event itself,
    /// which takes up to four allocations, and wakes the reader. If the reader is a task, its waker
    /// is called on the recording thread. Otherwise, the dispatcher delivers the event.
    ///
    /// To create an [inline](EventBroadcaster::new_inline) broadcaster, which has no dispatcher,
    /// set [`BusOptions::inline`] in these options.
    ///
    /// # Examples
    ///
    /// ```
    /// use eventcast::{BusOptions, EventBroadcaster, OverflowPolicy};
    ///
    /// let bus = BusOptions::default().overflow(OverflowPolicy::Wait);
    /// let events = EventBroadcaster::builder().bus(bus).build()?;
    /// let watcher = events.watch_builder().watch()?;
    /// assert_eq!(watcher.stats().policy, Some(OverflowPolicy::Wait));
    ///
    /// let bus = BusOptions::default().overflow(OverflowPolicy::Evict);
    /// let error = EventBroadcaster::builder().bus(bus).build().unwrap_err();
    /// assert_eq!(error.to_string(), "overflow must be a policy that does not end recordings, got evict");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn bus(mut self, options: BusOptions) -> Self {
        self.bus = options;
        self
    }

    /// Sets the clock that determines event times and names, the correlators' windows, retries and
    /// timeouts. Defaults to the system clock.
    ///
    /// A test can set a [`FakeClock`](crate::testing::FakeClock) to control the time. A store has
    /// its own clock (see [`MemorySink::with_clock`](crate::MemorySink::with_clock)).
    ///
    /// # Examples
    ///
    /// ```
    /// use eventcast::testing::FakeClock;
    /// use eventcast::{EventBroadcaster, EventType, MemorySink, ObjectReference};
    /// use std::time::{Duration, SystemTime};
    ///
    /// let clock = FakeClock::new(SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000));
    /// let events = EventBroadcaster::builder().clock(clock.clock()).build()?;
    /// let store = MemorySink::new();
    /// events.record_to(store.clone())?;
    /// events.recorder("doc").event(ObjectReference::new("Pod", "a"), EventType::Normal, "Run", "it runs");
    /// events.shutdown();
    /// assert_eq!(store.events()[0].first_timestamp.unwrap().to_string(), "2023-11-14T22:13:20Z");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn clock(mut self, clock: Clock) -> Self {
        self.clock = clock;
        self
    }

    /// Sets the maximum length of a message in bytes, which must be at least 1. The default is 16
    /// KiB. If events have an [event time](Self::event_time), both the default and the upper limit
    /// are 1024 bytes. A message that exceeds the limit is truncated at a character boundary, ends
    /// with a truncation marker, and is counted.
    ///
    /// The limit applies to events as they are recorded. The message of an aggregate event may be
    /// longer, because a recording adds a 32-byte prefix to the message, or replaces the message
    /// with the result of [`aggregate_message`](CorrelatorOptions::aggregate_message).
    ///
    /// # Examples
    ///
    /// ```
    /// use eventcast::{EventBroadcaster, EventType, MemorySink, ObjectReference};
    ///
    /// let events = EventBroadcaster::builder().max_message_len(32).build()?;
    /// let store = MemorySink::new();
    /// events.record_to(store.clone())?;
    /// let long = "a".repeat(1000);
    /// events.recorder("doc").event(ObjectReference::new("Pod", "a"), EventType::Normal, "Run", long);
    /// events.shutdown();
    /// assert!(store.events()[0].message.len() <= 32);
    /// assert_eq!(events.stats().recorder.truncated, 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn max_message_len(mut self, bytes: usize) -> Self {
        self.max_message_len = Some(bytes);
        self
    }

    /// Sets whether recorded events have an event time, as events.k8s.io/v1 requires. Defaults to
    /// `false`.
    ///
    /// Events with an event time differ from other events as follows:
    ///
    /// - `event_time` holds the time of the event with microsecond precision. The first and last
    ///   timestamps, the count and the source are not set.
    /// - `reporting_controller` is the component of the recorder's source. `reporting_instance` is
    ///   the source's host. If the source has no host, `reporting_instance` consists of the
    ///   component, a dash and the machine's name.
    /// - `action` is the draft's action or, if the draft has no action, the reason.
    /// - A message is limited to 1024 bytes.
    /// - A recording counts an event with an event time in a
    ///   [series](crate::record::RecordingBuilder::series), and does not pass the event to the
    ///   correlator.
    ///
    /// An API server refuses an event with an event time if one of the fields above is invalid. The
    /// recorder therefore refuses such an event immediately, and returns
    /// [`Recorded::Invalid`](crate::Recorded::Invalid), which names the field.
    ///
    /// # Examples
    ///
    /// ```
    /// use eventcast::event::EventField;
    /// use eventcast::{EventBroadcaster, EventType, MemorySink, ObjectReference, Recorded};
    ///
    /// let events = EventBroadcaster::builder().event_time(true).build()?;
    /// let store = MemorySink::new();
    /// events.record_to(store.clone())?;
    /// let pod = ObjectReference::new("Pod", "web-0");
    /// let recorder = events.recorder("example.com/web");
    /// assert!(recorder.event(&pod, EventType::Normal, "Started", "up").is_accepted());
    /// let nobody = events.recorder("not a name");
    /// let refused = nobody.event(&pod, EventType::Normal, "Started", "up");
    /// assert_eq!(refused, Recorded::Invalid(EventField::ReportingController));
    /// events.shutdown();
    ///
    /// let event = &store.events()[0];
    /// assert!(event.event_time().is_some() && event.first_timestamp.is_none());
    /// assert_eq!((event.reporting_controller.as_str(), event.action().as_str()), ("example.com/web", "Started"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[doc(alias = "NewRecorder")]
    #[doc(alias = "events.k8s.io")]
    pub fn event_time(mut self, event_time: bool) -> Self {
        self.event_time = event_time;
        self
    }

    /// Sets a function that rewrites each event before it is published, to remove data that must
    /// not reach a log or a store.
    ///
    /// The function runs on the thread that records the event, so it must be fast. If the function
    /// panics, the event is not recorded.
    ///
    /// If an event is refused before it has been scrubbed, `on_loss` receives only the event's
    /// object, type and reason. The function first scrubs these three fields as a separate event.
    /// If that call also panics, `on_loss` receives none of the fields.
    ///
    /// # Examples
    ///
    /// ```
    /// use eventcast::{EventBroadcaster, EventType, MemorySink, ObjectReference};
    ///
    /// let builder = EventBroadcaster::builder();
    /// let events = builder.scrub(|event| event.message = event.message.replace("hunter2", "***").into()).build()?;
    /// let store = MemorySink::new();
    /// events.record_to(store.clone())?;
    /// events.recorder("doc").event(ObjectReference::new("User", "a"), EventType::Normal, "Login", "with hunter2");
    /// events.shutdown();
    /// assert_eq!(store.events()[0].message, "with ***");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn scrub(mut self, scrub: impl Fn(&mut Event) + Send + Sync + 'static) -> Self {
        self.scrub = Some(Box::new(scrub));
        self
    }

    /// Sets a hook that is called for every event that a recorder, watcher, handler or recording
    /// loses.
    ///
    /// The hook runs on the thread on which the loss happens. A loss can happen on the thread that
    /// records the event, the dispatcher, one of a recording's threads, the thread that reads a
    /// watcher or runs a handler, or the thread that drops the broadcaster. The hook must therefore
    /// be fast, and must not wait for this broadcaster. On an
    /// [inline](EventBroadcaster::new_inline) broadcaster, the hook must also not take a lock that
    /// your program holds while recording. A panic in the hook is counted and has no other effect.
    ///
    /// If a handler or a log panics while handling an event, that event is reported as well, on the
    /// handler's thread, because the handler may not have finished processing the event.
    ///
    /// The following losses are not reported to the hook:
    ///
    /// - Events that are lost when the hook itself records them. Such events are still counted.
    /// - Events that a watcher discards when it is dropped, or when it ends because its handler
    ///   [panicked](crate::WatchBuilder::stop_on_panic).
    /// - Events that are reported to a watcher's own [`on_drop`](crate::WatchBuilder::on_drop)
    ///   hook.
    /// - Events that a correlator's spam filter skips, which is a decision and not a loss.
    ///   [`on_skip`](CorrelatorOptions::on_skip) is called for skipped events.
    ///
    /// If the hook records events through this broadcaster, it can cause a feedback loop, because a
    /// full watcher also loses the event that reports the loss, and the hook is then called again.
    /// In the hook, use a second broadcaster or a channel instead.
    ///
    /// A flood of losses causes a flood of calls to the hook. Either log each [`Loss`] (its
    /// `Display` output names the location and the object), or count the losses and log a total
    /// from time to time.
    ///
    /// If there is no hook and the `tracing` feature is enabled, a warning is logged at most once
    /// per second for each reason.
    ///
    /// # Examples
    ///
    /// ```
    /// use eventcast::record::LossReason;
    /// use eventcast::{EventBroadcaster, EventType, ObjectReference};
    /// use std::sync::mpsc;
    ///
    /// let (report, losses) = mpsc::channel();
    /// let builder = EventBroadcaster::builder();
    /// let events = builder.on_loss(move |loss| drop(report.send((loss.reason, loss.count)))).build()?;
    /// events.close();
    /// events.recorder("doc").event(ObjectReference::new("Pod", "a"), EventType::Normal, "Run", "it runs");
    /// assert_eq!(losses.try_recv(), Ok((LossReason::Closed, 1)));
    /// # Ok::<(), eventcast::error::BuildError>(())
    /// ```
    pub fn on_loss(mut self, hook: impl Fn(&Loss<'_>) + Send + Sync + 'static) -> Self {
        self.on_loss = Some(Box::new(hook));
        self
    }

    /// Sets the maximum time that dropping the broadcaster waits for all accepted events to be
    /// handled. With a timeout of zero, dropping the broadcaster does not wait. Defaults to 2 s.
    ///
    /// When this time has passed, the dropping thread reports to [`on_loss`](Self::on_loss) how
    /// many events each recording has not handled yet. The dropping thread does the same for each
    /// handler and log that was started by one of the broadcaster's own methods. The reported
    /// reason is [`LeftBehind`](crate::record::LossReason::LeftBehind), because these events will
    /// still be handled as long as the process keeps running. With a timeout of zero, the thread
    /// does not report unhandled events.
    ///
    /// # Examples
    ///
    /// ```
    /// use eventcast::{EventBroadcaster, EventType, MemorySink, ObjectReference};
    /// use std::time::Duration;
    ///
    /// let store = MemorySink::new();
    /// let events = EventBroadcaster::builder().drop_timeout(Duration::from_secs(60)).build()?;
    /// events.record_to(store.clone())?;
    /// events.recorder("doc").event(ObjectReference::new("Pod", "a"), EventType::Normal, "Run", "it runs");
    /// drop(events);
    /// assert_eq!(store.len(), 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn drop_timeout(mut self, timeout: Duration) -> Self {
        self.drop_timeout = timeout;
        self
    }

    /// Sets how recordings aggregate, count and defer events. Options set on an individual
    /// recording take precedence.
    ///
    /// # Examples
    ///
    /// ```
    /// use eventcast::{CorrelatorOptions, EventBroadcaster, EventType, MemorySink, ObjectReference};
    ///
    /// let events = EventBroadcaster::builder().correlator(CorrelatorOptions::off()).build()?;
    /// let store = MemorySink::new();
    /// events.record_to(store.clone())?;
    /// let (recorder, pod) = (events.recorder("doc"), ObjectReference::new("Pod", "a"));
    /// for number in 0..100 {
    ///     recorder.event(&pod, EventType::Normal, "Probed", format_args!("probe {number}"));
    /// }
    /// events.shutdown();
    /// assert_eq!(store.len(), 100);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[doc(alias = "NewBroadcasterWithCorrelatorOptions")]
    #[doc(alias = "WithCorrelatorOptions")]
    pub fn correlator(mut self, options: CorrelatorOptions) -> Self {
        self.correlator = options;
        self
    }

    /// Sets when recordings retry a failed operation. A policy set on an individual recording takes
    /// precedence.
    ///
    /// # Examples
    ///
    /// ```
    /// use eventcast::{Event, EventBroadcaster, EventSink, EventType, ObjectReference, RetryPolicy, SinkError};
    /// use std::time::Duration;
    ///
    /// struct Away;
    ///
    /// impl EventSink for Away {
    ///     fn create(&self, _: &Event) -> Result<Event, SinkError> {
    ///         Err(SinkError::retry("not now"))
    ///     }
    ///
    ///     fn patch(&self, _: &Event) -> Result<Event, SinkError> {
    ///         Err(SinkError::retry("not now"))
    ///     }
    /// }
    ///
    /// let policy = RetryPolicy::default().attempts(3).delay(Duration::ZERO);
    /// let events = EventBroadcaster::builder().retry(policy).build()?;
    /// let recording = events.record_to(Away)?;
    /// events.recorder("doc").event(ObjectReference::new("Pod", "a"), EventType::Normal, "Run", "it runs");
    /// events.flush(Duration::from_secs(60))?;
    /// assert_eq!((recording.stats().retried, recording.stats().exhausted), (2, 1));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[doc(alias = "NewBroadcasterForTests")]
    #[doc(alias = "WithSleepDuration")]
    pub fn retry(mut self, policy: RetryPolicy) -> Self {
        self.retry = policy;
        self
    }

    /// Starts the broadcaster.
    ///
    /// # Errors
    ///
    /// Returns an error if the system cannot start a thread, or if an option is out of range, in
    /// which case the error names the option.
    ///
    /// # Examples
    ///
    /// ```
    /// use eventcast::EventBroadcaster;
    ///
    /// let error = EventBroadcaster::builder().max_message_len(0).build().unwrap_err();
    /// assert_eq!(error.to_string(), "max_message_len must be 1 byte or more, got 0");
    /// ```
    pub fn build(self) -> Result<EventBroadcaster, BuildError> {
        let max_message_len = self.checked_message_len()?;
        self.retry.check()?;
        // This correlator is created only to validate the options. Each recording uses a copy of
        // the options.
        EventCorrelator::new(self.correlator.clone())?;
        let (policy, allowed) = (self.bus.overflow, "a policy that does not end recordings");
        BuildError::require(policy != OverflowPolicy::Evict, "overflow", policy, allowed)?;
        self.start(max_message_len, Broadcaster::with_completion)
    }

    /// Starts a broadcaster whose options have already been validated. `start_bus` starts the
    /// broadcaster's bus.
    pub(super) fn start<E>(
        self,
        max_message_len: usize,
        start_bus: impl FnOnce(BusOptions, Clock, Option<Completion<Event>>) -> Result<Broadcaster<Event>, E>,
    ) -> Result<EventBroadcaster, E> {
        let Self { bus, clock, event_time, scrub, on_loss, drop_timeout, correlator, retry, .. } = self;
        let (losses, is_inline) = (Arc::new(LossHook::new(on_loss, &clock)), bus.inline);
        let told = losses.clone();
        let recorder =
            RecorderContext::new(clock.clone(), max_message_len, scrub, event_time, is_inline, told);
        let recording_queue_capacity = is_inline.then(|| both_queues(&bus));
        let bus = start_bus(bus, clock.clone(), recorder.completion())?;
        let shared = Shared {
            recording_queue_capacity,
            recorder: Arc::new(recorder),
            recordings: Recordings::new(bus.downgrade(), clock.clone(), losses.clone()),
            bus,
            losses,
            clock,
            correlator,
            retry,
            drop_timeout,
            handlers: Mutex::new(Vec::new()),
        };
        Ok(EventBroadcaster { shared: Arc::new(shared) })
    }

    /// Returns the maximum message length, or an error if the length is out of range.
    fn checked_message_len(&self) -> Result<usize, BuildError> {
        let (default, most) = if self.event_time {
            (MAX_TIMED_MESSAGE, MAX_TIMED_MESSAGE)
        } else {
            (DEFAULT_MAX_MESSAGE_LEN, usize::MAX)
        };
        let bytes = self.max_message_len.unwrap_or(default);
        BuildError::require(bytes > 0, "max_message_len", bytes, "1 byte or more")?;
        let allowed = format!("1 to {most} bytes if events have an event time");
        BuildError::require(bytes <= most, "max_message_len", bytes, allowed)?;
        Ok(bytes)
    }
}

impl fmt::Debug for EventBroadcasterBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EventBroadcasterBuilder")
            .field("bus", &self.bus)
            .field("max_message_len", &self.max_message_len)
            .field("event_time", &self.event_time)
            .field("drop_timeout", &self.drop_timeout)
            .field("correlator", &self.correlator)
            .field("retry", &self.retry)
            .finish_non_exhaustive()
    }
}
