//! A correlator's decisions and counters.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::key::CorrelationKey;
use crate::record::event::Event;

/// A correlator's decision about an event.
///
/// # Examples
///
/// ```
/// use eventcast::correlator::{Correlation, EventCorrelator};
/// use eventcast::{CorrelatorOptions, Event, EventSink, MemorySink, SinkError};
///
/// fn store(sink: &MemorySink, correlator: &EventCorrelator, decision: Correlation) -> Result<(), SinkError> {
///     match decision {
///         Correlation::Create { event, key } => correlator.confirm(key, &sink.create(&event)?),
///         Correlation::Update { event, key } => correlator.confirm(key, &sink.patch(&event)?),
///         _ => {}
///     }
///     Ok(())
/// }
///
/// let (sink, correlator) = (MemorySink::new(), EventCorrelator::new(CorrelatorOptions::default())?);
/// let mut event = Event::default();
/// event.metadata.name = "web-0.1".into();
/// event.count = 1;
/// for _ in 0..3 {
///     store(&sink, &correlator, correlator.correlate(&event))?;
/// }
/// assert_eq!((sink.len(), sink.events()[0].count), (1, 3));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Correlation {
    /// Store the event as a new event.
    Create {
        /// The event, or the aggregate event for a group of similar events.
        event: Event,
        /// The key for [`EventCorrelator::confirm`](super::EventCorrelator::confirm).
        key: CorrelationKey,
    },
    /// Update an event that is already stored, because this event is counted as part of the stored
    /// event.
    Update {
        /// The event to store. The event has the stored event's name, resource version and first
        /// timestamp, this event's message and timestamp, and a new count.
        event: Event,
        /// The key for [`EventCorrelator::confirm`](super::EventCorrelator::confirm).
        key: CorrelationKey,
    },
    /// Do nothing, because the spam filter's budget for the event is used up. The event has been
    /// counted.
    Skip,
    /// Do nothing for now, because the budget is used up. The store has the event, but does not
    /// have the new count yet. Only
    /// [`correlate_or_hold`](super::EventCorrelator::correlate_or_hold) returns this decision.
    Held {
        /// The event as it should eventually be stored, as in [`Update`](Self::Update).
        event: Event,
        /// The key for [`EventCorrelator::confirm`](super::EventCorrelator::confirm). A later
        /// decision with an equal key replaces this decision.
        key: CorrelationKey,
    },
}

/// A decision not to skip an event, without the event and the key.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    Create,
    Update,
    Held,
}

/// The counters of a correlator's decisions so far, in events.
///
/// While no call is running, `created` + `updated` + `filtered` is the number of correlated events.
///
/// # Examples
///
/// ```
/// use eventcast::correlator::EventCorrelator;
/// use eventcast::{CorrelatorOptions, Event};
///
/// let correlator = EventCorrelator::new(CorrelatorOptions::default())?;
/// correlator.correlate(&Event::default());
/// let text = "created 1, updated 0, aggregated 0, filtered 0, evicted 0";
/// assert_eq!(correlator.stats().to_string(), text);
/// # Ok::<(), eventcast::error::BuildError>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct CorrelatorStats {
    /// Events to be stored as new events.
    pub created: u64,
    /// Events to be counted as part of a stored event.
    pub updated: u64,
    /// Events that were folded into an aggregate event for a group, even if the spam filter then
    /// skipped the events.
    pub aggregated: u64,
    /// Events that the spam filter skipped or held.
    pub filtered: u64,
    /// Entries evicted from full caches. If `evicted` grows, `cache_size` is too small. Evicted
    /// counts restart from one, and evicted budgets are full when they restart.
    pub evicted: u64,
}

impl fmt::Display for CorrelatorStats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { created, updated, aggregated, filtered, evicted } = self;
        write!(
            f,
            "created {created}, updated {updated}, aggregated {aggregated}, filtered {filtered}, evicted {evicted}"
        )
    }
}
