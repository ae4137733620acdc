//! A sink that keeps a part of the events that it receives.

use std::fmt;
use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::time::Duration;

use crate::catch::catch_panic_message;
use crate::record::event::{Event, Stored};

use super::{EventSink, NeededThread, SinkError, SinkOp, WriteOrder};

/// A sink that passes on to another sink only the operations about events that a function lets
/// through. It answers the others as if they had been stored, and keeps them nowhere.
///
/// Let the function look at what stays the same through an event's life, such as type, reason and
/// object.
///
/// - If the function lets through an event that it has refused before: the sink has no event of
///   that name, and a recording creates the event, count and all.
/// - If the function refuses an event that it has let through before: that event stays in the store
///   as it was.
///
/// If the function panics, the filter catches the panic and rejects that event. The other events
/// are not affected.
///
/// For a recording whose only sink would be this one,
/// [`RecordingBuilder::filter`](crate::record::RecordingBuilder::filter) is better: an event that
/// it refuses does not even enter the queue. Use this sink as a part of a
/// [`Tee`](crate::sink::Tee).
///
/// # Examples
///
/// ```
/// use eventcast::sink::Filter;
/// use eventcast::{Event, EventSink, EventType, MemorySink};
///
/// let store = MemorySink::new();
/// let sink = Filter::new(|event: &Event| event.event_type() == Some(EventType::Warning), store.clone());
/// let mut event = Event::default();
/// event.metadata.name = "web-0.1".into();
/// event.type_ = EventType::Normal.into();
/// assert_eq!(sink.create(&event)?, event);
/// assert!(store.is_empty());
///
/// event.type_ = EventType::Warning.into();
/// sink.create(&event)?;
/// assert_eq!(store.len(), 1);
/// # Ok::<(), eventcast::SinkError>(())
/// ```
#[derive(Clone)]
pub struct Filter<F, S> {
    keep: F,
    sink: S,
}

impl<F, S> Filter<F, S>
where
    F: Fn(&Event) -> bool + Send + Sync + 'static,
    S: EventSink,
{
    /// Creates a sink that passes on to `sink` the events for which `keep` returns true.
    ///
    /// # Examples
    ///
    /// ```
    /// use eventcast::sink::Filter;
    /// use eventcast::{Event, EventSink, MemorySink};
    ///
    /// let store = MemorySink::new();
    /// let sink = Filter::new(|event: &Event| event.reason != "Pulled", store.clone());
    /// let mut event = Event::default();
    /// event.metadata.name = "web-0.1".into();
    /// for reason in ["Pulled", "Started"] {
    ///     event.reason = reason.into();
    ///     sink.create(&event)?;
    /// }
    /// assert_eq!(store.len(), 1);
    /// assert_eq!(store.events()[0].reason, "Started");
    /// # Ok::<(), eventcast::SinkError>(())
    /// ```
    pub fn new(keep: F, sink: S) -> Self {
        Self { keep, sink }
    }

    fn keeps(&self, event: &Event) -> Result<bool, SinkError> {
        catch_panic_message(|| (self.keep)(event))
            .map_err(|text| SinkError::rejected(format!("the function of a filter panicked: {text}")))
    }

    fn one(
        &self,
        event: &Event,
        pass: impl FnOnce(&S) -> Result<Event, SinkError>,
    ) -> Result<Event, SinkError> {
        if self.keeps(event)? { pass(&self.sink) } else { Ok(event.clone()) }
    }

    /// Has the sink do the operations without an answer, and returns its answers to these.
    fn apply_some<A>(&self, batch: &mut [SinkOp], answers: &[Option<A>]) -> Vec<Result<Stored, SinkError>> {
        let mut places: Vec<&mut SinkOp> =
            batch.iter_mut().zip(answers).filter(|(_, answer)| answer.is_none()).map(|(op, _)| op).collect();
        let mut ops: Vec<SinkOp> =
            places.iter_mut().map(|place| mem::replace(*place, SinkOp::Taken)).collect();
        let answers = catch_unwind(AssertUnwindSafe(|| self.sink.apply(&mut ops)));
        // The caller needs the events that the sink has not taken, also after a panic.
        for (place, op) in places.into_iter().zip(ops) {
            *place = op;
        }
        answers.unwrap_or_else(|panic| resume_unwind(panic))
    }
}

impl<F, S> EventSink for Filter<F, S>
where
    F: Fn(&Event) -> bool + Send + Sync + 'static,
    S: EventSink,
{
    fn create(&self, event: &Event) -> Result<Event, SinkError> {
        self.one(event, |sink| sink.create(event))
    }

    fn write_order(&self) -> WriteOrder {
        self.sink.write_order()
    }

    fn ttl(&self) -> Option<Duration> {
        self.sink.ttl()
    }

    fn needed_thread(&self) -> Option<NeededThread> {
        self.sink.needed_thread()
    }

    fn refresh_every(&self) -> Option<Duration> {
        self.sink.refresh_every()
    }

    fn update(&self, event: &Event) -> Result<Event, SinkError> {
        self.one(event, |sink| sink.update(event))
    }

    fn patch(&self, event: &Event) -> Result<Event, SinkError> {
        self.one(event, |sink| sink.patch(event))
    }

    fn apply(&self, batch: &mut [SinkOp]) -> Vec<Result<Stored, SinkError>> {
        // The answers that the filter gives itself. `None` leaves the answer to the sink.
        let mine: Vec<Option<Result<Stored, SinkError>>> = batch
            .iter()
            .map(|op| match self.keeps(op.event()) {
                Ok(true) => None,
                Ok(false) => Some(Ok(op.event().into())),
                Err(error) => Some(Err(error)),
            })
            .collect();
        let kept = mine.iter().filter(|answer| answer.is_none()).count();
        let answers = if kept == batch.len() {
            return self.sink.apply(batch);
        } else if kept == 0 {
            Vec::new()
        } else {
            self.apply_some(batch, &mine)
        };
        let mut answers = answers.into_iter();
        let missing = || Err(SinkError::rejected("the sink gave no answer"));
        mine.into_iter().map(|mine| mine.unwrap_or_else(|| answers.next().unwrap_or_else(missing))).collect()
    }
}

impl<F, S: fmt::Debug> fmt::Debug for Filter<F, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Filter").field("sink", &self.sink).finish_non_exhaustive()
    }
}
