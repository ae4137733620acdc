//! Decides what becomes of an event: stored anew, counted on a stored one, or skipped.
//!
//! Three stages, in client-go's order: [`aggregator`] folds similar events, [`observer`] counts equal ones, [`spam_filter`]
//! cuts off who writes too much. Counting comes before cutting, so skipped events are in the count. Each stage remembers
//! in a [`cache`] of its own, a sharded map by [`key`]s made of an event's fields; [`memory`] joins the shards of the
//! three for many threads and bounds them. A decision is about one event at one moment of the clock.
//!
//! The stages know nothing of each other, so the order in which they are asked does not matter, only what is made of
//! their answers. The budget is asked first, because its key is the beginning of the others.

mod aggregator;
mod cache;
mod caches;
mod counters;
mod decision;
mod key;
mod observer;
mod options;
mod shards;
mod slab;
mod spam_filter;

use std::fmt;

use crate::clock::{Clock, Numbers};
use crate::error::BuildError;
use crate::record::event::{Event, EventPatch, Text, Timestamp, name};
use crate::sync::Arc;

use aggregator::{Aggregator, Group};
use caches::{Caches, EventCache, Shard};
use counters::CorrelatorCounters;
use key::{Base, BudgetKey, Hashes, Key, Lookup, base_fields, text_hash};
use observer::{Seen, Stored};
use spam_filter::{Bucket, BucketRules};

pub use decision::{Correlation, CorrelatorStats, SkipReason};
pub use key::CorrelationKey;
pub use options::{Aggregation, CorrelatorOptions, SpamFilter};

/// Folds, counts and limits events, as client-go's correlator does. `Send` and `Sync`: any number of threads may use one.
///
/// Driven from one thread it decides as client-go does, except for two things that client-go leaves
/// to chance or forgets, and four that it does otherwise:
///
/// * Of a group of similar events the first ones stay events of their own. client-go removes an
///   arbitrary one from a full group.
/// * What the store answered about an event that stands for a group is remembered.
/// * A key is made of fields. client-go strings the fields together, so two events that differ can
///   have one key.
/// * An event that is folded has no entry of its own. client-go adds one for each of its messages,
///   and with a cache that is too small it forgets others for them.
/// * A count that is negative is not continued, and the largest one stays. client-go counts on from
///   a negative one, and goes on with the smallest after the largest.
/// * In the names that the correlator makes, a time before 1970 counts as 1970, and one from 2200
///   on as the beginning of that year. client-go's are negative before 1970 and wrap round after
///   2262.
///
/// Used by several threads, a decision is atomic for its source, object and type (with functions of
/// the user's for the keys: each stage is, for its key), and a count never goes back.
///
/// Memory is bounded by three caches of `lru_cache_size` entries, and one more for each thread that is adding one. What
/// goes is the least recently used; where several threads use a correlator, the latest hundred or so uses of objects in
/// different shards may be taken in another order. An entry has a copy of the names in its key and shares the message of the event that made it; one of
/// the first cache keeps up to `max_events` - 1 messages.
///
/// A decision allocates what its answer is made of, and nothing when it is to skip. Threads wait for each other, for a
/// moment, only where their objects meet in one of 32 shards, or where one thread makes room in another's.
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
    filter: Option<BucketRules>,
    caches: Caches,
    counters: CorrelatorCounters,
}

/// What the second stage says.
struct Observed {
    key: Arc<Key>,
    is_folded: bool,
    occurrence: Occurrence,
}

enum Occurrence {
    /// With its name, if it stands for a group.
    First(Option<Text>),
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
            filter: spam_filter.map(|filter| BucketRules::new(filter, functions.spam_key)),
            caches: Caches::new(lru_cache_size),
            counters: CorrelatorCounters::default(),
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
        let lookup = Lookup { event, base, hashes: Hashes::of(event, &base, self.caches.hasher()), now };
        let custom_group = self.aggregator.as_ref().and_then(|aggregator| aggregator.custom_key(event));
        let fold = match custom_group {
            None => Fold::ByFields,
            Some(texts) => Fold::Done(self.fold_custom(&lookup, texts)),
        };
        let (mut budget, Observed { key, is_folded, occurrence }) =
            self.caches.with(lookup.hashes.base, |shard| self.pass(&lookup, fold, shard));
        let is_repeat = matches!(occurrence, Occurrence::Repeat(_));
        let skip = || {
            self.counters.decided(is_folded, false, is_repeat);
            Correlation::Skip(SkipReason::SpamFilter)
        };
        if matches!(budget, Budget::Exhausted) {
            return skip();
        }
        let mut event = match &self.aggregator {
            Some(aggregator) if is_folded => aggregator.combined(event, now),
            _ => event.clone(),
        };
        occurrence.carry_over_to(&mut event);
        // The user's key is made of the event as it would be stored.
        if let Some(filter) = self.filter.as_ref().filter(|filter| filter.has_custom_key()) {
            budget = self.pass_custom(&lookup, filter, &event);
            if matches!(budget, Budget::Exhausted) {
                return skip();
            }
        }
        self.counters.decided(is_folded, true, is_repeat);
        let key = CorrelationKey(key);
        let decision = if is_repeat {
            Correlation::Update { patch: EventPatch::new(&event), event, key }
        } else {
            Correlation::Create { event, key }
        };
        match budget {
            Budget::Resumed(summary) => self.summarized(&lookup, *summary, decision),
            _ => decision,
        }
    }

    /// Takes in what the store answered to the decision with this key: the resource version, and the name that the event
    /// really has. An event that stands for a group keeps the name that it was given here, as in client-go.
    ///
    /// Not calling it, because the write failed, is fine. Answers may come late or out of order.
    #[doc(alias = "UpdateState")]
    #[allow(clippy::needless_pass_by_value, reason = "a key is for one answer")]
    pub fn confirm(&self, key: CorrelationKey, stored: &Event) {
        self.confirm_as(&key, stored, false);
    }

    /// As [`confirm`](Self::confirm), where `renamed` says that the name that was given here had to be given up, also
    /// that of a group. Answers with the name by which the event goes from now on.
    pub(crate) fn confirm_as(&self, key: &CorrelationKey, stored: &Event, renamed: bool) -> Text {
        let key = &key.0;
        let keeps_name = !renamed
            && key.is_of_group()
            && !self.aggregator.as_ref().is_some_and(Aggregator::keeps_stored_name);
        self.caches.with(key.hash, |shard| {
            let (_, seen) = entry_of(key, &mut shard.events);
            seen.confirm(stored, keeps_name);
            seen.name().clone()
        })
    }

    /// What has been decided so far.
    pub fn stats(&self) -> CorrelatorStats {
        self.counters.sum(self.caches.evicted())
    }

    /// All that lies in the shard of the event's own keys.
    fn pass(&self, lookup: &Lookup<'_>, fold: Fold, shard: &mut Shard<'_>) -> (Budget, Observed) {
        let Shard { groups, events, budgets } = shard;
        let Lookup { event, hashes, now, .. } = *lookup;
        let mut base = None;
        let mut budget = Budget::Allowed;
        if let Some(filter) = self.filter.as_ref().filter(|filter| !filter.has_custom_key()) {
            let make = || (BudgetKey::Base(Arc::new(Base::of(&lookup.base))), filter.full(now));
            let (key, bucket) = budgets.entry(hashes.base, |key| key.is_base(&lookup.base), make);
            budget = self.budget(lookup, filter, (key, hashes.base), bucket, events);
            base = key.base();
        }
        let folded = match (fold, &self.aggregator) {
            (Fold::Done(folded), _) => folded,
            (Fold::ByFields, None) => None,
            (Fold::ByFields, Some(aggregator)) => {
                let make = || (Arc::new(Key::group(lookup, base)), Group::new(now));
                let (key, group) = groups.entry(hashes.group, |key| key.is_group(lookup, base), make);
                base = base.or(key.base());
                let is_folded = aggregator.folds(group, &event.message, hashes.message, now);
                is_folded.then(|| self.observe_group(lookup, key, events))
            }
        };
        let observed = folded.unwrap_or_else(|| {
            let make = || (Arc::new(Key::event(lookup, base)), Seen::nothing());
            let (key, seen) = events.entry(hashes.event, |key| key.is_event(lookup, base), make);
            let occurrence = if seen.count() {
                Occurrence::Repeat(seen.stored())
            } else {
                seen.store(event);
                Occurrence::First(None)
            };
            Observed { key: key.clone(), is_folded: false, occurrence }
        });
        (budget, observed)
    }

    /// The last stage, for a budget that has been found.
    fn budget(
        &self,
        lookup: &Lookup<'_>,
        filter: &BucketRules,
        (key, hash): (&BudgetKey, u64),
        bucket: &mut Bucket,
        events: &mut EventCache<'_>,
    ) -> Budget {
        if filter.exempts(lookup.event) {
            return Budget::Allowed;
        }
        match filter.take(bucket, lookup.now) {
            None => Budget::Exhausted,
            Some(0) => Budget::Allowed,
            // The summary is counted as an event is.
            Some(skipped) => {
                let key = Arc::new(Key::summary(key, hash));
                let (_, seen) = entry_of(&key, events);
                let occurrence = self.observe_own(lookup, seen, Numbers::take);
                Budget::Resumed(Box::new((skipped, Observed { key, is_folded: false, occurrence })))
            }
        }
    }

    /// The first two stages where the user has said what is similar; `None` if the event stays one of its own.
    fn fold_custom(&self, lookup: &Lookup<'_>, (group, member): (Text, Text)) -> Option<Observed> {
        let aggregator = self.aggregator.as_ref()?;
        let [hash, member_hash] = [&group, &member].map(|text| text_hash(text, self.caches.hasher()));
        self.caches.with(hash, |shard| {
            let make = || (Arc::new(Key::custom(group.clone(), hash)), Group::new(lookup.now));
            let (key, group) = shard.groups.entry(hash, |key| key.is_custom(&group), make);
            let is_folded = aggregator.folds(group, &member, member_hash, lookup.now);
            is_folded.then(|| self.observe_group(lookup, key, &mut shard.events))
        })
    }

    /// The second stage for the event that stands for a group.
    fn observe_group(&self, lookup: &Lookup<'_>, key: &Arc<Key>, events: &mut EventCache<'_>) -> Observed {
        let (key, seen) = entry_of(key, events);
        let number = match &self.aggregator {
            Some(aggregator) if aggregator.has_own_names() => Numbers::take,
            _ => Numbers::share,
        };
        Observed { key: key.clone(), is_folded: true, occurrence: self.observe_own(lookup, seen, number) }
    }

    /// Counts an event of the correlator's own making, or names it: as client-go does, by the moment, but never as a
    /// recorder has named an event of its own.
    fn observe_own(
        &self,
        lookup: &Lookup<'_>,
        seen: &mut Seen,
        number: fn(&Numbers, u64, u64) -> u64,
    ) -> Occurrence {
        if seen.count() {
            return Occurrence::Repeat(seen.stored());
        }
        let object = &lookup.event.involved_object.name;
        let number = number(self.clock.numbers(), name::hash(object), lookup.now.name_number());
        let name = name::plain(object, number);
        seen.store_own(name.clone(), lookup.now);
        Occurrence::First(Some(name))
    }

    /// The last stage where the user has said what shares a budget, by the event as it would be stored.
    fn pass_custom(&self, lookup: &Lookup<'_>, filter: &BucketRules, result: &Event) -> Budget {
        let Some(budget) = filter.custom_key(result) else { return Budget::Allowed };
        let hash = text_hash(&budget, self.caches.hasher());
        self.caches.with(hash, |shard| {
            let Shard { events, budgets, .. } = shard;
            let make = || (BudgetKey::Custom(budget.clone()), filter.full(lookup.now));
            let (key, bucket) = budgets.entry(hash, |key| key.is_custom(&budget), make);
            self.budget(lookup, filter, (key, hash), bucket, events)
        })
    }

    fn summarized(
        &self,
        lookup: &Lookup<'_>,
        (skipped, Observed { key, occurrence, .. }): (u64, Observed),
        event: Correlation,
    ) -> Correlation {
        self.counters.summarized();
        let is_repeat = matches!(occurrence, Occurrence::Repeat(_));
        let mut summary = BucketRules::summary(lookup.event, skipped, lookup.now);
        occurrence.carry_over_to(&mut summary);
        let key = CorrelationKey(key);
        let summary = if is_repeat {
            Correlation::Update { patch: EventPatch::new(&summary), event: summary, key }
        } else {
            Correlation::Create { event: summary, key }
        };
        Correlation::Summarized { summary: Box::new(summary), event: Box::new(event) }
    }
}

impl Occurrence {
    fn carry_over_to(self, event: &mut Event) {
        match self {
            Self::First(None) => {}
            Self::First(Some(name)) => event.metadata.name = name,
            Self::Repeat(stored) => stored.carry_over_to(event),
        }
    }
}

/// The spam filter's verdict.
enum Budget {
    Allowed,
    Exhausted,
    /// Allowed again. A summary tells of the number of events that were skipped.
    Resumed(Box<(u64, Observed)>),
}

/// Whether an event is folded.
enum Fold {
    /// By its fields; yet to be found out.
    ByFields,
    /// As the user's key has said.
    Done(Option<Observed>),
}

/// The entry of a key that exists already.
fn entry_of<'a>(key: &Arc<Key>, events: &'a mut EventCache<'_>) -> (&'a Arc<Key>, &'a mut Seen) {
    let same = |other: &Arc<Key>| Arc::ptr_eq(key, other) || key == other;
    events.entry(key.hash, same, || (key.clone(), Seen::nothing()))
}

impl fmt::Debug for EventCorrelator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EventCorrelator").field("stats", &self.stats()).finish_non_exhaustive()
    }
}
