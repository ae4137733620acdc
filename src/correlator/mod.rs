//! Decides what becomes of an event: stored anew, counted on a stored one, or skipped.
//!
//! Three stages, in client-go's order: [`aggregator`] folds similar events, [`observer`] counts equal ones, [`spam_filter`]
//! cuts off who writes too much. Counting comes before cutting, so skipped events are in the count. Each stage remembers
//! in a [`cache`] of its own, by [`key`]s made of an event's fields; [`memory`] cuts the three into shards for many threads
//! and bounds them. A decision is about one event at one moment of the clock.
//!
//! The stages know nothing of each other, so the order in which they are asked does not matter, only what is made of
//! their answers. The budget is asked first, because its key is the beginning of the others.

mod aggregator;
mod cache;
mod decision;
mod key;
mod memory;
mod observer;
mod options;
mod spam_filter;

use std::fmt;

use crate::clock::Clock;
use crate::error::BuildError;
use crate::event::{Event, EventPatch, Text, Timestamp, name};
use crate::sync::{Arc, stamp};

use aggregator::{Aggregator, Group};
use key::{Base, Hashes, Key, Turn, base_fields, text_hash};
use memory::{Added, BudgetKey, Counts, Events, Memory, Shard};
use observer::{Seen, Stored};
use spam_filter::Filter;

pub use decision::{Correlation, CorrelatorStats, SkipReason};
pub use key::CorrelationKey;
pub use options::{Aggregation, CorrelatorOptions, SpamFilter};

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
    filter: Option<Filter>,
    memory: Memory,
    hasher: ahash::RandomState,
}

/// What the second stage says.
struct Observed {
    key: Arc<Key>,
    is_folded: bool,
    found: Found,
}

enum Found {
    /// With its name, if it stands for a group.
    New(Option<Text>),
    Repeat(Stored),
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
                Aggregator::new(aggregation, functions.aggregate_key, functions.aggregate_message)
            }),
            filter: spam_filter.map(|filter| Filter::new(filter, functions.spam_key)),
            memory: Memory::new(lru_cache_size),
            // Seeded by the system: the names of objects come from outside.
            hasher: ahash::RandomState::new(),
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
        let base = base_fields(event);
        let turn = Turn { event, base, hashes: Hashes::of(event, &base, &self.hasher), now, stamp: stamp() };
        let custom_group = self.aggregator.as_ref().and_then(|aggregator| aggregator.custom_key(event));
        let folded = match custom_group {
            None => Fold::ByFields,
            Some(texts) => Fold::Done(self.fold_custom(&turn, texts)),
        };
        let (is_accepted, observed) =
            self.memory.with(turn.hashes.base, |shard, added| self.pass(&turn, folded, shard, added));
        if !is_accepted {
            return Correlation::Skip(SkipReason::SpamFilter);
        }
        let Observed { key, is_folded, found } = observed;
        let mut event = match &self.aggregator {
            Some(aggregator) if is_folded => aggregator.combined(event, now),
            _ => event.clone(),
        };
        let is_repeat = match found {
            Found::New(name) => {
                if let Some(name) = name {
                    event.metadata.name = name;
                }
                false
            }
            Found::Repeat(stored) => {
                stored.carry_over_to(&mut event);
                true
            }
        };
        if let Some(budget) = self.filter.as_ref().and_then(|filter| filter.custom_key(&event)) {
            if !self.accepts_custom(&turn, budget, is_repeat) {
                return Correlation::Skip(SkipReason::SpamFilter);
            }
        }
        let key = CorrelationKey(key);
        if is_repeat {
            Correlation::Update { patch: EventPatch::new(&event), event, key }
        } else {
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
        let key = key.0;
        let keeps_name = !key.is_of_one_event();
        self.memory.with(key.place, |shard, added| {
            let (_, seen) = entry_of(&key, &mut shard.events, stamp(), added);
            seen.confirm(stored, keeps_name);
        });
    }

    /// What has been decided so far.
    pub fn stats(&self) -> CorrelatorStats {
        let mut stats = CorrelatorStats::default();
        self.memory.each_shard(|shard| {
            let Counts { created, updated, aggregated, filtered, evicted } = shard.counts;
            stats.created += created;
            stats.updated += updated;
            stats.aggregated += aggregated;
            stats.filtered += filtered;
            stats.evicted += evicted;
        });
        stats
    }

    /// All that lies in the shard of the event's own keys.
    fn pass(&self, turn: &Turn<'_>, fold: Fold, shard: &mut Shard, added: &mut Added) -> (bool, Observed) {
        let Shard { groups, events, budgets, counts } = shard;
        let Turn { event, hashes, now, stamp, .. } = *turn;
        let mut base = None;
        let mut is_accepted = true;
        let filter = self.filter.as_ref();
        if let Some(filter) = filter.filter(|filter| !filter.has_custom_key()) {
            let make = || (BudgetKey::Base(Arc::new(Base::of(&turn.base))), filter.full(now));
            let (key, bucket, is_new) =
                budgets.entry(hashes.base, stamp, |key| key.is_base(&turn.base), make);
            added.budget = is_new;
            is_accepted = filter.take(bucket, now);
            base = key.base();
        }
        let folded = match (fold, &self.aggregator) {
            (Fold::Done(folded), _) => folded,
            (Fold::ByFields, None) => None,
            (Fold::ByFields, Some(aggregator)) => {
                let make = || (Arc::new(Key::group(turn, base)), Group::new(now));
                let (key, group, is_new) =
                    groups.entry(hashes.group, stamp, |key| key.is_group(turn, base), make);
                added.group = is_new;
                base = base.or(key.base());
                let is_folded = aggregator.folds(group, &event.message, hashes.message, now);
                is_folded.then(|| self.observe_group(turn, key, events, added))
            }
        };
        let observed = folded.unwrap_or_else(|| {
            let make = || (Arc::new(Key::event(turn, base)), Seen::nothing());
            let (key, seen, is_new) = events.entry(hashes.event, stamp, |key| key.is_event(turn, base), make);
            added.event = is_new;
            let found = if seen.count() {
                Found::Repeat(seen.stored())
            } else {
                seen.store(event);
                Found::New(None)
            };
            Observed { key: key.clone(), is_folded: false, found }
        });
        counts.aggregated += u64::from(observed.is_folded);
        // A user's filter has yet to be asked.
        if filter.is_none_or(|filter| !filter.has_custom_key()) {
            counts.decided(is_accepted, matches!(observed.found, Found::Repeat(_)));
        }
        (is_accepted, observed)
    }

    /// The first two stages where the user has said what is similar; `None` if the event stays one of its own.
    fn fold_custom(&self, turn: &Turn<'_>, (group, member): (Text, Text)) -> Option<Observed> {
        let aggregator = self.aggregator.as_ref()?;
        let [hash, member_hash] = [&group, &member].map(|text| text_hash(text, &self.hasher));
        self.memory.with(hash, |shard, added| {
            let make = || (Arc::new(Key::custom(group.clone(), hash)), Group::new(turn.now));
            let (key, group, is_new) =
                shard.groups.entry(hash, turn.stamp, |key| key.is_custom(&group), make);
            added.group = is_new;
            let is_folded = aggregator.folds(group, &member, member_hash, turn.now);
            is_folded.then(|| self.observe_group(turn, key, &mut shard.events, added))
        })
    }

    /// The second stage for the event that stands for a group.
    fn observe_group(
        &self,
        turn: &Turn<'_>,
        key: &Arc<Key>,
        events: &mut Events,
        added: &mut Added,
    ) -> Observed {
        let (key, seen) = entry_of(key, events, turn.stamp, added);
        let found = if seen.count() {
            Found::Repeat(seen.stored())
        } else {
            // As client-go's, but never one that a recorder has given to an event of its own.
            let object = &turn.event.involved_object.name;
            let number = self.clock.numbers().share(name::hash(object), turn.now.name_number());
            let name = name::plain(object, number);
            seen.store_combined(name.clone(), turn.now);
            Found::New(Some(name))
        };
        Observed { key: key.clone(), is_folded: true, found }
    }

    /// The last stage where the user has said what shares a budget.
    fn accepts_custom(&self, turn: &Turn<'_>, budget: Text, is_repeat: bool) -> bool {
        let Some(filter) = &self.filter else { return true };
        let hash = text_hash(&budget, &self.hasher);
        self.memory.with(hash, |shard, added| {
            let make = || (BudgetKey::Custom(budget.clone()), filter.full(turn.now));
            let (_, bucket, is_new) =
                shard.budgets.entry(hash, turn.stamp, |key| key.is_custom(&budget), make);
            added.budget = is_new;
            let is_accepted = filter.take(bucket, turn.now);
            shard.counts.decided(is_accepted, is_repeat);
            is_accepted
        })
    }
}

/// Whether an event is folded.
enum Fold {
    /// By its fields; yet to be found out.
    ByFields,
    /// As the user's key has said.
    Done(Option<Observed>),
}

/// The entry of a key that exists already.
fn entry_of<'a>(
    key: &Arc<Key>,
    events: &'a mut Events,
    stamp: u64,
    added: &mut Added,
) -> (&'a Arc<Key>, &'a mut Seen) {
    let same = |other: &Arc<Key>| Arc::ptr_eq(key, other) || key == other;
    let (key, seen, is_new) = events.entry(key.hash, stamp, same, || (key.clone(), Seen::nothing()));
    added.event = is_new;
    (key, seen)
}

impl fmt::Debug for EventCorrelator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EventCorrelator").field("stats", &self.stats()).finish_non_exhaustive()
    }
}
