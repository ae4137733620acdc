//! Recordings. Each takes events from its own watcher, correlates them, and writes them to a sink.
//!
//! A recording is a handler of the bus, on its own thread, so flush and shutdown wait for it as for
//! any other. It has its own correlator, so two sinks count independently. It decides about one
//! event after the other, in order, and has the sink write in one call what came together. An event
//! that has not been written counts against the watcher's queue. The pauses between attempts end at
//! once when the recording is stopped or the bus is closed. From then on every event that is left
//! gets one attempt.

mod alerts;
mod breaker;
mod driver;
mod in_flight;
mod retry;
mod workers;
mod write;

use std::fmt;
use std::time::Duration;

use crate::bus::{WatchBuilder, WatchHandle};
use crate::clock::Clock;
use crate::error::{BuildError, WatchError};
use crate::policy::OverflowPolicy;
use crate::record::correlator::{CorrelatorOptions, EventCorrelator};
use crate::record::event::Event;
use crate::record::loss::LossHook;
use crate::record::sink::{EventSink, SinkError};
use crate::record::stats::RecordingStats;
use crate::sync::{Arc, Mutex};

use driver::{Driver, Parts};
use retry::RetryIf;
use workers::Workers;

pub use retry::{Jitter, RetryPolicy};

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
    retry: RetryPolicy,
    retry_if: Option<RetryIf>,
    workers: usize,
    recordings: &'b Recordings,
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
        Self { watch, correlator, retry, retry_if: None, workers: 1, recordings }
    }

    /// Sets the name in statistics and errors, and of the thread. Default `recording`, then
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
    /// as the broadcaster's.
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
    ///
    /// # Examples
    ///
    /// ```
    /// use eventcast::{EventBroadcaster, MemorySink, OverflowPolicy};
    ///
    /// let events = EventBroadcaster::new()?;
    /// let recording = events.recording().overflow(OverflowPolicy::DropOldest).start(MemorySink::new())?;
    /// assert_eq!(recording.stats().watcher.policy, Some(OverflowPolicy::DropOldest));
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

    /// Sets which of the errors that the sink calls temporary are worth another attempt: those for
    /// which `worth` returns `true`. If `worth` returns `false`, the event is given up at once, and
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

    /// Sets how many threads call the sink, each with its own batch. 1 to 256, default 1: the
    /// recording's own thread.
    ///
    /// More threads help if each write waits for an answer, as over a network. One thread writes in
    /// the order of the events, except those that are tried again. Of several threads, each keeps
    /// the order of the events that are correlated to one event, because these always go to the
    /// same thread.
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

    /// Starts the recording's thread, and those of its workers.
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
        let Self { watch, correlator, retry, retry_if, workers, recordings } = self;
        retry.check()?;
        if !(1..=MAX_WORKERS).contains(&workers) {
            return Err(
                BuildError::new("workers", workers, format_args!("1 to {MAX_WORKERS} threads")).into()
            );
        }
        let correlator = EventCorrelator::new(correlator.clock(recordings.clock.clone()))?;
        let stats = Arc::new(Mutex::new(RecordingStats::default()));
        let watch = watch.spawn_bulk(|reader| {
            let watch = reader.handle();
            let name = watch.name().to_owned();
            let workers = Workers::new(sink, workers, &name, &reader.waker()).map_err(WatchError::Thread)?;
            let (stats, losses) = (stats.clone(), recordings.losses.clone());
            // The recording is listed before it runs. A thread that sees what the recording does
            // therefore finds it listed, even a shutdown at this moment.
            recordings.add(RecordingHandle { watch, stats: stats.clone() });
            let clock = recordings.clock.clone();
            let driver = Driver::new(Parts {
                workers,
                correlator,
                name,
                clock,
                retry,
                retry_if,
                stats,
                losses,
                reader,
            });
            Ok(move || driver.run())
        })?;
        Ok(RecordingHandle { watch, stats })
    }
}

impl fmt::Debug for RecordingBuilder<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RecordingBuilder")
            .field("watch", &self.watch)
            .field("correlator", &self.correlator)
            .field("retry", &self.retry)
            .field("workers", &self.workers)
            .finish_non_exhaustive()
    }
}

/// A handle to a running recording. If the handle is dropped, the recording runs on until the
/// broadcaster ends.
///
/// # Examples
///
/// ```
/// use eventcast::{EventBroadcaster, EventType, MemorySink, ObjectReference};
/// use std::time::Duration;
///
/// let (events, store) = (EventBroadcaster::new()?, MemorySink::new());
/// let recording = events.start_recording_to_sink(store.clone())?;
/// let (recorder, pod) = (events.new_recorder("doc"), ObjectReference::new("Pod", "a"));
/// recorder.event(&pod, EventType::Normal, "Run", "it runs");
/// events.flush(Duration::from_secs(60))?;
/// recording.stop();
/// assert!(recording.join(Duration::from_secs(60)));
///
/// recorder.event(&pod, EventType::Normal, "Stopped", "nobody stores this");
/// events.shutdown();
/// assert_eq!((store.len(), recording.stats().created), (1, 1));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct RecordingHandle {
    watch: WatchHandle,
    stats: Arc<Mutex<RecordingStats>>,
}

impl RecordingHandle {
    /// Ends the recording, without waiting. The recording is offered nothing more, and each queued
    /// event gets one attempt.
    ///
    /// # Examples
    ///
    /// ```
    /// use eventcast::{EventBroadcaster, MemorySink};
    /// use std::time::Duration;
    ///
    /// let events = EventBroadcaster::new()?;
    /// let [first, second] = [(); 2].map(|()| events.start_recording_to_sink(MemorySink::new()));
    /// let (first, second) = (first?, second?);
    /// first.stop();
    /// assert!(first.join(Duration::from_secs(60)));
    /// assert!(!second.join(Duration::ZERO), "the other recording runs on");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn stop(&self) {
        self.watch.stop();
    }

    /// Waits until the recording has ended, and returns `true`. Returns `false` at the timeout. On
    /// a thread of the same broadcaster the call does not wait.
    ///
    /// # Blocking
    ///
    /// At most `timeout`.
    ///
    /// # Examples
    ///
    /// ```
    /// use eventcast::{EventBroadcaster, MemorySink};
    /// use std::time::Duration;
    ///
    /// let events = EventBroadcaster::new()?;
    /// let recording = events.start_recording_to_sink(MemorySink::new())?;
    /// assert!(!recording.join(Duration::ZERO));
    /// events.close();
    /// assert!(recording.join(Duration::from_secs(60)));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn join(&self, timeout: Duration) -> bool {
        self.watch.join(timeout)
    }

    /// Returns what the recording has done so far.
    ///
    /// # Examples
    ///
    /// ```
    /// use eventcast::{EventBroadcaster, EventType, MemorySink, ObjectReference};
    /// use std::time::Duration;
    ///
    /// let events = EventBroadcaster::new()?;
    /// let recording = events.start_recording_to_sink(MemorySink::new())?;
    /// let (recorder, pod) = (events.new_recorder("doc"), ObjectReference::new("Pod", "a"));
    /// for _ in 0..30 {
    ///     recorder.event(&pod, EventType::Warning, "BackOff", "restarting");
    /// }
    /// events.flush(Duration::from_secs(60))?;
    /// let stats = recording.stats();
    /// assert_eq!((stats.created, stats.updated, stats.skipped), (1, 24, 5));
    /// assert_eq!(stats.handled(), stats.watcher.delivered);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn stats(&self) -> RecordingStats {
        // The watcher's counters are read first, so that each delivered event has its outcome, or
        // waits with another.
        let watcher = self.watch.stats();
        RecordingStats { watcher, ..self.stats.lock().clone() }
    }
}

impl fmt::Debug for RecordingHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RecordingHandle").field("stats", &self.stats()).finish()
    }
}

/// All recordings that a broadcaster has started.
pub(crate) struct Recordings {
    clock: Clock,
    losses: Arc<LossHook>,
    list: Mutex<List>,
}

#[derive(Default)]
struct List {
    /// The number of recordings that were to be started, for the default names.
    named: u64,
    /// The listed recordings, in the order of their start.
    recordings: Vec<RecordingHandle>,
    /// The sum of the recordings that have ended and are no longer listed.
    departed: Option<RecordingStats>,
}

/// The number of listed recordings, including ended ones, at which the ended ones are added up.
const LISTED: usize = 64;

impl Recordings {
    pub(crate) fn new(clock: Clock, losses: Arc<LossHook>) -> Self {
        Self { clock, losses, list: Mutex::new(List::default()) }
    }

    fn next_name(&self) -> String {
        let mut list = self.list.lock();
        list.named += 1;
        if list.named == 1 { "recording".to_owned() } else { format!("recording-{}", list.named) }
    }

    fn add(&self, recording: RecordingHandle) {
        let mut list = self.list.lock();
        if list.recordings.len() >= LISTED {
            let (ended, running): (Vec<_>, Vec<_>) =
                list.recordings.drain(..).partition(|recording| recording.watch.is_finished());
            list.recordings = running;
            let departed = list.departed.get_or_insert_default();
            "departed".clone_into(&mut departed.watcher.name);
            for recording in ended {
                departed.add(&recording.stats());
            }
        }
        list.recordings.push(recording);
    }

    /// Returns what each recording has done so far. Those that ended long ago are added up in the
    /// first.
    pub(crate) fn stats(&self) -> Vec<RecordingStats> {
        let list = self.list.lock();
        list.departed.iter().cloned().chain(list.recordings.iter().map(RecordingHandle::stats)).collect()
    }
}
