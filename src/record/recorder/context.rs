//! The state shared by all of a broadcaster's recorders, which includes the clock, the limits and
//! the numbers of refused events.

use std::fmt;
use std::slice;

use serde::{Deserialize, Serialize};

use crate::bus::Completion;
use crate::catch::catch_panic;
use crate::clock::Clock;
use crate::record::event::{Event, EventParts, complete, timed};
use crate::record::loss::{Loss, LossHook, LossReason};
use crate::sync::Arc;
use crate::sync::atomic::{AtomicU64, Ordering};

use super::recorded::Recorded;

/// The default maximum length of a message, in bytes. The longest of eleven thousand real messages
/// was less than half this long.
pub(crate) const DEFAULT_MAX_MESSAGE_LEN: usize = 16 * 1024;

/// The suffix that marks a message as truncated.
const MARK: &str = "...";

/// A function that rewrites an event before it is published or reported.
pub(crate) type Scrub = Box<dyn Fn(&mut Event) + Send + Sync>;

/// The state shared by all of a broadcaster's recorders.
pub(crate) struct RecorderContext {
    pub(crate) clock: Clock,
    /// The maximum length of a message, in bytes, including `MARK`. Must be at least 1.
    pub(crate) max_message_len: usize,
    pub(crate) scrub: Option<Scrub>,
    /// Whether recorded events have an event time, as events.k8s.io/v1 requires.
    pub(crate) has_event_time: bool,
    /// Whether the bus is inline. If so, the recorders complete the events themselves, because an
    /// inline bus would complete the events while holding its lock.
    pub(crate) is_inline: bool,
    pub(crate) losses: Arc<LossHook>,
    counters: RecorderCounters,
}

#[derive(Default)]
struct RecorderCounters {
    full: AtomicU64,
    closed: AtomicU64,
    disabled: AtomicU64,
    empty_reason: AtomicU64,
    invalid: AtomicU64,
    scrub_panics: AtomicU64,
    truncated: AtomicU64,
}

/// Counts of the events that a broadcaster's recorders have refused or truncated so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct RecorderStats {
    /// See [`Recorded::Full`].
    pub full: u64,
    /// See [`Recorded::Closed`].
    pub closed: u64,
    /// See [`Recorded::Disabled`].
    pub disabled: u64,
    /// See [`Recorded::EmptyReason`].
    pub empty_reason: u64,
    /// See [`Recorded::Invalid`].
    pub invalid: u64,
    /// See [`Recorded::ScrubPanicked`].
    pub scrub_panics: u64,
    /// The number of events whose message was truncated because it was too long. This includes
    /// events that were then refused because the queue was full or closed.
    pub truncated: u64,
    /// The number of times the `on_loss` hook panicked.
    pub hook_panics: u64,
}

impl RecorderStats {
    /// Returns the total number of refused events.
    ///
    /// # Examples
    ///
    /// ```
    /// use eventcast::testing::FakeRecorder;
    ///
    /// let recorder = FakeRecorder::new(1).recorder("tester");
    /// let pod = eventcast::ObjectReference::new("Pod", "web-0");
    /// for reason in ["Started", "Started", ""] {
    ///     recorder.normal(&pod, reason, "up");
    /// }
    /// let stats = recorder.stats();
    /// assert_eq!((stats.full, stats.empty_reason, stats.refused()), (1, 1, 2));
    /// ```
    pub fn refused(&self) -> u64 {
        self.full + self.closed + self.disabled + self.empty_reason + self.invalid + self.scrub_panics
    }
}

impl fmt::Display for RecorderStats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { full, closed, disabled, empty_reason, scrub_panics, .. } = self;
        write!(
            f,
            "refused {} (full {full}, closed {closed}, disabled {disabled}, empty reason {empty_reason}, \
             scrub panics {scrub_panics}",
            self.refused()
        )?;
        if self.invalid > 0 {
            write!(f, ", invalid {}", self.invalid)?;
        }
        write!(f, "), truncated {}", self.truncated)?;
        if self.hook_panics > 0 {
            write!(f, ", hook panics {}", self.hook_panics)?;
        }
        Ok(())
    }
}

impl RecorderContext {
    pub(crate) fn new(
        clock: Clock,
        max_message_len: usize,
        scrub: Option<Scrub>,
        has_event_time: bool,
        is_inline: bool,
        losses: Arc<LossHook>,
    ) -> Self {
        let counters = RecorderCounters::default();
        Self { clock, max_message_len, scrub, has_event_time, is_inline, losses, counters }
    }

    /// Creates a context with the default settings, without a `scrub` function and without an
    /// `on_loss` hook.
    pub(crate) fn with_clock(clock: Clock) -> Self {
        Self::new(clock, DEFAULT_MAX_MESSAGE_LEN, None, false, false, Arc::default())
    }

    pub(crate) fn stats(&self) -> RecorderStats {
        let RecorderCounters { full, closed, disabled, empty_reason, invalid, scrub_panics, truncated } =
            &self.counters;
        // Relaxed, all: these are only counters.
        RecorderStats {
            full: full.load(Ordering::Relaxed),
            closed: closed.load(Ordering::Relaxed),
            disabled: disabled.load(Ordering::Relaxed),
            empty_reason: empty_reason.load(Ordering::Relaxed),
            invalid: invalid.load(Ordering::Relaxed),
            scrub_panics: scrub_panics.load(Ordering::Relaxed),
            truncated: truncated.load(Ordering::Relaxed),
            hook_panics: self.losses.panics(),
        }
    }

    /// Returns the function that completes events after they have been taken out of the queue. If a
    /// `scrub` function has to see the names, the recorders generate them, and nothing is left to
    /// complete. Returns `None` if there is no dispatcher.
    pub(crate) fn completion(&self) -> Option<Completion<Event>> {
        let (clock, has_event_time) = (self.clock.clone(), self.has_event_time);
        let completion: Completion<Event> = match self.scrub {
            None => Box::new(move |event| complete_unchanged(event, &clock, has_event_time)),
            Some(_) => Box::new(|_| ()),
        };
        (!self.is_inline).then_some(completion)
    }

    /// Completes an event that is neither scrubbed nor truncated, unless the dispatcher will
    /// complete the event later.
    #[inline]
    pub(super) fn complete_without_dispatcher(&self, event: &mut Event) {
        if self.is_inline {
            complete_unchanged(event, &self.clock, self.has_event_time);
        }
    }

    /// Generates an event's name, and sets the other fields that must be set before the event is
    /// scrubbed.
    pub(super) fn complete(&self, event: &mut Event) {
        complete(event, &self.clock, self.has_event_time);
    }

    /// Returns whether an event with this message must be scrubbed or truncated before the event is
    /// published.
    pub(super) fn changes(&self, message: &str) -> bool {
        self.scrub.is_some() || message.len() > self.max_message_len
    }

    /// Rewrites the event with the user-supplied function. Returns `false` if the function
    /// panicked, in which case the caller must not publish or report the event.
    pub(super) fn scrub(&self, event: &mut Event) -> bool {
        self.scrub.as_ref().is_none_or(|scrub| catch_panic(|| scrub(event)).is_some())
    }

    /// Returns the part of an unscrubbed event that may be reported. This part consists of the
    /// object, type and reason, which are scrubbed as a separate event. Returns an empty event if
    /// the `scrub` function panics on that event.
    pub(super) fn bare(&self, parts: EventParts) -> Event {
        let mut bare = Event::default();
        bare.involved_object = parts.involved_object;
        bare.type_ = parts.type_;
        bare.reason = parts.reason;
        if self.scrub(&mut bare) { bare } else { Event::default() }
    }

    /// Completes an event after scrubbing. Sets the action if the event needs one, truncates a
    /// message that is too long, and counts the truncation.
    pub(super) fn finish(&self, event: &mut Event) {
        if self.has_event_time {
            timed::set_action(event);
        }
        if event.message.len() <= self.max_message_len {
            return;
        }
        let mark = &MARK[..MARK.len().min(self.max_message_len)];
        let mut end = self.max_message_len - mark.len();
        while !event.message.is_char_boundary(end) {
            end -= 1;
        }
        event.message = format_args!("{}{mark}", &event.message[..end]).into();
        // Relaxed: this is only a counter.
        self.counters.truncated.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a refusal and reports it to the user. If the recorder is disabled, the refusal is
    /// only counted. The caller must already have scrubbed the event, or must pass an event
    /// returned by [`bare`](Self::bare).
    #[cold]
    pub(super) fn refuse(&self, recorded: Recorded, component: &str, event: &Event) -> Recorded {
        let counters = &self.counters;
        let (counter, reason) = match recorded {
            Recorded::Accepted => return recorded,
            Recorded::Full => (&counters.full, LossReason::QueueFull),
            Recorded::Closed => (&counters.closed, LossReason::Closed),
            Recorded::EmptyReason => (&counters.empty_reason, LossReason::EmptyReason),
            Recorded::Invalid(field) => (&counters.invalid, LossReason::Invalid(field)),
            Recorded::ScrubPanicked => (&counters.scrub_panics, LossReason::ScrubPanicked),
            Recorded::Disabled => {
                // Relaxed: this is only a counter.
                counters.disabled.fetch_add(1, Ordering::Relaxed);
                return recorded;
            }
        };
        // Relaxed: this is only a counter.
        counter.fetch_add(1, Ordering::Relaxed);
        self.losses.tell(&Loss::new(reason, component, slice::from_ref(event)));
        recorded
    }
}

/// Completes an event that is neither scrubbed nor truncated.
fn complete_unchanged(event: &mut Event, clock: &Clock, has_event_time: bool) {
    complete(event, clock, has_event_time);
    if has_event_time {
        timed::set_action(event);
    }
}

impl fmt::Debug for RecorderContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RecorderContext")
            .field("clock", &self.clock)
            .field("max_message_len", &self.max_message_len)
            .field("stats", &self.stats())
            .finish_non_exhaustive()
    }
}
