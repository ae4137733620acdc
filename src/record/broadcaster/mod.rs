//! The entry point of the recorder half: a bus of events, and everything that can be started on it.

mod builder;
mod end;
mod logging;
mod report;
mod shutdown;
mod stats;

use std::convert::Infallible;
use std::fmt;
use std::slice;
use std::time::Duration;

use crate::bus::counters::DropReason;
use crate::bus::{Broadcaster, BusOptions, Delivery, WatchBuilder, WatchHandle};
use crate::clock::Clock;
use crate::error::{BuildError, FlushError, WatchError};
use crate::record::correlator::CorrelatorOptions;
use crate::record::delivery::{RecordingBuilder, RecordingHandle, Recordings, RetryPolicy};
use crate::record::event::{Event, EventSource};
use crate::record::loss::{Loss, LossHook, LossReason};
use crate::record::recorder::{DEFAULT_MAX_MESSAGE_LEN, Recorder, RecorderContext};
use crate::record::sink::EventSink;
use crate::sync::{Arc, Mutex};

pub use builder::EventBroadcasterBuilder;
pub use report::EventBroadcasterReport;
pub use stats::EventBroadcasterStats;

/// A broadcaster that records events and gives each to any number of watchers, logs and sinks, as
/// client-go's event broadcaster does.
///
/// [Recorders](Recorder) never wait, except for the lock of an [inline](Self::new_inline)
/// broadcaster. Each watcher, log and recording has its own queue, so a slow one does not delay
/// another. Events that a full queue loses are counted, and reported to
/// [`on_loss`](EventBroadcasterBuilder::on_loss).
///
/// A clone is another handle of the same broadcaster, and costs one reference count. Recorders,
/// watchers and the handles of handlers and recordings do not keep the broadcaster open.
///
/// A handler, a filter, a sink or a hook that owns a handle keeps the broadcaster open. The drop of
/// another handle is then not the last one, and does not wait. Let such code own a [`Recorder`].
///
/// The drop of the last handle closes the broadcaster. This drop waits at most
/// [`drop_timeout`](EventBroadcasterBuilder::drop_timeout) until all recorded events are handled,
/// so that the last events of a program are not lost. [`shutdown`](Self::shutdown) also reports
/// what became of them. In an async program, await `shutdown_async` before the drop, which then has
/// nothing left to wait for.
///
/// # A sink that needs this thread
///
/// A sink may [need](EventSink::needed_thread) the thread that waits for it, such as a sink whose
/// requests run on the only thread of a runtime. On this thread nothing waits for the sink:
///
/// - `flush` returns [`FlushError::WouldDeadlock`].
/// - `shutdown` and `shutdown_timeout` close the broadcaster, do not wait, and return a report that
///   is not complete. Await `flush_async` and `shutdown_async`.
/// - The drop waits for the other recordings and for the handlers and logs that the broadcaster's
///   own methods have started. The sink's recording continues when the thread is free again.
///
/// # Examples
///
/// `examples/more/hello.rs` in the repository is this as a program.
///
/// ```
/// use eventcast::EventType::{Normal, Warning};
/// use eventcast::{EventBroadcaster, MemorySink, ObjectReference};
///
/// let store = MemorySink::new();
/// let events = EventBroadcaster::new()?;
/// events.log_to(|line| eprintln!("{line}"))?;
/// events.record_to(store.clone())?;
///
/// let recorder = events.recorder("disk-watcher");
/// let disk = ObjectReference::new("Disk", "sda");
/// recorder.event(&disk, Normal, "Mounted", "mounted on /");
/// for percent in [97, 97, 97] {
///     recorder.event(&disk, Warning, "AlmostFull", format_args!("{percent} % are used"));
/// }
///
/// let report = events.shutdown();
/// assert!(report.complete);
/// assert_eq!((report.recordings[0].created, report.recordings[0].updated), (2, 2));
/// assert_eq!(store.events()[1].count, 3);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct EventBroadcaster {
    shared: Arc<Shared>,
}

/// The part of a broadcaster that all its handles share. Its drop closes the broadcaster.
struct Shared {
    bus: Broadcaster<Event>,
    clock: Clock,
    losses: Arc<LossHook>,
    recorder: Arc<RecorderContext>,
    recordings: Recordings,
    correlator: CorrelatorOptions,
    retry: RetryPolicy,
    /// The default length of a recording's queue, if recordings have another one than watchers.
    recording_queue_capacity: Option<usize>,
    drop_timeout: Duration,
    /// The handlers and logs that the broadcaster itself has started, for the drop.
    handlers: Mutex<Vec<WatchHandle>>,
}

/// The largest length of a watcher's queue, in events.
const MAX_QUEUE_CAPACITY: usize = 1 << 24;

/// Returns the default length of a recording's queue on an inline bus. No incoming queue takes a
/// burst there, so the recording's own queue has the capacity of both.
fn both_queues(bus: &BusOptions) -> usize {
    (bus.incoming_capacity + bus.queue_capacity).min(MAX_QUEUE_CAPACITY)
}

impl EventBroadcaster {
    /// Starts a broadcaster with client-go's queues: 1000 incoming events, and 1000 events for each
    /// watcher. A watcher whose queue is full loses the incoming event.
    ///
    /// # Errors
    ///
    /// Returns an error if the system cannot start a thread.
    ///
    /// # Examples
    ///
    /// ```
    /// use eventcast::{EventBroadcaster, MemorySink, ObjectReference};
    ///
    /// let store = MemorySink::new();
    /// let events = EventBroadcaster::new()?;
    /// events.record_to(store.clone())?;
    /// events.recorder("runner").normal(ObjectReference::new("Job", "backup"), "Done", "backed up");
    /// drop(events);
    /// assert_eq!(store.len(), 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[doc(alias = "NewBroadcaster")]
    pub fn new() -> Result<Self, BuildError> {
        Self::builder().build()
    }

    /// Builds an inline broadcaster with the defaults: one without a dispatcher. A recorder offers
    /// each event to the watchers, logs and recordings itself, under a lock. This cannot fail,
    /// because it starts no thread. For other options, set [`BusOptions::inline`].
    ///
    /// It suits a program that records a few events an hour, which needs no thread to pass them on,
    /// and a test, because an event is in every queue when the recorder returns. Logs, handlers and
    /// recordings still run on their own threads, so a slow log or store delays no recorder. What
    /// they do with an event is the same. What differs:
    ///
    /// - A recorder waits for the lock, and so for the code that runs inside another call: the
    ///   filters of watchers and recordings, and the hooks for lost events. It waits for no
    ///   capacity, handler or sink. `scrub` runs before the lock is taken.
    /// - Filters and hooks run on the thread that records. They must be quick, and must take no
    ///   lock that your program holds while it records. [`Broadcaster::new_inline`] has the
    ///   details, also for a filter that records.
    /// - There is no incoming queue to fill up. A recorder gets
    ///   [`Recorded::Full`](crate::Recorded::Full) if a watcher or recording with
    ///   [`Wait`](crate::OverflowPolicy::Wait) has no capacity, or one with
    ///   [`WaitFor`](crate::OverflowPolicy::WaitFor) whose limit has not passed. Nothing gets the
    ///   event then. It is counted in [`RecorderStats::full`](crate::stats::RecorderStats::full)
    ///   and reported to `on_loss`.
    /// - The queue of a recording is by default as long as both queues of a broadcaster with a
    ///   dispatcher together: 2000 events. Logs and watchers have queues of 1000.
    ///
    /// # Examples
    ///
    /// ```
    /// use eventcast::{EventBroadcaster, MemorySink, ObjectReference};
    /// use std::time::Duration;
    ///
    /// let store = MemorySink::new();
    /// let events = EventBroadcaster::new_inline();
    /// let mut watcher = events.watch_builder().watch()?;
    /// events.record_to(store.clone())?;
    /// let job = ObjectReference::new("Job", "backup");
    /// events.recorder("runner").normal(job, "Done", "backed up");
    /// // The event is in the watcher's queue. The recording stores it on another thread.
    /// assert_eq!(watcher.try_recv()?.event().unwrap().reason, "Done");
    /// events.flush(Duration::from_secs(10))?;
    /// assert_eq!(store.len(), 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[doc(alias = "inline")]
    pub fn new_inline() -> Self {
        // The options are the builder's defaults, so they need no check.
        let bus = |_, _, _| Ok::<_, Infallible>(Broadcaster::new_inline());
        let Ok(events) =
            Self::builder().bus(BusOptions::default().inline(true)).start(DEFAULT_MAX_MESSAGE_LEN, bus);
        events
    }

    /// Returns a recorder that records in the name of `source`: a component's name, or a
    /// component's name and a host's.
    ///
    /// # Examples
    ///
    /// ```
    /// use eventcast::{EventBroadcaster, EventSource, ObjectReference};
    ///
    /// let events = EventBroadcaster::new()?;
    /// let mut watcher = events.watch_builder().watch()?;
    /// let recorder = events.recorder(EventSource::from("kubelet").on_host("node-1"));
    /// recorder.normal(ObjectReference::new("Pod", "web-0"), "Started", "up");
    /// events.close();
    /// let event = watcher.events().next().unwrap();
    /// assert_eq!((event.source.component.as_str(), event.source.host.as_str()), ("kubelet", "node-1"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[doc(alias = "NewRecorder")]
    pub fn recorder(&self, source: impl Into<EventSource>) -> Recorder {
        Recorder::new(self.shared.bus.publisher(), source.into(), self.shared.recorder.clone())
    }

    /// Returns a builder for a watcher of the events as they were recorded, with its own queue,
    /// policy and filter. The builder can also start a handler.
    ///
    /// The watcher's losses are reported to `on_loss`, and so is an event at which its handler
    /// panics. If the watcher gets its own [`on_drop`](WatchBuilder::on_drop), the losses that this
    /// hook learns of are not reported to `on_loss`.
    ///
    /// # Examples
    ///
    /// ```
    /// use eventcast::{EventBroadcaster, EventType, ObjectReference};
    ///
    /// let events = EventBroadcaster::new()?;
    /// let builder = events.watch_builder().name("alerts");
    /// let mut alerts = builder.filter(|event| event.event_type() == Some(EventType::Warning)).watch()?;
    /// let about_pod = events.recorder("kubelet").for_object(ObjectReference::new("Pod", "web-0"));
    /// about_pod.normal("Started", "up");
    /// about_pod.warning("BackOff", "restarting");
    /// events.close();
    /// assert_eq!(alerts.events().map(|event| event.reason).collect::<Vec<_>>(), ["BackOff"]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn watch_builder(&self) -> WatchBuilder<'_, Event> {
        let (dropped, abandoned, panicked) =
            (self.shared.losses.clone(), self.shared.losses.clone(), self.shared.losses.clone());
        // This hook runs on the dispatcher, or inside a call of an inline bus. Lock order:
        // `SharedIntake::intake` before `Warnings::silent`. Lock order: `InlineFront::core` before
        // `Warnings::silent`.
        let builder = self.shared.bus.watch_builder().on_drop_named(move |name, reason, events| {
            dropped.tell(&Loss::new(LossReason::Dropped(reason), name, events));
        });
        let builder = builder.on_abandon(move |name, count| {
            abandoned.tell(&Loss::of(LossReason::Dropped(DropReason::Abandoned), name, count));
        });
        builder.on_panic(move |name, delivery| {
            // The events of a gap were reported when they were lost.
            if let Delivery::Event(event) = delivery {
                panicked.tell(&Loss::new(LossReason::HandlerPanicked, name, slice::from_ref(event)));
            }
        })
    }

    /// Calls `handler` with each event, one after the other, on a separate thread. A panic in the
    /// handler is caught, counted and reported to `on_loss`, and the handler continues with the
    /// next event.
    ///
    /// For a filter, a queue of another length, or to learn of gaps, use the
    /// [`spawn`](WatchBuilder::spawn) of a [`watch_builder`](Self::watch_builder).
    ///
    /// # Errors
    ///
    /// Returns the errors of [`WatchBuilder::spawn`].
    ///
    /// # Blocking
    ///
    /// As [`WatchBuilder::watch`].
    ///
    /// # Examples
    ///
    /// ```
    /// use eventcast::{EventBroadcaster, ObjectReference};
    /// use std::sync::mpsc;
    ///
    /// let events = EventBroadcaster::new()?;
    /// let (tx, reasons) = mpsc::channel();
    /// events.spawn(move |event| tx.send(event.reason.clone()).unwrap())?;
    /// events.recorder("kubelet").normal(ObjectReference::new("Pod", "web-0"), "Started", "up");
    /// events.shutdown();
    /// assert_eq!(reasons.recv()?, "Started");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[doc(alias = "StartEventWatcher")]
    #[doc(alias = "StartStructuredLogging")]
    pub fn spawn(&self, mut handler: impl FnMut(&Event) + Send + 'static) -> Result<WatchHandle, WatchError> {
        let handle = self.watch_builder().spawn(move |delivery| {
            if let Delivery::Event(event) = delivery {
                handler(event);
            }
        })?;
        Ok(self.shared.listed(handle))
    }

    /// Starts a recording, which correlates events on one thread and writes them to a sink on
    /// another one. A write carries the whole state of a stored event, with its count. If the event
    /// repeats before it is written, the repeat shares the write. The states of one event reach the
    /// sink in order. The recording retries a write if that can help.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`RecordingBuilder::start`].
    ///
    /// # Blocking
    ///
    /// As [`WatchBuilder::watch`].
    ///
    /// # Examples
    ///
    /// ```
    /// use eventcast::{EventBroadcaster, MemorySink, ObjectReference};
    ///
    /// let store = MemorySink::new();
    /// let events = EventBroadcaster::new()?;
    /// let recording = events.record_to(store.clone())?;
    /// let about_pod = events.recorder("kubelet").for_object(ObjectReference::new("Pod", "web-0"));
    /// for _ in 0..3 {
    ///     about_pod.warning("BackOff", "restarting");
    /// }
    /// events.shutdown();
    /// assert_eq!(store.events()[0].count, 3);
    /// assert_eq!((recording.stats().created, recording.stats().updated), (1, 2));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[doc(alias = "StartRecordingToSink")]
    pub fn record_to(&self, sink: impl EventSink) -> Result<RecordingHandle, WatchError> {
        self.recording().start(sink)
    }

    /// Returns a builder for a recording with its own correlator, retries, queue, policy, filter
    /// and name.
    ///
    /// # Examples
    ///
    /// ```
    /// use eventcast::{EventBroadcaster, EventType, MemorySink, ObjectReference};
    ///
    /// let store = MemorySink::new();
    /// let events = EventBroadcaster::new()?;
    /// let recording = events.recording().name("alerts");
    /// let is_warning = |event: &eventcast::Event| event.event_type() == Some(EventType::Warning);
    /// recording.filter(is_warning).start(store.clone())?;
    /// events.recorder("kubelet").normal(ObjectReference::new("Pod", "web-0"), "Started", "up");
    /// assert_eq!(events.shutdown().recordings[0].watcher.name, "alerts");
    /// assert!(store.is_empty());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn recording(&self) -> RecordingBuilder<'_> {
        let mut watch = self.watch_builder();
        if let Some(events) = self.shared.recording_queue_capacity {
            watch = watch.queue_capacity(events);
        }
        RecordingBuilder::new(
            watch,
            self.shared.correlator.clone(),
            self.shared.retry,
            &self.shared.recordings,
        )
    }

    /// Waits until every event recorded before this call has been handled by every handler and log,
    /// and has been written, skipped or given up by every recording. See [`Broadcaster::flush`].
    ///
    /// # Errors
    ///
    /// Returns the errors of [`Broadcaster::flush`].
    ///
    /// # Blocking
    ///
    /// Waits at most `timeout`. In an async task, use `flush_async`.
    ///
    /// # Examples
    ///
    /// ```
    /// use eventcast::{EventBroadcaster, MemorySink, ObjectReference};
    /// use std::time::Duration;
    ///
    /// let store = MemorySink::new();
    /// let events = EventBroadcaster::new()?;
    /// events.record_to(store.clone())?;
    /// events.recorder("kubelet").normal(ObjectReference::new("Pod", "web-0"), "Started", "up");
    /// events.flush(Duration::from_secs(10))?;
    /// assert_eq!(store.len(), 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn flush(&self, timeout: Duration) -> Result<(), FlushError> {
        let _flush = self.shared.recordings.begin_flush();
        self.shared.waiting(|bus| bus.flush(timeout))
    }

    /// Waits as [`flush`](Self::flush) does, for a task. See [`Broadcaster::flush_async`].
    ///
    /// # Errors
    ///
    /// Returns the errors of [`flush`](Self::flush).
    ///
    /// # Examples
    ///
    /// ```
    /// use eventcast::{EventBroadcaster, MemorySink, ObjectReference};
    /// use std::time::Duration;
    ///
    /// let store = MemorySink::new();
    /// let events = EventBroadcaster::new()?;
    /// events.record_to(store.clone())?;
    /// events.recorder("runner").normal(ObjectReference::new("Job", "backup"), "Done", "backed up");
    /// futures::executor::block_on(events.flush_async(Duration::from_secs(10)))?;
    /// assert_eq!(store.len(), 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn flush_async(&self, timeout: Duration) -> impl Future<Output = Result<(), FlushError>> + Send {
        async move {
            let _flush = self.shared.recordings.begin_flush();
            self.shared.bus.flush_async(timeout).await
        }
    }

    /// Returns the counters so far.
    pub fn stats(&self) -> EventBroadcasterStats {
        EventBroadcasterStats {
            bus: self.shared.bus.stats(),
            recorder: self.shared.recorder.stats(),
            recordings: self.shared.recordings.stats(),
        }
    }
}

impl fmt::Debug for EventBroadcaster {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EventBroadcaster").field("bus", &self.shared.bus).finish_non_exhaustive()
    }
}
