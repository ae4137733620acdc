//! Reports losses, which are events that did not reach a watcher or a store. A single hook receives
//! all of a broadcaster's losses.
//!
//! Every loss is also counted where it happens. The hook is intended for programs that want to be
//! notified of a loss immediately. Because the hook is user code, a panic in the hook is caught.
//! Losses that the hook itself causes are not reported to the hook.

use std::cell::Cell;
use std::error::Error;
use std::fmt;

use crate::bus::counters::DropReason;
use crate::catch::catch_panic;
use crate::escape::escape;
use crate::record::event::{Event, EventField};
use crate::sync::atomic::{AtomicU64, Ordering};
use crate::sync::thread_local;

/// The reason why an event was lost.
///
/// # Examples
///
/// ```
/// use eventcast::record::LossReason;
/// use eventcast::stats::DropReason;
///
/// assert_eq!(LossReason::QueueFull.to_string(), "queue full");
/// let overflow = LossReason::Dropped(DropReason::Incoming);
/// assert!(overflow.to_string().starts_with("dropped, "));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum LossReason {
    /// A recorder found the queue full. See [`Recorded::Full`](crate::Recorded::Full).
    QueueFull,
    /// A recorder found the broadcaster closed.
    Closed,
    /// A recorder was called with an empty reason.
    EmptyReason,
    /// An API server would refuse the event because this field is invalid. Only recorders whose
    /// events have an [event time](crate::record::EventBroadcasterBuilder::event_time) check for
    /// invalid fields.
    Invalid(EventField),
    /// The `scrub` hook panicked, so the event may still contain data that must not be shown.
    ScrubPanicked,
    /// A watcher, handler or recording lost the event before the event was delivered.
    Dropped(DropReason),
    /// A handler or a log panicked while handling the event. The event counts as delivered. The
    /// handler continues with the next event, unless `stop_on_panic` ends the handler.
    HandlerPanicked,
    /// The sink already has an event with the same name.
    AlreadyExists,
    /// The sink will never accept the event, the sink panicked, or a function in the correlator's
    /// options panicked.
    Rejected,
    /// The sink failed on every attempt that the retry policy allowed, or the recording's
    /// `retry_if` refused another attempt.
    Exhausted,
    /// The event's [group](crate::EventSink::group) had reached its
    /// [share](crate::record::RecordingBuilder::group_queue_capacity) of a recording's queue.
    GroupFull,
    /// The sink failed while the recording or the bus was ending, so no further attempt was
    /// possible, or a shutdown's deadline passed before the event was written.
    Abandoned,
    /// The broadcaster's destructor returned before the events were handled, because its
    /// [`drop_timeout`](crate::record::EventBroadcasterBuilder::drop_timeout) had passed, because
    /// an earlier shutdown had reached its deadline, or because the broadcaster was dropped on a
    /// thread that the sink [needs](crate::EventSink::needed_thread).
    ///
    /// The unhandled events are lost only if the process exits before they have been handled. If
    /// the process keeps running, the events are still handled. No counter counts the unhandled
    /// events as lost. If such an event is lost later, the event is reported again with the reason
    /// for that loss. Events that are still in the incoming queue are not included in the report.
    LeftBehind,
}

impl fmt::Display for LossReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::QueueFull => f.write_str("queue full"),
            Self::Closed => f.write_str("broadcaster closed"),
            Self::EmptyReason => f.write_str("empty reason"),
            Self::Invalid(field) => write!(f, "invalid {field}"),
            Self::ScrubPanicked => f.write_str("scrub panicked"),
            Self::Dropped(reason) => write!(f, "dropped, {reason}"),
            Self::HandlerPanicked => f.write_str("handler panicked"),
            Self::AlreadyExists => f.write_str("already exists"),
            Self::Rejected => f.write_str("rejected"),
            Self::Exhausted => f.write_str("too many attempts"),
            Self::GroupFull => f.write_str("group share full"),
            Self::Abandoned => f.write_str("abandoned"),
            Self::LeftBehind => f.write_str("unfinished when the broadcaster was dropped"),
        }
    }
}

/// One or more events that were lost together, as passed to `on_loss`.
///
/// If events are lost at a sink, the loss reports which events were missing from the store at that
/// time. If a later write of the same stored event includes the count of the lost events, the
/// statistics no longer count those events as lost.
///
/// `Display` and `Debug` show the location, the number of events, the reason for the loss, the
/// first event's object and reason, and the cause. Neither `Display` nor `Debug` shows the event's
/// message, because the message may contain data that does not belong in a log.
///
/// # Examples
///
/// ```
/// use eventcast::record::LossReason;
/// use eventcast::{EventBroadcaster, ObjectReference};
/// use std::sync::mpsc;
///
/// let (tx, losses) = mpsc::channel();
/// let hook = move |loss: &eventcast::record::Loss<'_>| {
///     tx.send((loss.reason, loss.count, loss.events.len(), loss.to_string())).unwrap();
/// };
/// let events = EventBroadcaster::builder().on_loss(hook).build()?;
/// events.close();
/// events.recorder("kubelet").normal(ObjectReference::new("Pod", "web-0"), "Started", "a secret");
/// let (reason, count, known, text) = losses.recv()?;
/// assert_eq!((reason, count, known), (LossReason::Closed, 1, 1));
/// assert_eq!(text, "kubelet: 1 event lost (broadcaster closed): Pod/web-0 Started");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy)]
#[non_exhaustive]
pub struct Loss<'a> {
    /// The reason for the loss.
    pub reason: LossReason,
    /// The location of the loss, which is the name of the watcher or recording, or the recorder's
    /// component.
    pub place: &'a str,
    /// The lost events. The slice is empty if only the number of events is known. If several
    /// occurrences of one event were counted in one write, the slice contains that event only once.
    pub events: &'a [Event],
    /// The number of lost events.
    pub count: u64,
    /// The [group](crate::EventSink::group) of an event that was lost at a sink. The string is
    /// empty for all other losses, and for a sink without groups.
    pub group: &'a str,
    /// The cause of a loss at a sink, as a [`SinkError`](crate::SinkError). The cause is the sink's
    /// response, the panic message, or the deadline that passed. The field is `None` for all other
    /// losses.
    pub cause: Option<&'a (dyn Error + 'static)>,
}

impl<'a> Loss<'a> {
    /// Creates a loss at `place`, which is the name of a watcher or recording, or a recorder's
    /// component.
    pub(crate) fn new(reason: LossReason, place: &'a str, events: &'a [Event]) -> Self {
        Self { reason, place, events, count: events.len() as u64, group: "", cause: None }
    }

    /// Creates a loss of `count` events that no longer exist.
    pub(crate) fn of(reason: LossReason, place: &'a str, count: u64) -> Self {
        Self { reason, place, events: &[], count, group: "", cause: None }
    }
}

impl fmt::Display for Loss<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let events = if self.count == 1 { "event" } else { "events" };
        let fate = if self.reason == LossReason::LeftBehind { "not handled yet" } else { "lost" };
        write!(f, "{}: {} {events} ", escape(self.place), self.count)?;
        if !self.group.is_empty() {
            write!(f, "of group \"{}\" ", escape(self.group))?;
        }
        write!(f, "{fate} ({})", self.reason)?;
        if let [first, ..] = self.events {
            let more = if self.events.len() > 1 { "first of them " } else { "" };
            write!(f, ": {more}{}", first.involved_object)?;
            if !first.reason.is_empty() {
                write!(f, " {}", escape(&first.reason))?;
            }
        }
        match self.cause {
            Some(cause) => write!(f, ": {}", escape(&cause.to_string())),
            None => Ok(()),
        }
    }
}

impl fmt::Debug for Loss<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Loss({self})")
    }
}

/// The user-supplied hook to which losses are reported.
pub(crate) type OnLoss = Box<dyn Fn(&Loss<'_>) + Send + Sync>;

/// The loss reporter shared by all parts of a broadcaster.
#[derive(Default)]
pub(crate) struct LossHook {
    hook: Option<OnLoss>,
    panics: AtomicU64,
    #[cfg(feature = "tracing")]
    warnings: warnings::Warnings,
}

thread_local! {
    /// Whether this thread is currently reporting a loss. Losses caused by such a report are not
    /// reported.
    #[allow(clippy::missing_const_for_thread_local, reason = "loom's form of the macro has no const")]
    static TELLING: Cell<bool> = Cell::new(false);
}

impl LossHook {
    /// Creates a reporter. Without a hook, losses are logged if the `tracing` feature is enabled,
    /// and otherwise not reported.
    pub(crate) fn new(hook: Option<OnLoss>, clock: &crate::clock::Clock) -> Self {
        #[cfg(not(feature = "tracing"))]
        let _ = clock;
        Self {
            hook,
            panics: AtomicU64::new(0),
            #[cfg(feature = "tracing")]
            warnings: warnings::Warnings::new(clock.clone()),
        }
    }

    /// Reports a loss on the current thread. If the loss happened at a watcher, the current thread
    /// may hold `SharedIntake::intake` or `InlineFront::core`. Other threads only try to lock
    /// `SharedIntake::intake`, but other publishers wait for `InlineFront::core`.
    pub(crate) fn tell(&self, loss: &Loss<'_>) {
        // On a thread that is being torn down, the cell no longer exists, so the thread's losses
        // are not reported.
        if loss.count == 0 || TELLING.try_with(|telling| telling.replace(true)).unwrap_or(true) {
            return;
        }
        if catch_panic(|| self.pass_on(loss)).is_none() {
            // Relaxed: a count.
            self.panics.fetch_add(1, Ordering::Relaxed);
        }
        let _ = TELLING.try_with(|telling| telling.set(false));
    }

    fn pass_on(&self, loss: &Loss<'_>) {
        match &self.hook {
            Some(hook) => hook(loss),
            #[cfg(feature = "tracing")]
            None => self.warnings.warn(loss),
            #[cfg(not(feature = "tracing"))]
            None => {}
        }
    }

    /// Returns the number of times that the hook has panicked.
    pub(crate) fn panics(&self) -> u64 {
        // Relaxed: a count.
        self.panics.load(Ordering::Relaxed)
    }
}

impl fmt::Debug for LossHook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LossHook").field("hook", &self.hook.is_some()).finish_non_exhaustive()
    }
}

/// Logs losses if there is no hook, with at most one line per second for each reason.
#[cfg(feature = "tracing")]
mod warnings {
    use std::time::Duration;

    use super::{Loss, LossReason};
    use crate::clock::{Clock, Deadline};
    use crate::sync::Mutex;

    const PAUSE: Duration = Duration::from_secs(1);

    #[derive(Default)]
    pub(super) struct Warnings {
        clock: Clock,
        /// Stores, for each reason seen so far, the time until which no line is written, and the
        /// number of events lost since the last line.
        silent: Mutex<Vec<(LossReason, Deadline, u64)>>,
    }

    impl Warnings {
        pub(super) fn new(clock: Clock) -> Self {
            Self { clock, silent: Mutex::new(Vec::new()) }
        }

        pub(super) fn warn(&self, loss: &Loss<'_>) {
            if let Some(unmentioned) = self.is_due(loss) {
                tracing::warn!(unmentioned, "{loss}");
            }
        }

        fn is_due(&self, loss: &Loss<'_>) -> Option<u64> {
            // Lock order: `Warnings::silent` before `Fake::state`.
            let mut silent = self.silent.lock();
            let until = self.clock.deadline(PAUSE);
            match silent.iter_mut().find(|(reason, ..)| *reason == loss.reason) {
                Some((_, end, unmentioned)) if !self.clock.has_passed(*end) => {
                    *unmentioned += loss.count;
                    None
                }
                Some((_, end, unmentioned)) => {
                    *end = until;
                    Some(std::mem::take(unmentioned))
                }
                None => {
                    silent.push((loss.reason, until, 0));
                    Some(0)
                }
            }
        }
    }
}
