//! The options of a recording, and its start.

use std::fmt;
use std::time::Duration;

use crate::bus::WatchBuilder;
use crate::error::{BuildError, WatchError};
use crate::policy::OverflowPolicy;
use crate::record::correlator::{CorrelatorOptions, EventCorrelator};
use crate::record::event::Event;
use crate::record::series::{SeriesMemory, SeriesOptions};
use crate::record::sink::{EventSink, SinkError, WriteOrder};
use crate::record::stats::RecordingStats;
use crate::sync::{Arc, Mutex};

use super::alerts::{Alerts, Outage, OutageHook};
use super::breaker::CircuitBreaker;
use super::driver::Driver;
use super::handle::{RecordingHandle, Recordings};
use super::pending::PendingWrites;
use super::retry::{RetryIf, RetryPolicy};
use super::writers::Writers;

/// The largest number of workers that a recording can be asked to have.
const MAX_WORKERS: usize = 256;

/// A builder for a recording that differs from the broadcaster's defaults. [`start`](Self::start)
/// starts the recording.
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
///     .queue_len(100)
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
    watch: WatchBuilder<'b, Event>,
    correlator: CorrelatorOptions,
    series: SeriesChoice,
    retry: RetryPolicy,
    retry_if: Option<RetryIf>,
    on_outage: Option<OutageHook>,
    workers: usize,
    order: Option<WriteOrder>,
    recordings: &'b Recordings,
}

/// How events that have an event time are counted.
#[derive(Debug)]
enum SeriesChoice {
    /// As it suits the order of the writes.
    Default,
    Set(Option<SeriesOptions>),
}

impl<'b> RecordingBuilder<'b> {
    /// Creates a builder from a watcher that reports its own losses.
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
            series: SeriesChoice::Default,
            retry,
            retry_if: None,
            on_outage: None,
            workers: 1,
            order: None,
            recordings,
        }
    }

    /// Sets the name in statistics and errors, and of the recording's thread. The threads that call
    /// the sink have the same name with `1/`, `2/` and so on before it. Default `recording`, then
    /// `recording-2` and so on.
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

    /// Sets how many events wait at most while the sink is slow or fails. 1 to 16,777,216, default
    /// as the broadcaster's. A repeat of an event whose write is pending takes no room, except with
    /// [`WriteOrder::Bus`]. Once as many events wait, further ones are lost, repeats too.
    ///
    /// # Examples
    ///
    /// ```
    /// use eventcast::{EventBroadcaster, MemorySink};
    ///
    /// let events = EventBroadcaster::new()?;
    /// assert!(events.recording().queue_len(64).start(MemorySink::new()).is_ok());
    /// let error = events.recording().queue_len(0).start(MemorySink::new()).unwrap_err();
    /// assert_eq!(error.to_string(), "queue_len must be 1 to 16777216 events, got 0");
    /// # Ok::<(), eventcast::error::BuildError>(())
    /// ```
    pub fn queue_len(mut self, events: usize) -> Self {
        self.watch = self.watch.queue_len(events);
        self
    }

    /// Sets what happens if an event comes while [`queue_len`](Self::queue_len) events wait.
    /// Default as the broadcaster's.
    ///
    /// [`Wait`](OverflowPolicy::Wait) loses nothing. A sink that fails then holds up all watchers
    /// for as long as its writes are tried again, and recorders find the broadcaster full.
    /// [`Evict`](OverflowPolicy::Evict) would end the recording, so `start` refuses it.
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
    /// dispatcher, see [`WatchBuilder::filter`].
    ///
    /// # Examples
    ///
    /// ```
    /// use eventcast::EventType::{Normal, Warning};
    /// use eventcast::{EventBroadcaster, MemorySink, ObjectReference};
    ///
    /// let (events, store) = (EventBroadcaster::new()?, MemorySink::new());
    /// events.recording().filter(|event| event.event_type() == Some(Warning)).start(store.clone())?;
    /// let (recorder, pod) = (events.new_recorder("doc"), ObjectReference::new("Pod", "a"));
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

    /// Sets how events are folded, counted and held back. The clock is the broadcaster's, whatever
    /// the options say.
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
    /// let (recorder, pod) = (events.new_recorder("doc"), ObjectReference::new("Pod", "a"));
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

    /// Sets how events are counted that have an
    /// [event time](crate::record::EventBroadcasterBuilder::event_time). The correlator sees only
    /// events without one.
    ///
    /// Default: the default [`SeriesOptions`]. With [`WriteOrder::Bus`] the default is
    /// [`SeriesUpdate::Always`](crate::record::SeriesUpdate::Always), because a log has each event.
    /// With `None` events are not counted, and each is stored as a new one.
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
    /// let (recorder, pod) = (events.new_recorder("doc"), ObjectReference::new("Pod", "a"));
    /// for _ in 0..3 {
    ///     recorder.event(&pod, EventType::Warning, "BackOff", "restarting");
    /// }
    /// events.shutdown();
    /// assert_eq!(counted.events()[0].series().unwrap().count, 3);
    /// assert_eq!((counted.len(), single.len()), (1, 3));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn series(mut self, options: impl Into<Option<SeriesOptions>>) -> Self {
        self.series = SeriesChoice::Set(options.into());
        self
    }

    /// Sets when a failed write is tried again.
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

    /// Sets which of the errors that the sink calls temporary ([`SinkError::retry`],
    /// [`SinkError::unavailable`]) are worth another attempt: those for which `worth` returns
    /// `true`. If `worth` returns `false`, the event is given up at once, and
    /// counts as exhausted. By default all temporary errors are worth it. `worth` runs on the
    /// recording's thread. If it panics, the event is tried again.
    ///
    /// # Examples
    ///
    /// ```
    /// use eventcast::{EventBroadcaster, MemorySink};
    ///
    /// let events = EventBroadcaster::new()?;
    /// // Only when the store itself says when to come back.
    /// events.recording().retry_if(|error| error.wait().is_some()).start(MemorySink::new())?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn retry_if(mut self, worth: impl FnMut(&SinkError) -> bool + Send + 'static) -> Self {
        self.retry_if = Some(Box::new(worth));
        self
    }

    /// Sets a hook that learns when the store becomes unavailable, and when it answers again: at
    /// the sink's first error that says so ([`SinkError::unavailable`]), and when a call of the
    /// sink has taken longer than one second, which a fake clock does not measure. The hook runs on
    /// the recording's thread. A panic of the hook is caught and counted.
    ///
    /// The statistics say the same: [`RecordingStats::unavailable_since`] and
    /// [`RecordingStats::last_failure`].
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

    /// Sets the order in which the sink gets the writes, and whether it gets all of them. By
    /// default the sink decides ([`EventSink::write_order`]).
    ///
    /// # Examples
    ///
    /// ```
    /// use eventcast::sink::WriteOrder;
    /// use eventcast::{EventBroadcaster, MemorySink, ObjectReference};
    ///
    /// let events = EventBroadcaster::new()?;
    /// let every_one = events.recording().order(WriteOrder::Bus).start(MemorySink::new())?;
    /// let about_pod = events.new_recorder("doc").for_object(ObjectReference::new("Pod", "web-0"));
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

    /// Sets how many threads call the sink, each with its own batch. 1 to 256, default 1. With
    /// [`WriteOrder::Bus`] only 1 is allowed. The recording's own thread never calls the sink.
    ///
    /// More threads help if each write waits for an answer, as over a network. Each thread has its
    /// share of the stored events. It gives their writes to the sink in the order of the events,
    /// except those that are tried again. A call that hangs holds up the share of its thread.
    ///
    /// # Examples
    ///
    /// ```
    /// use eventcast::{EventBroadcaster, EventType, MemorySink, ObjectReference};
    ///
    /// let (events, store) = (EventBroadcaster::new()?, MemorySink::new());
    /// events.recording().workers(4).start(store.clone())?;
    /// let recorder = events.new_recorder("doc");
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

    /// Starts the recording's thread, and those that call the sink.
    ///
    /// # Errors
    ///
    /// - [`WatchError::Stopped`] if the broadcaster is closed.
    /// - [`WatchError::Invalid`] if an option is out of range.
    /// - [`WatchError::Thread`] if the system cannot start a thread.
    /// - [`WatchError::WouldDeadlock`] if this is called on a thread of this broadcaster while the
    ///   incoming queue is full.
    ///
    /// # Blocking
    ///
    /// Only while the incoming queue is full.
    ///
    /// # Examples
    ///
    /// ```
    /// use eventcast::error::WatchError;
    /// use eventcast::{EventBroadcaster, MemorySink};
    ///
    /// let events = EventBroadcaster::new()?;
    /// assert!(events.recording().start(MemorySink::new()).is_ok());
    /// events.shutdown();
    /// assert!(matches!(events.recording().start(MemorySink::new()), Err(WatchError::Stopped)));
    /// # Ok::<(), eventcast::error::BuildError>(())
    /// ```
    pub fn start(self, sink: impl EventSink) -> Result<RecordingHandle, WatchError> {
        let Self { watch, correlator, series, retry, retry_if, on_outage, workers, order, recordings } = self;
        let order = order.unwrap_or_else(|| sink.write_order());
        retry.check()?;
        let series = match series {
            SeriesChoice::Default => Some(SeriesOptions::of(order)),
            SeriesChoice::Set(options) => options,
        };
        series.as_ref().map_or(Ok(()), SeriesOptions::check)?;
        let series = series.map(|options| options.within(sink.ttl()));
        let needed = sink.needed_thread();
        check_workers(workers, order)?;
        let correlator = EventCorrelator::new(correlator.clock(recordings.clock.clone()))?;
        let stats = Arc::new(Mutex::new(RecordingStats::default()));
        let watch = watch.spawn_bulk(|reader| {
            let watch = reader.handle();
            let name = watch.name().to_owned();
            let writers =
                Writers::new(sink, workers, &name, order, &reader.waker()).map_err(WatchError::Thread)?;
            let (stats, losses) = (stats.clone(), recordings.losses.clone());
            // The recording is listed before it runs. A thread that sees what the recording does
            // therefore finds it listed, even a shutdown at this moment.
            recordings.add(RecordingHandle { watch, stats: stats.clone(), needed: needed.clone() });
            let began = recordings.clock.deadline(Duration::ZERO).unwrap_or_default();
            let driver = Driver {
                writers,
                correlator,
                series: SeriesMemory::new(series, began),
                flushes: recordings.flushes.clone(),
                pending: PendingWrites::new(order, workers),
                breaker: CircuitBreaker::default(),
                alerts: Alerts::new(on_outage),
                is_ending: false,
                name,
                clock: recordings.clock.clone(),
                retry,
                retry_if,
                tally: RecordingStats::default(),
                stats,
                losses,
                decided: 0,
                reader,
            };
            Ok(move || driver.run())
        })?;
        Ok(RecordingHandle { watch, stats, needed })
    }
}

fn check_workers(workers: usize, order: WriteOrder) -> Result<(), BuildError> {
    if order == WriteOrder::Bus && workers != 1 {
        return Err(BuildError::new("workers", workers, "1 thread with WriteOrder::Bus"));
    }
    if !(1..=MAX_WORKERS).contains(&workers) {
        return Err(BuildError::new("workers", workers, format_args!("1 to {MAX_WORKERS} threads")));
    }
    Ok(())
}

impl fmt::Debug for RecordingBuilder<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RecordingBuilder")
            .field("watch", &self.watch)
            .field("correlator", &self.correlator)
            .field("series", &self.series)
            .field("retry", &self.retry)
            .field("workers", &self.workers)
            .field("order", &self.order)
            .finish_non_exhaustive()
    }
}
