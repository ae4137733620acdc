//! Handles to recordings, and the list of all recordings.

use std::fmt;
use std::time::Duration;

use crate::bus::{WatchHandle, WeakBroadcaster, wake_reader};
use crate::clock::Clock;
use crate::error::FlushError;
use crate::record::event::Event;
use crate::record::loss::LossHook;
use crate::record::sink::NeededThread;
use crate::record::stats::RecordingStats;
use crate::sync::{Arc, Mutex};

use super::flushes::{Flushes, RunningFlush};

/// A handle to a running recording. Dropping the handle does not stop the recording, which then
/// runs until the broadcaster ends.
///
/// # Examples
///
/// ```
/// use eventcast::{EventBroadcaster, EventType, MemorySink, ObjectReference};
/// use std::time::Duration;
///
/// let (events, store) = (EventBroadcaster::new()?, MemorySink::new());
/// let recording = events.record_to(store.clone())?;
/// let (recorder, pod) = (events.recorder("doc"), ObjectReference::new("Pod", "a"));
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
    pub(super) watch: WatchHandle,
    pub(super) bus: WeakBroadcaster<Event>,
    pub(super) flushes: Arc<Flushes>,
    pub(super) stats: Arc<Mutex<RecordingStats>>,
    /// The thread that the sink needs, if any. Calls on this thread do not wait for the recording.
    pub(super) needed: Option<NeededThread>,
}

impl RecordingHandle {
    /// Ends the recording without waiting. No more events are offered to the recording, and the
    /// recording tries to write each queued event once.
    ///
    /// # Examples
    ///
    /// ```
    /// use eventcast::{EventBroadcaster, MemorySink};
    /// use std::time::Duration;
    ///
    /// let events = EventBroadcaster::new()?;
    /// let [first, second] = [(); 2].map(|()| events.record_to(MemorySink::new()));
    /// let (first, second) = (first?, second?);
    /// first.stop();
    /// assert!(first.join(Duration::from_secs(60)));
    /// assert!(!second.join(Duration::ZERO), "the other recording runs on");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn stop(&self) {
        self.watch.stop();
    }

    /// Waits until the recording has ended. Returns `true` if the recording has ended, and `false`
    /// on timeout. On one of the same broadcaster's threads, and on the thread that the sink
    /// [needs](crate::EventSink::needed_thread), the call does not wait.
    ///
    /// # Blocking
    ///
    /// Waits at most `timeout`.
    ///
    /// # Examples
    ///
    /// ```
    /// use eventcast::{EventBroadcaster, MemorySink};
    /// use std::time::Duration;
    ///
    /// let events = EventBroadcaster::new()?;
    /// let recording = events.record_to(MemorySink::new())?;
    /// assert!(!recording.join(Duration::ZERO));
    /// events.close();
    /// assert!(recording.join(Duration::from_secs(60)));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use = "`false` means that the recording has not ended in time"]
    pub fn join(&self, timeout: Duration) -> bool {
        self.watch.join(if self.needs_this_thread() { Duration::ZERO } else { timeout })
    }

    /// Waits until every event recorded before this call has been written, skipped or dropped by
    /// this recording. Does not wait for other recordings, handlers or logs, but another recording
    /// may write a deferred count earlier because of this flush. See
    /// [`EventBroadcaster::flush`](crate::EventBroadcaster::flush). If the recording has ended,
    /// the call returns immediately.
    ///
    /// # Errors
    ///
    /// - [`FlushError::Timeout`] if the timeout expires.
    /// - [`FlushError::WouldDeadlock`] if this method is called on one of the same broadcaster's
    ///   threads, or on the thread that the sink [needs](crate::EventSink::needed_thread).
    /// - [`FlushError::Abandoned`] if a shutdown with a deadline abandoned events.
    ///
    /// # Blocking
    ///
    /// Waits at most `timeout`.
    ///
    /// # Examples
    ///
    /// ```
    /// use eventcast::{EventBroadcaster, MemorySink, ObjectReference};
    /// use std::time::Duration;
    ///
    /// let (events, store) = (EventBroadcaster::new()?, MemorySink::new());
    /// let recording = events.record_to(store.clone())?;
    /// events.recorder("kubelet").normal(ObjectReference::new("Pod", "web-0"), "Started", "up");
    /// recording.flush(Duration::from_secs(10))?;
    /// assert_eq!(store.len(), 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn flush(&self, timeout: Duration) -> Result<(), FlushError> {
        if self.needs_this_thread() {
            return Err(FlushError::WouldDeadlock);
        }
        let _flush = self.flushes.begin();
        wake_reader(&self.watch);
        self.bus.flush_one(&self.watch, timeout)
    }

    fn needs_this_thread(&self) -> bool {
        self.needed.as_ref().is_some_and(NeededThread::is_current)
    }

    /// Returns the recording's counters so far.
    ///
    /// # Examples
    ///
    /// ```
    /// use eventcast::{EventBroadcaster, EventType, MemorySink, ObjectReference};
    /// use std::time::Duration;
    ///
    /// let events = EventBroadcaster::new()?;
    /// let recording = events.record_to(MemorySink::new())?;
    /// let (recorder, pod) = (events.recorder("doc"), ObjectReference::new("Pod", "a"));
    /// for _ in 0..30 {
    ///     recorder.event(&pod, EventType::Warning, "BackOff", "restarting");
    /// }
    /// events.flush(Duration::from_secs(60))?;
    /// let stats = recording.stats();
    /// // The flush also writes the count of the events that the spam filter stopped.
    /// assert_eq!((stats.created, stats.updated, stats.skipped), (1, 29, 0));
    /// assert_eq!(stats.handled(), stats.watcher.delivered);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn stats(&self) -> RecordingStats {
        // The watcher's counters are read first, so that each event that counts as delivered has an
        // outcome or is waiting together with another event.
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
    pub(super) bus: WeakBroadcaster<Event>,
    pub(super) clock: Clock,
    pub(super) losses: Arc<LossHook>,
    pub(super) flushes: Arc<Flushes>,
    list: Mutex<List>,
}

#[derive(Default)]
struct List {
    /// The number of default names that have been assigned.
    named: u64,
    /// The listed recordings, in the order in which they were started.
    recordings: Vec<RecordingHandle>,
    /// The summed counters of the recordings that have ended and are no longer listed.
    departed: Option<RecordingStats>,
}

/// The number of listed recordings at which the counters of ended recordings are merged into one
/// sum. Ended recordings that are still listed count towards this number.
const LISTED: usize = 64;

impl Recordings {
    pub(crate) fn new(bus: WeakBroadcaster<Event>, clock: Clock, losses: Arc<LossHook>) -> Self {
        Self { bus, clock, losses, flushes: Arc::default(), list: Mutex::new(List::default()) }
    }

    /// Makes the recordings write their counts instead of holding them, until the returned guard is
    /// dropped.
    pub(crate) fn begin_flush(&self) -> RunningFlush {
        let flush = self.flushes.begin();
        self.list.lock().recordings.iter().for_each(|recording| wake_reader(&recording.watch));
        flush
    }

    /// Returns the handle of a running recording whose sink needs the current thread. If there is
    /// no such recording, returns `None`, and the current thread may wait for all recordings.
    pub(crate) fn that_needs_this_thread(&self) -> Option<WatchHandle> {
        self.running().into_iter().find(RecordingHandle::needs_this_thread).map(|recording| recording.watch)
    }

    /// Waits for the recordings whose sinks do not need the current thread. `left` returns the
    /// remaining time, which limits each wait.
    pub(crate) fn join_others(&self, left: impl Fn() -> Duration) {
        for recording in self.running() {
            let _ = recording.join(left());
        }
    }

    /// Returns each running recording's number of unhandled events, together with the recording's
    /// name.
    pub(crate) fn unhandled(&self) -> Vec<(u64, String)> {
        let unhandled = |recording: RecordingHandle| {
            let stats = recording.stats();
            let gone = stats.handled().saturating_add(stats.watcher.dropped.total());
            (stats.watcher.offered.saturating_sub(gone), stats.watcher.name)
        };
        self.running().into_iter().map(unhandled).collect()
    }

    /// Returns the running recordings. The caller may call functions of the recordings' sinks,
    /// because the lock of the list has been released.
    fn running(&self) -> Vec<RecordingHandle> {
        let list = self.list.lock();
        list.recordings.iter().filter(|recording| !recording.watch.is_finished()).cloned().collect()
    }

    pub(super) fn next_name(&self) -> String {
        let mut list = self.list.lock();
        list.named += 1;
        if list.named == 1 { "recording".to_owned() } else { format!("recording-{}", list.named) }
    }

    pub(super) fn add(&self, recording: RecordingHandle) {
        // The handles in this list are dropped after the lock has been released, because a handle
        // owns one of the sink's functions.
        let ended: Vec<_>;
        let mut list = self.list.lock();
        if list.recordings.len() >= LISTED {
            let running;
            (ended, running) = list.recordings.drain(..).partition(|recording| recording.watch.is_finished());
            list.recordings = running;
            let departed = list.departed.get_or_insert_default();
            "departed".clone_into(&mut departed.watcher.name);
            for recording in &ended {
                departed.add(&recording.stats());
            }
        }
        list.recordings.push(recording);
    }

    /// Returns each recording's counters so far. Once the counters of ended recordings have been
    /// merged, the first entry is their sum.
    pub(crate) fn stats(&self) -> Vec<RecordingStats> {
        // Lock order: `Recordings::list` before `RecordingHandle::stats` and `Driver::stats`, as in
        // `add`.
        let list = self.list.lock();
        list.departed.iter().cloned().chain(list.recordings.iter().map(RecordingHandle::stats)).collect()
    }
}
