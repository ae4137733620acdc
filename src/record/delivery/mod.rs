//! Recordings: each takes events from a watcher of its own, correlates them, and writes them to a sink.
//!
//! A recording is a handler of the bus, on a thread of its own, so flush and shutdown wait for it as for any other; and
//! it has a correlator of its own, so two sinks count independently. It decides about one event after the other, in
//! order, and has the sink write what came together in one go. An event that has not been written counts against the
//! watcher's queue. The pauses between attempts end at once when the recording is stopped or the bus is closed, and from
//! then on every event that is left gets one attempt.

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

/// The most workers that a recording can be asked to have.
const MAX_WORKERS: usize = 256;

/// Makes a recording that differs from the broadcaster's defaults. Ends in [`start`](Self::start).
///
/// # Examples
///
/// ```
/// use eventcast::{CorrelatorOptions, EventBroadcaster, MemorySink, OverflowPolicy, RetryPolicy};
/// use std::time::Duration;
///
/// let mut retry = RetryPolicy::default();
/// retry.delay = Duration::from_millis(100);
/// let mut correlator = CorrelatorOptions::default();
/// correlator.spam_filter = None;
///
/// let events = EventBroadcaster::new()?;
/// let recording = events
///     .recording()
///     .name("warnings")
///     .queue_len(100)
///     .overflow(OverflowPolicy::DropOldest)
///     .filter(|event| event.type_ == "Warning")
///     .correlator(correlator)
///     .retry(retry)
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
    /// From a watcher that tells itself of what it loses.
    pub(crate) fn new(
        watch: WatchBuilder<'b, Event>,
        correlator: CorrelatorOptions,
        retry: RetryPolicy,
        recordings: &'b Recordings,
    ) -> Self {
        let watch = watch.name(&recordings.next_name());
        Self { watch, correlator, retry, retry_if: None, workers: 1, recordings }
    }

    /// The name in statistics and errors, and of the thread. Default `recording`, then `recording-2` and so on.
    pub fn name(mut self, name: &str) -> Self {
        self.watch = self.watch.name(name);
        self
    }

    /// How many events wait at most while the sink is slow or fails. 1 to 16,777,216, default as the broadcaster's.
    pub fn queue_len(mut self, events: usize) -> Self {
        self.watch = self.watch.queue_len(events);
        self
    }

    /// What happens when that many wait. Default as the broadcaster's.
    ///
    /// [`Wait`](OverflowPolicy::Wait) loses nothing, but a sink that fails then holds up all watchers for as long as it
    /// is tried again, and recorders find the broadcaster full.
    pub fn overflow(mut self, policy: OverflowPolicy) -> Self {
        self.watch = self.watch.overflow(policy);
        self
    }

    /// Events for which `keep` is false are not recorded. It runs on the dispatcher, see [`WatchBuilder::filter`].
    pub fn filter(mut self, keep: impl FnMut(&Event) -> bool + Send + 'static) -> Self {
        self.watch = self.watch.filter(keep);
        self
    }

    /// How events are folded, counted and held back. The clock is the broadcaster's, whatever the options say.
    #[doc(alias = "WithCorrelatorOptions")]
    pub fn correlator(mut self, options: CorrelatorOptions) -> Self {
        self.correlator = options;
        self
    }

    /// When a failed write is tried again.
    #[doc(alias = "WithSleepDuration")]
    pub fn retry(mut self, policy: RetryPolicy) -> Self {
        self.retry = policy;
        self
    }

    /// Which of the errors that the sink calls temporary are worth another attempt: those for which `worth` is true. The
    /// others are given up at once, and count as exhausted. Default all. It runs on the recording's thread; if it panics,
    /// the event is tried again.
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

    /// How many threads call the sink, each with a batch of its own. 1 to 256, default 1: the recording's own thread.
    ///
    /// More are of use where each write waits for an answer, as over a network. One thread writes in the order of the
    /// events, but for what is tried again; of several each keeps the order of what is correlated to one event, which
    /// always goes to the same one.
    pub fn workers(mut self, workers: usize) -> Self {
        self.workers = workers;
        self
    }

    /// Starts the recording's thread, and those of its workers.
    ///
    /// # Errors
    ///
    /// [`WatchError::Stopped`] when the broadcaster is closed, [`WatchError::Invalid`] for an option out of range,
    /// [`WatchError::Thread`] when the system gives no thread, [`WatchError::WouldDeadlock`] on a thread of this
    /// broadcaster while the incoming queue is full.
    ///
    /// # Blocking
    ///
    /// Only while the incoming queue is full.
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
            // Before it runs: whoever sees what it does finds it listed, a shutdown at this moment among them.
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

/// A recording that runs. Dropping the handle leaves it running until the broadcaster ends.
#[derive(Clone)]
pub struct RecordingHandle {
    watch: WatchHandle,
    stats: Arc<Mutex<RecordingStats>>,
}

impl RecordingHandle {
    /// Ends the recording: nothing more is offered to it, and what is queued gets one attempt each. Never waits.
    pub fn stop(&self) {
        self.watch.stop();
    }

    /// Waits until it has ended; false at the timeout. On a thread of the same broadcaster it does not wait.
    ///
    /// # Blocking
    ///
    /// At most `timeout`.
    pub fn join(&self, timeout: Duration) -> bool {
        self.watch.join(timeout)
    }

    /// What it has done so far.
    pub fn stats(&self) -> RecordingStats {
        // In this order, so that what was delivered has its outcome, or waits with another.
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
    /// How many were to be started.
    named: u64,
    /// In the order of their start.
    recordings: Vec<RecordingHandle>,
    /// The sum of those that have ended and are no longer listed.
    departed: Option<RecordingStats>,
}

/// How many recordings are listed, those that have ended among them, before these are added up.
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

    /// What each has done so far, those that ended long ago added up in the first.
    pub(crate) fn stats(&self) -> Vec<RecordingStats> {
        let list = self.list.lock();
        list.departed.iter().cloned().chain(list.recordings.iter().map(RecordingHandle::stats)).collect()
    }
}
