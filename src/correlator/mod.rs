//! Decides what becomes of an event: stored anew, counted on a stored one, or skipped.
//!
//! Three stages, in client-go's order: [`aggregator`] folds similar events, [`observer`] counts equal ones, [`spam_filter`]
//! cuts off who writes too much. Counting comes before cutting, so skipped events are in the count. Each stage remembers
//! in an [`lru`] cache of its own, by [`key`]s made of an event's fields. A decision is about one event at one moment of the
//! clock; nothing is locked between the stages.

mod aggregator;
mod key;
mod lru;
mod observer;
mod options;
mod spam_filter;

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::clock::Clock;
use crate::error::BuildError;
use crate::event::{Event, EventPatch, Timestamp, name};
use crate::sync::atomic::{AtomicU64, Ordering};

use aggregator::Aggregator;
use key::KeyRef;
use observer::Observer;
use spam_filter::Filter;

pub use key::CorrelationKey;
pub use options::{Aggregation, CorrelatorOptions, SpamFilter};

/// What is to become of an event.
#[doc(alias = "EventCorrelateResult")]
#[doc(alias = "Skip")]
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Correlation {
    /// Store it as a new event.
    Create {
        /// The event, or one that stands for it and others like it.
        event: Event,
        /// For [`EventCorrelator::confirm`].
        key: CorrelationKey,
    },
    /// It is one that is stored already: change that.
    Update {
        /// The result: the stored event's name, resource version and first time, this one's message and time, the new count.
        event: Event,
        /// What changes, as client-go would send it.
        patch: EventPatch,
        /// For [`EventCorrelator::confirm`].
        key: CorrelationKey,
    },
    /// Do nothing. It has been counted.
    Skip(SkipReason),
}

/// Why an event is skipped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum SkipReason {
    /// Its source has used up the budget for its object.
    SpamFilter,
}

impl fmt::Display for SkipReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::SpamFilter => "spam filter",
        })
    }
}

/// What a correlator has decided so far, in events.
///
/// Whenever no call is running, `created` + `updated` + `filtered` is the number of events that were correlated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct CorrelatorStats {
    /// To be stored anew.
    pub created: u64,
    /// To be counted on a stored event.
    pub updated: u64,
    /// Folded into an event that stands for a group, whatever became of that then.
    pub aggregated: u64,
    /// Skipped by the spam filter.
    pub filtered: u64,
    /// Entries of the caches that were forgotten to make room; where this grows, counts start again from one and budgets
    /// are full again, and `lru_cache_size` is too small.
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

/// Folds, counts and limits events, as client-go's correlator does. `Send` and `Sync`: any number of threads may use one.
///
/// Driven from one thread it decides exactly as client-go, given two rules for what client-go leaves to chance or
/// forgets: of a group of similar events the first ones always stay events of their own, and what the store answered
/// about an event that stands for a group is remembered. Used by several threads, each stage of each decision is
/// atomic for its key, and a count never goes back.
///
/// Memory is bounded by three caches of `lru_cache_size` entries. An entry shares the long texts of the event that made
/// it; one of the first cache keeps up to `max_events` - 1 messages.
///
/// # Examples
///
/// ```
/// use eventcast::{Correlation, CorrelatorOptions, Event, EventCorrelator};
///
/// let correlator = EventCorrelator::new(CorrelatorOptions::default())?;
/// let mut event = Event::default();
/// event.reason = "BackOff".into();
/// event.message = "restarting".into();
/// event.count = 1;
///
/// let Correlation::Create { event: created, key } = correlator.correlate(&event) else { panic!() };
/// // ... is stored, and the store answers with what it stored:
/// correlator.confirm(key, &created);
///
/// let Correlation::Update { event: updated, patch, .. } = correlator.correlate(&event) else { panic!() };
/// assert_eq!(updated.count, 2);
/// assert_eq!(patch.as_str(), r#"{"count":2,"lastTimestamp":null,"message":"restarting"}"#);
/// # Ok::<(), eventcast::BuildError>(())
/// ```
pub struct EventCorrelator {
    clock: Clock,
    aggregator: Option<Aggregator>,
    observer: Observer,
    filter: Option<Filter>,
    created: AtomicU64,
    updated: AtomicU64,
    aggregated: AtomicU64,
    filtered: AtomicU64,
}

impl EventCorrelator {
    /// A correlator that has seen nothing yet.
    ///
    /// # Errors
    ///
    /// Names the option that is out of range. Zero is never a default in disguise.
    #[doc(alias = "NewEventCorrelator")]
    #[doc(alias = "NewEventCorrelatorWithOptions")]
    pub fn new(options: CorrelatorOptions) -> Result<Self, BuildError> {
        options.check()?;
        let CorrelatorOptions { lru_cache_size, aggregation, spam_filter, functions, clock } = options;
        Ok(Self {
            clock,
            aggregator: aggregation.map(|aggregation| {
                Aggregator::new(
                    &aggregation,
                    lru_cache_size,
                    functions.aggregate_key,
                    functions.aggregate_message,
                )
            }),
            observer: Observer::new(lru_cache_size),
            filter: spam_filter.map(|filter| Filter::new(filter, lru_cache_size, functions.spam_key)),
            created: AtomicU64::new(0),
            updated: AtomicU64::new(0),
            aggregated: AtomicU64::new(0),
            filtered: AtomicU64::new(0),
        })
    }

    /// Decides about one event, and remembers it.
    ///
    /// The event need not have been stored when the next equal one is correlated, but it is taken for stored: what comes
    /// next is an update. A store that then does not find it must create the event of the update.
    ///
    /// # Panics
    ///
    /// Only when one of the functions of the options does; then the event may have been counted already.
    #[doc(alias = "EventCorrelate")]
    pub fn correlate(&self, event: &Event) -> Correlation {
        let now = Timestamp::from(self.clock.now());
        let folded = self.aggregator.as_ref().and_then(|aggregator| aggregator.fold(event, now));
        let (event, key, is_repeat) = if let Some((mut combined, group)) = folded {
            count(&self.aggregated);
            let (key, is_repeat) = self.observer.observe(&group, &mut combined, || {
                // As client-go's, but never one that a recorder has given to an event of its own.
                let object = &event.involved_object.name;
                let number = self.clock.numbers().share(name::hash(object), now.name_number());
                Some(name::plain(object, number))
            });
            (combined, key, is_repeat)
        } else {
            let mut own = event.clone();
            let (key, is_repeat) = self.observer.observe(&KeyRef::Event(event), &mut own, || None);
            (own, key, is_repeat)
        };
        let key = CorrelationKey(key);
        if self.filter.as_ref().is_some_and(|filter| !filter.accepts(&event, now)) {
            count(&self.filtered);
            return Correlation::Skip(SkipReason::SpamFilter);
        }
        if is_repeat {
            count(&self.updated);
            Correlation::Update { patch: EventPatch::new(&event), event, key }
        } else {
            count(&self.created);
            Correlation::Create { event, key }
        }
    }

    /// Takes in what the store answered to the decision with this key: the resource version, and the name that the event
    /// really has. An event that stands for a group keeps the name that it was given here, as in client-go.
    ///
    /// Not calling it, because the write failed, is fine. Answers may come late or out of order.
    #[doc(alias = "UpdateState")]
    #[allow(clippy::needless_pass_by_value, reason = "a key is for one answer")]
    pub fn confirm(&self, key: CorrelationKey, stored: &Event) {
        self.observer.confirm(&key.0, stored);
    }

    /// What has been decided so far.
    pub fn stats(&self) -> CorrelatorStats {
        let evicted = [
            self.aggregator.as_ref().map_or(0, Aggregator::evicted),
            self.observer.evicted(),
            self.filter.as_ref().map_or(0, Filter::evicted),
        ];
        CorrelatorStats {
            created: self.created.load(Ordering::Relaxed),
            updated: self.updated.load(Ordering::Relaxed),
            aggregated: self.aggregated.load(Ordering::Relaxed),
            filtered: self.filtered.load(Ordering::Relaxed),
            evicted: evicted.iter().sum(),
        }
    }
}

/// Relaxed: nothing is read on the strength of a counter.
fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}

impl fmt::Debug for EventCorrelator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EventCorrelator").field("stats", &self.stats()).finish_non_exhaustive()
    }
}
