//! The face of the recorder half: a bus of events, and everything that can be started on it.

mod builder;
mod logging;

use std::fmt;
use std::slice;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::bus::{Broadcaster, Delivery, WatchBuilder, WatchHandle};
use crate::clock::Clock;
use crate::error::{BuildError, FlushError, WatchError};
use crate::record::correlator::CorrelatorOptions;
use crate::record::delivery::{RecordingBuilder, RecordingHandle, Recordings, RetryPolicy};
use crate::record::event::{Event, EventSource};
use crate::record::loss::{Loss, LossHook, LossReason};
use crate::record::recorder::{Recorder, RecorderContext, RecorderStats};
use crate::record::sink::EventSink;
use crate::record::stats::RecordingStats;
use crate::report::ShutdownReport;
use crate::stats::{BusStats, DropReason};
use crate::sync::{Arc, Mutex, thread};

use logging::Line;

pub use builder::EventBroadcasterBuilder;

/// Records events and hands each to any number of watchers, logs and sinks, as client-go's event broadcaster does.
///
/// [Recorders](Recorder) never wait. Each watcher, log and recording has a queue of its own, so a slow one does not delay
/// another; what a full queue loses is counted, and told to [`on_loss`](EventBroadcasterBuilder::on_loss).
///
/// Every method takes `&self`; share it in an `Arc`. Recorders and handles do not keep it open. Dropping it closes it,
/// and waits at most [`drop_timeout`](EventBroadcasterBuilder::drop_timeout) for what was recorded to be handled, so that
/// the last events of a program are not lost; [`shutdown`](Self::shutdown) also says what became of them. In an async
/// program, await `shutdown_async` before: then the drop has nothing left to wait for.
///
/// # Examples
///
/// ```
/// use eventcast::EventType::{Normal, Warning};
/// use eventcast::{EventBroadcaster, MemorySink, ObjectReference};
///
/// let store = MemorySink::new();
/// let events = EventBroadcaster::new()?;
/// events.start_logging(|line| eprintln!("{line}"))?;
/// events.start_recording_to_sink(store.clone())?;
///
/// let recorder = events.new_recorder("disk-watcher");
/// let disk = ObjectReference::new("Disk", "sda");
/// recorder.event(&disk, Normal, "Mounted", "mounted on /");
/// for percent in [97, 97, 97] {
///     recorder.eventf(&disk, Warning, "AlmostFull", format_args!("{percent} % are used"));
/// }
///
/// let report = events.shutdown();
/// assert!(report.complete);
/// assert_eq!((report.recordings[0].created, report.recordings[0].updated), (2, 2));
/// assert_eq!(store.events()[1].count, 3);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct EventBroadcaster {
    bus: Broadcaster<Event>,
    clock: Clock,
    losses: Arc<LossHook>,
    recorder: Arc<RecorderContext>,
    recordings: Recordings,
    correlator: CorrelatorOptions,
    retry: RetryPolicy,
    drop_timeout: Duration,
    report: Mutex<Option<ShutdownReport>>,
}

impl EventBroadcaster {
    /// Starts a broadcaster with client-go's queues: 1000 for what comes in and 1000 for each watcher, which loses the
    /// incoming event when its queue is full.
    ///
    /// # Errors
    ///
    /// When the system gives no thread.
    #[doc(alias = "NewBroadcaster")]
    pub fn new() -> Result<Self, BuildError> {
        Self::builder().build()
    }

    /// A recorder that records in the name of `source`: a component's name, or that and a host's.
    #[doc(alias = "NewRecorder")]
    pub fn new_recorder(&self, source: impl Into<EventSource>) -> Recorder {
        Recorder::new(self.bus.publisher(), source.into(), self.recorder.clone())
    }

    /// A watcher of the events as they were recorded, with its own queue, policy, filter; or a handler.
    ///
    /// What it loses is told to `on_loss`, unless it gets an [`on_drop`](WatchBuilder::on_drop) of its own; and so is an
    /// event at which its handler panics.
    pub fn watch_builder(&self) -> WatchBuilder<'_, Event> {
        let (dropped, abandoned, panicked) = (self.losses.clone(), self.losses.clone(), self.losses.clone());
        let builder = self.bus.watch_builder().on_drop_named(move |name, reason, events| {
            dropped.tell(&Loss::new(LossReason::Dropped(reason), name, events));
        });
        let builder = builder.on_abandon(move |name, count| {
            abandoned.tell(&Loss::of(LossReason::Dropped(DropReason::Abandoned), name, count));
        });
        builder.on_panic(move |name, delivery| {
            // A gap was told of by who lost the events.
            if let Delivery::Event(event) = delivery {
                panicked.tell(&Loss::new(LossReason::HandlerPanicked, name, slice::from_ref(event)));
            }
        })
    }

    /// Calls `handler` with each event, on a thread of its own, one after the other. A panic in it is caught,
    /// counted, and told to `on_loss`; the next event is handled as usual.
    ///
    /// # Errors
    ///
    /// As [`WatchBuilder::spawn`].
    ///
    /// # Blocking
    ///
    /// Only while the incoming queue is full.
    #[doc(alias = "StartEventWatcher")]
    pub fn start_event_watcher(
        &self,
        mut handler: impl FnMut(&Event) + Send + 'static,
    ) -> Result<WatchHandle, WatchError> {
        self.watch_builder().spawn(move |delivery| {
            if let Delivery::Event(event) = delivery {
                handler(event);
            }
        })
    }

    /// Calls `log` with a line for each event, control characters escaped; and with one where events were lost because
    /// `log` was too slow.
    ///
    /// # Errors
    ///
    /// As [`WatchBuilder::spawn`].
    ///
    /// # Blocking
    ///
    /// Only while the incoming queue is full.
    ///
    /// # Examples
    ///
    /// ```
    /// use eventcast::{EventBroadcaster, EventType, ObjectReference};
    /// use std::sync::mpsc;
    ///
    /// let events = EventBroadcaster::new()?;
    /// let (tx, lines) = mpsc::channel();
    /// events.start_logging(move |line| tx.send(line.to_owned()).unwrap())?;
    /// let pod = ObjectReference::new("Pod", "web-0").in_namespace("default");
    /// events.new_recorder("kubelet").event(&pod, EventType::Warning, "BackOff", "restarting");
    /// events.shutdown();
    /// assert_eq!(lines.recv()?, "Event(Pod/default/web-0): type: 'Warning' reason: 'BackOff' restarting");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[doc(alias = "StartLogging")]
    pub fn start_logging(
        &self,
        mut log: impl FnMut(&str) + Send + 'static,
    ) -> Result<WatchHandle, WatchError> {
        self.watch_builder().name("logging").spawn(move |delivery| match delivery {
            Delivery::Event(event) => log(&Line(event).to_string()),
            Delivery::Lagged(count) => log(&format!("({count} events lost here)")),
        })
    }

    /// Hands each event to `tracing`, at this level: as an event named `Event occurred`, with client-go's fields `object`,
    /// `fieldPath`, `kind`, `apiVersion`, `type`, `reason` and `message`, control characters escaped. Lost events
    /// are one named `Events lost` with their `count`.
    ///
    /// It uses the subscriber of its own thread, which is the global one.
    ///
    /// # Errors
    ///
    /// As [`WatchBuilder::spawn`].
    ///
    /// # Blocking
    ///
    /// Only while the incoming queue is full.
    #[cfg(feature = "tracing")]
    #[doc(alias = "StartStructuredLogging")]
    pub fn start_structured_logging(&self, level: tracing::Level) -> Result<WatchHandle, WatchError> {
        self.watch_builder()
            .name("structured-logging")
            .spawn(move |delivery| logging::structured::log(level, delivery))
    }

    /// Writes events to a sink: correlated, in order, tried again when that helps, on a thread of its own.
    ///
    /// # Errors
    ///
    /// As [`RecordingBuilder::start`].
    ///
    /// # Blocking
    ///
    /// Only while the incoming queue is full.
    #[doc(alias = "StartRecordingToSink")]
    pub fn start_recording_to_sink(&self, sink: impl EventSink) -> Result<RecordingHandle, WatchError> {
        self.recording().start(sink)
    }

    /// A recording with its own correlator, retries, queue, policy, filter, name.
    pub fn recording(&self) -> RecordingBuilder<'_> {
        RecordingBuilder::new(self.watch_builder(), self.correlator.clone(), self.retry, &self.recordings)
    }

    /// Waits until everything recorded before this call has been handled by every handler and log, and written, skipped
    /// or given up by every recording. See [`Broadcaster::flush`].
    ///
    /// # Errors
    ///
    /// As [`Broadcaster::flush`].
    ///
    /// # Blocking
    ///
    /// At most `timeout`. In an async task, use `flush_async`.
    pub fn flush(&self, timeout: Duration) -> Result<(), FlushError> {
        self.bus.flush(timeout)
    }

    /// Stops accepting; recorders get `Stopped` from here on. What was recorded is still handled; recordings try each event
    /// that is left once. Never waits.
    pub fn close(&self) {
        self.bus.close();
    }

    /// Closes the broadcaster, and waits until everything recorded has been handled by every handler and log, and written,
    /// skipped or given up by every recording. Watchers that you read yourself keep what is queued until they have
    /// read it.
    ///
    /// Idempotent: every call waits for the same end and gets the same report. On a thread of this broadcaster (in a
    /// handler, a sink, a filter) it closes, does not wait, and returns a report that is not complete.
    ///
    /// # Blocking
    ///
    /// As long as it takes: for ever, if a sink or a handler does not return. A sink that fails is no reason to wait:
    /// recordings try each event once and report it as abandoned. [`shutdown_timeout`](Self::shutdown_timeout) gives up
    /// in time.
    #[doc(alias = "Shutdown")]
    pub fn shutdown(&self) -> ShutdownReport {
        self.report(self.bus.shutdown())
    }

    /// As [`shutdown`](Self::shutdown), but returns by the deadline, and then reports what was abandoned. See
    /// [`Broadcaster::shutdown_timeout`].
    ///
    /// The time is for sinks and handlers that are slow. A sink that fails is not tried again in it; let
    /// [`flush`](Self::flush) wait for its retries before, if they matter.
    ///
    /// # Blocking
    ///
    /// At most `timeout`. In an async task, use `shutdown_async`: on a runtime's only thread this one
    /// could wait for a sink or a handler that needs that very thread.
    pub fn shutdown_timeout(&self, timeout: Duration) -> ShutdownReport {
        self.report(self.bus.shutdown_timeout(timeout))
    }

    /// As [`flush`](Self::flush), for a task. See [`Broadcaster::flush_async`].
    ///
    /// # Errors
    ///
    /// As [`flush`](Self::flush).
    pub fn flush_async(&self, timeout: Duration) -> impl Future<Output = Result<(), FlushError>> + Send {
        self.bus.flush_async(timeout)
    }

    /// As [`shutdown_timeout`](Self::shutdown_timeout), for a task. See [`Broadcaster::shutdown_async`].
    ///
    /// # Examples
    ///
    /// ```
    /// use eventcast::{EventBroadcaster, EventType, MemorySink, ObjectReference};
    /// use std::time::Duration;
    ///
    /// let events = EventBroadcaster::new()?;
    /// events.start_recording_to_sink(MemorySink::new())?;
    /// let job = ObjectReference::new("Job", "backup");
    /// events.new_recorder("runner").event(&job, EventType::Normal, "Done", "backed up");
    /// let report = futures::executor::block_on(events.shutdown_async(Duration::from_secs(10)));
    /// assert!(report.complete);
    /// assert_eq!(report.recordings[0].created, 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn shutdown_async(&self, timeout: Duration) -> impl Future<Output = ShutdownReport> + Send {
        async move { self.report(self.bus.shutdown_async(timeout).await) }
    }

    fn report(&self, mut report: ShutdownReport) -> ShutdownReport {
        report.recordings = self.recordings.stats();
        report.complete &= report.recordings.iter().all(|recording| recording.abandoned == 0);
        if self.bus.is_current() {
            return report;
        }
        self.report.lock().get_or_insert(report).clone()
    }

    /// What has been done so far.
    pub fn stats(&self) -> EventBroadcasterStats {
        EventBroadcasterStats {
            bus: self.bus.stats(),
            recorder: self.recorder.stats(),
            recordings: self.recordings.stats(),
        }
    }
}

impl Drop for EventBroadcaster {
    /// Closes the broadcaster, and waits at most `drop_timeout` for what was recorded to be handled; what is not by then
    /// is not given up, if the process lives on. On a thread of this broadcaster it does not wait.
    fn drop(&mut self) {
        self.bus.close();
        // A fake clock stands still when the test that should move it has failed.
        if self.drop_timeout.is_zero() || (self.clock.is_fake() && thread::panicking()) {
            return;
        }
        self.bus.wait_ended(self.drop_timeout);
    }
}

impl fmt::Debug for EventBroadcaster {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EventBroadcaster").field("bus", &self.bus).finish_non_exhaustive()
    }
}

/// What an event broadcaster has done so far, in events.
///
/// Whenever it is quiet, the calls of recorders are `bus.accepted` + `recorder.refused()`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct EventBroadcasterStats {
    /// What was accepted, and what became of it at each watcher.
    pub bus: BusStats,
    /// What recorders refused or cut.
    pub recorder: RecorderStats,
    /// What each recording did, in the order in which they were started.
    pub recordings: Vec<RecordingStats>,
}

impl fmt::Display for EventBroadcasterStats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}; {}", self.bus, self.recorder)?;
        for recording in &self.recordings {
            write!(f, "; {recording}")?;
        }
        Ok(())
    }
}
