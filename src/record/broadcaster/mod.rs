//! The entry point of the recorder half of the library, which is an event bus and everything that
//! can be started on that bus.

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
use crate::bus::slow::SlowNotice;
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

/// A broadcaster that records events and delivers each event to any number of watchers, logs and
/// sinks, like client-go's event broadcaster.
///
/// [Recorders](Recorder) never wait, except for an [inline](Self::new_inline) broadcaster's lock.
/// Each watcher, log and recording has its own queue, so a slow watcher, log or recording does not
/// delay the others. Events that are lost because a queue is full are counted, and reported to
/// [`on_loss`](EventBroadcasterBuilder::on_loss).
///
/// Cloning a broadcaster returns another handle to the same broadcaster, and only increments a
/// reference count. Recorders, watchers, and handles to handlers and recordings do not keep the
/// broadcaster open.
///
/// If a handler, filter, sink or hook owns a handle, that handle keeps the broadcaster open. As
/// long as that handle exists, no other handle is the last one, so dropping the other handles does
/// not wait. Handlers, filters, sinks and hooks should therefore own a [`Recorder`] instead.
///
/// Dropping the last handle closes the broadcaster and waits at most
/// [`drop_timeout`](EventBroadcasterBuilder::drop_timeout) for all recorded events to be handled,
/// so that a program's last events are not lost. [`shutdown`](Self::shutdown) also reports the
/// outcome. In an async program, await `shutdown_async` first, so that dropping the handle has
/// nothing left to wait for.
///
/// # A sink that needs this thread
///
/// A sink may [need](EventSink::needed_thread) the very thread that is waiting for the sink, for
/// example if the sink's requests run on a single-threaded runtime. On a thread that a sink needs,
/// no call waits for that sink:
///
/// - `flush` returns [`FlushError::WouldDeadlock`].
/// - `shutdown` and `shutdown_timeout` close the broadcaster without waiting, and return an
///   incomplete report. Await `flush_async` and `shutdown_async` instead.
/// - Dropping the last handle waits for the other recordings and for the handlers and logs that
///   were started by the broadcaster's own methods. The recording that writes to the sink continues
///   when the thread is free again.
///
/// # Examples
///
/// `examples/more/hello.rs` in the repository contains this example as a complete program.
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

/// The state that all handles to a broadcaster share. Dropping the shared state closes the
/// broadcaster.
struct Shared {
    bus: Broadcaster<Event>,
    clock: Clock,
    losses: Arc<LossHook>,
    recorder: Arc<RecorderContext>,
    recordings: Recordings,
    correlator: CorrelatorOptions,
    retry: RetryPolicy,
    /// The default length of a recording's queue, if it differs from the length of a watcher's
    /// queue.
    recording_queue_capacity: Option<usize>,
    drop_timeout: Duration,
    /// The handlers and logs that were started by the broadcaster's own methods. Dropping the
    /// broadcaster waits for these handlers and logs.
    handlers: Mutex<Vec<WatchHandle>>,
}

/// The maximum length of a watcher's queue, in events.
const MAX_QUEUE_CAPACITY: usize = 1 << 24;

/// Returns the default length of a recording's queue on an inline bus. An inline bus has no
/// incoming queue to absorb a burst, so the recording's own queue has the combined capacity of an
/// incoming queue and a watcher's queue.
fn both_queues(bus: &BusOptions) -> usize {
    (bus.incoming_capacity + bus.queue_capacity).min(MAX_QUEUE_CAPACITY)
}

impl EventBroadcaster {
    /// Starts a broadcaster with client-go's queue lengths, which are 1000 incoming events, and
    /// 1000 events for each watcher. If a watcher's queue is full, the watcher loses the incoming
    /// event.
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

    /// Creates an inline broadcaster with the default options. An inline broadcaster has no
    /// dispatcher. Instead, the recorder itself offers each event to the watchers, logs and
    /// recordings, while holding a lock. This function cannot fail, because it does not start a
    /// thread. To use other options, set [`BusOptions::inline`] in a builder.
    ///
    /// An inline broadcaster suits a program that records only a few events an hour and does not
    /// need a thread to dispatch them. An inline broadcaster also suits tests, because each event
    /// is already in every queue when the recorder returns. Logs, handlers and recordings still run
    /// on their own threads and process events in the same way, so a slow log or store does not
    /// delay a recorder. The differences from a broadcaster with a dispatcher are:
    ///
    /// - A recorder waits for the lock, and therefore for code that another call runs while holding
    ///   the lock. This code consists of the filters of watchers and recordings, and the hooks for
    ///   lost events. A recorder does not wait for capacity, a handler or a sink. `scrub` runs
    ///   before the lock is taken.
    /// - Filters and hooks run on the thread that records the event. Filters and hooks must be
    ///   fast, and must not take a lock that your program holds while recording. See
    ///   [`Broadcaster::new_inline`] for details, including details about filters that record
    ///   events.
    /// - There is no incoming queue that could fill up. Instead, a recorder gets
    ///   [`Recorded::Full`](crate::Recorded::Full) if a watcher or recording with the policy
    ///   [`Wait`](crate::OverflowPolicy::Wait) has no capacity, or if a watcher or recording with
    ///   the policy [`WaitFor`](crate::OverflowPolicy::WaitFor) has no capacity and its time limit
    ///   has not passed. In that case, no watcher, log or recording receives the event. The event
    ///   is counted in [`RecorderStats::full`](crate::stats::RecorderStats::full) and reported to
    ///   `on_loss`.
    /// - By default, a recording's queue holds 2000 events, which is the combined capacity of the
    ///   two queues of a broadcaster with a dispatcher. Logs and watchers have queues of 1000
    ///   events.
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
        // The options are the builder's defaults, so they do not need to be validated.
        let bus = |_, _, _| Ok::<_, Infallible>(Broadcaster::new_inline());
        let Ok(events) =
            Self::builder().bus(BusOptions::default().inline(true)).start(DEFAULT_MAX_MESSAGE_LEN, bus);
        events
    }

    /// Returns a recorder that records events on behalf of `source`, which names a component and
    /// optionally a host.
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

    /// Returns a builder for a watcher that receives events as they were recorded and has its own
    /// queue, policy and filter. The builder can also start a handler.
    ///
    /// The watcher's losses are reported to `on_loss`, as is any event on which the watcher's
    /// handler panics. If the watcher has its own [`on_drop`](WatchBuilder::on_drop) hook, losses
    /// that are reported to that hook are not reported to `on_loss`.
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
    #[track_caller]
    pub fn watch_builder(&self) -> WatchBuilder<'_, Event> {
        let (dropped, abandoned, panicked) =
            (self.shared.losses.clone(), self.shared.losses.clone(), self.shared.losses.clone());
        // This hook runs on the dispatcher, or inside a call on an inline bus. Lock order:
        // `SharedIntake::intake` before `Warnings::silent`. Lock order: `InlineFront::core` before
        // `Warnings::silent`.
        let builder = self.shared.bus.watch_builder().on_drop_named(move |name, reason, events| {
            // A replaced event is not a loss.
            if reason != DropReason::Conflated {
                dropped.tell(&Loss::new(LossReason::Dropped(reason), name, events));
            }
        });
        let builder = builder.on_abandon(move |name, count| {
            abandoned.tell(&Loss::of(LossReason::Dropped(DropReason::Abandoned), name, count));
        });
        builder.on_panic(move |name, delivery| {
            // The events in a gap were already reported when they were lost.
            if let Delivery::Event(event) = delivery {
                panicked.tell(&Loss::new(LossReason::HandlerPanicked, name, slice::from_ref(event)));
            }
        })
    }

    /// Starts a monitor, which reports watchers, handlers and recordings that are too slow. See
    /// [`Broadcaster::on_slow`].
    ///
    /// For a recording, events wait until they have been written, or until the recording holds them
    /// back by design. A repeat of an event that is being written does not wait. Therefore use
    /// [`on_outage`](RecordingBuilder::on_outage) to be notified of a store that does not respond.
    ///
    /// # Errors
    ///
    /// Returns the same errors as [`Broadcaster::on_slow`].
    ///
    /// # Examples
    ///
    /// ```
    /// use eventcast::EventBroadcaster;
    /// use std::time::Duration;
    ///
    /// let events = EventBroadcaster::new()?;
    /// events.on_slow(Duration::from_secs(30), |notice| eprintln!("{notice}"))?;
    /// # Ok::<(), eventcast::error::BuildError>(())
    /// ```
    pub fn on_slow(
        &self,
        after: Duration,
        tell: impl FnMut(&SlowNotice) + Send + 'static,
    ) -> Result<(), BuildError> {
        self.shared.bus.on_slow(after, tell)
    }

    /// Calls `handler` with each event in turn, on a separate thread. A panic in the handler is
    /// caught, counted and reported to `on_loss`, and the handler continues with the next event.
    ///
    /// To set a filter or a queue length, or to be notified of gaps, call
    /// [`spawn`](WatchBuilder::spawn) on a [`watch_builder`](Self::watch_builder).
    ///
    /// # Errors
    ///
    /// Returns the same errors as [`WatchBuilder::spawn`].
    ///
    /// # Blocking
    ///
    /// Blocks under the same conditions as [`WatchBuilder::watch`].
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
    #[track_caller]
    pub fn spawn(&self, mut handler: impl FnMut(&Event) + Send + 'static) -> Result<WatchHandle, WatchError> {
        let handle = self.watch_builder().spawn(move |delivery| {
            if let Delivery::Event(event) = delivery {
                handler(event);
            }
        })?;
        Ok(self.shared.listed(handle))
    }

    /// Starts a recording, which correlates events on one thread and writes them to a sink on
    /// another thread. A write contains the complete state of a stored event, including its count.
    /// If an event is repeated before it is written, one write covers both occurrences. The
    /// successive states of an event reach the sink in order. The recording retries a failed write
    /// if a retry may succeed.
    ///
    /// # Errors
    ///
    /// Returns the same errors as [`RecordingBuilder::start`].
    ///
    /// # Blocking
    ///
    /// Blocks under the same conditions as [`WatchBuilder::watch`].
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

    /// Returns a builder that configures a recording's correlator, retries, queue, policy, filter
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
    /// and has been written, skipped or dropped by every recording. See [`Broadcaster::flush`].
    ///
    /// # Errors
    ///
    /// Returns the same errors as [`Broadcaster::flush`].
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

    /// The async version of [`flush`](Self::flush). See [`Broadcaster::flush_async`].
    ///
    /// # Errors
    ///
    /// Returns the same errors as [`flush`](Self::flush).
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

    /// Returns the current counters.
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
