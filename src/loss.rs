//! Who is told that events were lost, when nobody looks at a result.

use std::cell::Cell;
use std::fmt;

use crate::event::{Event, ObjectReference, Text};
use crate::guard::guarded;
use crate::stats::DropReason;
use crate::sync::atomic::{AtomicU64, Ordering};

/// Why an event will not be in the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum LossReason {
    /// The incoming queue was full when it was recorded.
    QueueFull,
    /// The broadcaster was closed when it was recorded.
    Stopped,
    /// It was recorded without a reason.
    EmptyReason,
    /// The scrubbing function panicked, so the event was not shown to anybody.
    ScrubPanicked,
    /// A watcher lost it.
    Dropped(DropReason),
    /// A sink refused it for good, or could not take it often enough.
    Rejected,
}

impl fmt::Display for LossReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::QueueFull => "queue full",
            Self::Stopped => "stopped",
            Self::EmptyReason => "empty reason",
            Self::ScrubPanicked => "scrub panicked",
            Self::Dropped(reason) => return write!(f, "dropped ({reason})"),
            Self::Rejected => "rejected by the sink",
        })
    }
}

/// News of events that were lost. It says what they were about, not their messages, which may hold secrets.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Loss {
    /// Why.
    pub reason: LossReason,
    /// How many events, of which the fields below describe the last.
    pub count: u64,
    /// How many have been lost for this reason so far, with these.
    pub total: u64,
    /// What the event was about.
    pub object: ObjectReference,
    /// The event's own reason, such as `BackOff`.
    pub event_reason: Text,
}

impl Loss {
    pub(crate) fn new(reason: LossReason, count: u64, total: u64, event: &Event) -> Self {
        Self {
            reason,
            count,
            total,
            object: event.involved_object.clone(),
            event_reason: event.reason.clone(),
        }
    }
}

/// On one line, control characters escaped.
impl fmt::Display for Loss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { reason, count, total, object, event_reason } = self;
        let event_reason = crate::escape::escaped(event_reason);
        write!(f, "{count} lost ({reason}, {total} so far), {event_reason} about {object}")
    }
}

thread_local! {
    /// Whether this thread is in a hook: what it loses there is counted, but not told, or it would never end.
    static IN_HOOK: Cell<bool> = const { Cell::new(false) };
}

/// A user's function that is told of losses, and what became of telling it.
#[derive(Default)]
pub(crate) struct LossHook {
    hook: Option<Box<dyn Fn(&Loss) + Send + Sync>>,
    panics: AtomicU64,
}

impl LossHook {
    pub(crate) fn new(hook: impl Fn(&Loss) + Send + Sync + 'static) -> Self {
        Self { hook: Some(Box::new(hook)), panics: AtomicU64::new(0) }
    }

    /// Tells the user, if he wants to know. Runs his code; a panic ends here.
    pub(crate) fn tell(&self, loss: impl FnOnce() -> Loss) {
        let Some(hook) = &self.hook else { return };
        // A thread that is being torn down has lost its cell; it has nobody to tell either.
        if IN_HOOK.try_with(|inside| inside.replace(true)) != Ok(false) {
            return;
        }
        if guarded(|| hook(&loss())).is_none() {
            self.panics.fetch_add(1, Ordering::Relaxed);
        }
        let _ = IN_HOOK.try_with(|inside| inside.set(false));
    }

    /// How often the function has panicked.
    pub(crate) fn panics(&self) -> u64 {
        self.panics.load(Ordering::Relaxed)
    }
}

impl fmt::Debug for LossHook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LossHook").field("set", &self.hook.is_some()).field("panics", &self.panics()).finish()
    }
}
