//! Decides whether an event is stored as a new event, counted as a repeat of a stored event, or
//! skipped.
//!
//! The correlator has three stages, listed in client-go's order:
//!
//! * [`aggregator`] folds similar events.
//! * [`observer`] counts equal events.
//! * [`spam_filter`] limits a source that records too many events about an object.
//!
//! Counting precedes limiting, so the counts include skipped events. Each stage keeps its state in
//! a separate [`cache`]. The [`key`]s consist of an event's fields, and all keys of an event begin
//! with the same [`base`]. A map holds all entries with the same base together, in small sets
//! ([`few`]). A full cache evicts its least recently used entry. Each decision concerns one event
//! and uses a single clock reading, which a recording shares between all events that it takes
//! together.
//!
//! The stages are independent, so the correlator may run them in any order. The correlator checks
//! the budget first, because the budget's key is a prefix of the other keys.

mod aggregator;
mod base;
mod build;
mod cache;
mod counters;
mod decision;
mod few;
mod key;
mod observer;
mod options;
mod spam_filter;
mod stage_options;

use std::fmt;

use crate::catch::catch_panic;
use crate::clock::{Clock, Numbers};
use crate::record::event::{Event, Stored, Text, Timestamp, name};

use aggregator::{Aggregator, Group};
use base::BaseRef;
use cache::{Access, Caches};
use counters::CorrelatorCounters;
use key::{KeyRef, Lookup, text_hash};
use observer::{Observation, Seen};
use options::SkipFn;
use spam_filter::BucketRules;

pub(crate) use decision::Verdict;
pub use decision::{Correlation, CorrelatorStats};
pub use key::CorrelationKey;
pub use options::CorrelatorOptions;
pub use stage_options::{Aggregation, SpamFilter};

/// A correlator that folds, counts and limits events, like client-go's correlator. An
/// `EventCorrelator` is `Send` and `Sync`, so any number of threads may share a correlator.
///
/// When used by one thread, a correlator makes the same decisions as client-go, with two exceptions
/// where client-go is nondeterministic or loses information, and five other differences:
///
/// * The first events in a group of similar events stay separate events. client-go removes an
///   arbitrary event from a full group.
/// * The correlator keeps the store's response for a group's aggregate event.
/// * A key consists of fields. client-go joins the fields into one string, so different events can
///   have the same key.
/// * A folded event has no separate cache entry. client-go adds an entry for each message in the
///   group, and these entries evict other entries if the cache is too small.
/// * Counting does not continue from a negative count, and saturates at the maximum. client-go
///   continues from a negative count, and wraps around to the minimum after the maximum.
/// * A full cache of 128 entries or more evicts its entries in an approximate order, unless the
///   correlator belongs to a recording or is [exact](Self::new_exact).
/// * In generated names, a time before 1970 counts as 1970, and a time from 2200 on counts as the
///   beginning of 2200. In client-go's names, the number is negative before 1970 and wraps around
///   after 2262.
///
/// If several threads use a correlator, decisions are atomic for each source, object and type. If
/// user-supplied functions generate the keys, each stage is instead atomic for its own key. A count
/// never decreases.
///
/// Memory use is bounded by three caches of `cache_size` entries each, plus the one or two entries
/// that each thread is currently adding. A cache does not evict any entry until the cache is full.
/// A full cache evicts its least recently used entry. The eviction order is exact in a recording,
/// in a correlator created by [`new_exact`](Self::new_exact), and in a cache of fewer than 128
/// entries. [`new`](Self::new) divides a larger cache by source, object and type into up to 64
/// shards of at least 64 entries each. The eviction order is then approximate, because each shard
/// evicts its own least recently used entry. An entry holds a copy of the names in its key, and
/// shares its message with the event that created the entry. In the cache of groups, an entry keeps
/// up to `max_events - 1` messages. The 32 bytes that hold an entry's position in the eviction
/// order stay allocated until the entry's shard is empty.
///
/// A decision allocates memory for the parts of its result, and for the entries of new keys.
/// Without user-supplied functions, a decision to skip an event with known keys does not allocate.
/// A thread briefly waits for another thread only if their objects share a shard, or if one of the
/// threads evicts an entry.
///
/// # Examples
///
/// ```
/// use eventcast::correlator::{Correlation, EventCorrelator};
/// use eventcast::{CorrelatorOptions, Event};
///
/// let correlator = EventCorrelator::new(CorrelatorOptions::default())?;
/// let mut event = Event::default();
/// event.reason = "BackOff".into();
/// event.message = "restarting".into();
/// event.count = 1;
///
/// let Correlation::Create { event: created, key } = correlator.correlate(&event) else { panic!() };
/// // ... is stored, and the store returns what it stored:
/// correlator.confirm(key, &created);
///
/// let Correlation::Update { event: updated, .. } = correlator.correlate(&event) else { panic!() };
/// assert_eq!(updated.count, 2);
/// # Ok::<(), eventcast::error::BuildError>(())
/// ```
pub struct EventCorrelator {
    clock: Clock,
    is_of_recording: bool,
    aggregator: Option<Aggregator>,
    filter: Option<BucketRules>,
    on_skip: Option<SkipFn>,
    caches: Caches,
    counters: CorrelatorCounters,
}

impl EventCorrelator {
    /// Decides what to do with one event, and updates the correlator's state.
    ///
    /// The event need not be stored before the next equal event is correlated. The correlator
    /// assumes that the first event will be stored, and returns an update for the next equal event.
    /// If the store then cannot find the event to update, it must create the event that the update
    /// contains.
    ///
    /// # Panics
    ///
    /// Panics only if one of the functions in the options panics, except
    /// [`on_skip`](CorrelatorOptions::on_skip), whose panics are caught. If a function panics, the
    /// event may already have been counted.
    ///
    /// # Examples
    ///
    /// ```
    /// use eventcast::correlator::{Correlation, EventCorrelator, SpamFilter};
    /// use eventcast::{CorrelatorOptions, Event};
    ///
    /// let budget = SpamFilter::default().burst(2);
    /// let correlator = EventCorrelator::new(CorrelatorOptions::default().spam_filter(budget))?;
    /// let mut event = Event::default();
    /// event.count = 1;
    /// assert!(matches!(correlator.correlate(&event), Correlation::Create { .. }));
    /// assert!(matches!(correlator.correlate(&event), Correlation::Update { .. }));
    /// assert!(matches!(correlator.correlate(&event), Correlation::Skip));
    /// # Ok::<(), eventcast::error::BuildError>(())
    /// ```
    #[doc(alias = "EventCorrelate")]
    pub fn correlate(&self, event: &Event) -> Correlation {
        self.correlate_copy(event, false)
    }

    /// Does the same as [`correlate`](Self::correlate), but returns [`Correlation::Held`] instead
    /// of [`Correlation::Skip`] if the store already has the event and lacks only the new count.
    ///
    /// Keep the latest held event for each key. Write the held event when you want the store to
    /// have the correct count, and before you finish. A later decision with the same key supersedes
    /// the event that you keep, because the later event's count includes all earlier occurrences. A
    /// recording treats held events in the same way.
    ///
    /// # Panics
    ///
    /// Panics under the same conditions as [`correlate`](Self::correlate). The function that
    /// generates a group's message is also called for held events.
    ///
    /// # Examples
    ///
    /// ```
    /// use eventcast::correlator::{Correlation, EventCorrelator};
    /// use eventcast::{CorrelatorOptions, Event, EventSink, MemorySink};
    /// use std::collections::HashMap;
    ///
    /// let (correlator, store) = (EventCorrelator::new(CorrelatorOptions::default())?, MemorySink::new());
    /// let mut held = HashMap::new();
    /// let mut event = Event::default();
    /// event.metadata.name = "web-0.1".into();
    /// event.count = 1;
    /// for _ in 0..60 {
    ///     match correlator.correlate_or_hold(&event) {
    ///         Correlation::Create { event, key } => correlator.confirm(key, &store.create(&event)?),
    ///         Correlation::Update { event, key } => {
    ///             held.remove(&key);
    ///             correlator.confirm(key, &store.patch(&event)?);
    ///         }
    ///         Correlation::Held { event, key } => drop(held.insert(key, event)),
    ///         _ => {}
    ///     }
    /// }
    /// assert_eq!(store.events()[0].count, 25, "the budget is used up");
    /// for (key, event) in held.drain() {
    ///     correlator.confirm(key, &store.patch(&event)?);
    /// }
    /// assert_eq!(store.events()[0].count, 60);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn correlate_or_hold(&self, event: &Event) -> Correlation {
        self.correlate_copy(event, true)
    }

    /// Decides what to do with one event, applies the decision to a copy of the event, and calls
    /// the hook if the event is skipped or held.
    fn correlate_copy(&self, event: &Event, holds: bool) -> Correlation {
        let mut state = None;
        let decision = self
            .observe(event, self.now(), holds)
            .and_then(|seen| self.decide(seen, state.insert(event.clone())));
        if !matches!(decision, Some((Verdict::Create | Verdict::Update, _))) {
            self.report_skip(event);
        }
        let (Some((verdict, key)), Some(event)) = (decision, state) else { return Correlation::Skip };
        match verdict {
            Verdict::Create => Correlation::Create { event, key },
            Verdict::Update => Correlation::Update { event, key },
            Verdict::Held => Correlation::Held { event, key },
        }
    }

    /// Calls the hook for a skipped event, without holding a lock. Returns whether the hook
    /// panicked.
    pub(crate) fn report_skip(&self, event: &Event) -> bool {
        self.on_skip.as_ref().is_some_and(|hook| catch_panic(|| hook(event)).is_none())
    }

    /// Returns whether the caller must keep a copy of the event, because [`decide`](Self::decide)
    /// changes the event and the hook for skipped events or a loss may have to show it unchanged.
    pub(crate) fn is_shown(&self, seen: &Observation) -> bool {
        self.custom_filter().is_some() || !seen.passes && self.on_skip.is_some()
    }

    fn custom_filter(&self) -> Option<&BucketRules> {
        self.filter.as_ref().filter(|filter| filter.has_custom_key())
    }

    /// Returns the time of a decision made now.
    pub(crate) fn now(&self) -> Timestamp {
        Timestamp::from(self.clock.now())
    }

    /// Runs the stages whose result does not depend on the event's new state, at the time `now`.
    /// Returns `None` if the event is skipped. If `holds` is true, a repeat of an event that has
    /// passed the spam filter is held instead of skipped.
    pub(crate) fn observe(&self, event: &Event, now: Timestamp, holds: bool) -> Option<Observation> {
        let mut seen = Observation::new(now, holds);
        let lookup = Lookup::of(event, now, self.caches.hasher());
        let custom_group = self.aggregator.as_ref().and_then(|aggregator| aggregator.custom_key(event));
        if let Some(texts) = &custom_group {
            self.fold_custom(&lookup, texts, &mut seen);
        }
        self.with(lookup.hashes.base, BaseRef::Fields(&lookup.base), |access| {
            self.pass(&lookup, custom_group.is_some(), access, &mut seen);
        });
        if !seen.is_wanted() {
            self.counters.decided(seen.is_folded, false, seen.is_repeat);
            return None;
        }
        Some(seen)
    }

    /// Turns the event into the event to be stored, and runs the spam filter if it depends on that
    /// event. Returns `None` if the event is skipped. In this case, or if a user-supplied function
    /// panics, the event may have been changed.
    pub(crate) fn decide(&self, seen: Observation, event: &mut Event) -> Option<(Verdict, CorrelationKey)> {
        let (is_held, is_folded, is_repeat, is_noted) =
            (seen.is_held(), seen.is_folded, seen.is_repeat, seen.is_noted);
        let (now, mut passes) = (seen.now, seen.passes);
        if let Some(aggregator) = self.aggregator.as_ref().filter(|_| is_folded) {
            *event = aggregator.combined(event, now);
        }
        let key = CorrelationKey(seen.carry_over_to(event)?);
        if let Some(filter) = self.custom_filter() {
            passes = self.pass_custom(now, filter, event);
        }
        self.counters.decided(is_folded, passes, is_repeat);
        if passes && !is_noted {
            self.with_base_of(&key, |access| access.find_event(&key.0).map(|seen| seen.has_passed = true));
        }
        match passes {
            true if is_repeat => Some((Verdict::Update, key)),
            true => Some((Verdict::Create, key)),
            false => is_held.then_some((Verdict::Held, key)),
        }
    }

    /// Records the store's response to the decision with this key. The response contains the
    /// event's resource version and actual name. A group's aggregate event keeps the name that the
    /// correlator gave to the event, as in client-go.
    ///
    /// The caller need not call this method if the write failed. Responses may arrive late or out
    /// of order.
    ///
    /// # Examples
    ///
    /// ```
    /// use eventcast::correlator::{Correlation, EventCorrelator};
    /// use eventcast::{CorrelatorOptions, Event, EventSink, MemorySink};
    ///
    /// let (correlator, store) = (EventCorrelator::new(CorrelatorOptions::default())?, MemorySink::new());
    /// let mut event = Event::default();
    /// event.metadata.name = "web-0.1".into();
    /// event.count = 1;
    /// let Correlation::Create { event: new, key } = correlator.correlate(&event) else { panic!() };
    /// correlator.confirm(key, &store.create(&new)?);
    ///
    /// let Correlation::Update { event: again, .. } = correlator.correlate(&event) else { panic!() };
    /// assert_eq!(again.metadata.resource_version(), "1");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[doc(alias = "UpdateState")]
    #[allow(clippy::needless_pass_by_value, reason = "a key is for one answer")]
    pub fn confirm(&self, key: CorrelationKey, stored: impl Into<Stored>) {
        self.with_base_of(&key, |access| {
            access.event_of(&key.0).confirm(&stored.into(), key.0.is_of_group());
        });
    }

    /// Does the same as [`confirm`](Self::confirm) for an event that had the name `decided` when
    /// the decision was made, if the correlator's entry still refers to that event. Returns the
    /// name that the event has after this call.
    ///
    /// A response may arrive after the correlator has evicted the entry, or when the entry refers
    /// to another event. In both cases, decisions with higher counts may already be on their way to
    /// the store, so the response must not add the event again.
    pub(crate) fn confirm_late(&self, key: &CorrelationKey, decided: &Text, stored: Stored) -> Text {
        self.with_base_of(key, |access| match named(key, [decided, &stored.name], access) {
            Some(seen) => {
                seen.confirm(&stored, key.0.is_of_group());
                seen.stored.name.clone()
            }
            None => stored.name,
        })
    }

    /// Gives a new name to an event, even to a group's aggregate event, because the name `decided`
    /// is already taken in the store.
    pub(crate) fn rename(&self, key: &CorrelationKey, decided: &Text, name: &Text) {
        self.with_base_of(key, |access| {
            if let Some(seen) = named(key, [decided, decided], access) {
                seen.stored.name = name.clone();
            }
        });
    }

    /// Returns the counters of the decisions made so far.
    ///
    /// # Examples
    ///
    /// ```
    /// use eventcast::correlator::EventCorrelator;
    /// use eventcast::{CorrelatorOptions, Event};
    ///
    /// let correlator = EventCorrelator::new(CorrelatorOptions::default())?;
    /// let mut event = Event::default();
    /// event.count = 1;
    /// for _ in 0..30 {
    ///     correlator.correlate(&event);
    /// }
    /// let stats = correlator.stats();
    /// assert_eq!((stats.created, stats.updated, stats.filtered), (1, 24, 5));
    /// # Ok::<(), eventcast::error::BuildError>(())
    /// ```
    pub fn stats(&self) -> CorrelatorStats {
        self.counters.sum()
    }

    /// Runs `work` on the entries of a base, and counts the entries that were evicted to make
    /// space.
    fn with<R>(&self, hash: u64, base: BaseRef<'_>, work: impl FnOnce(&mut Access<'_>) -> R) -> R {
        let (result, evicted) = self.caches.with(hash, base, work);
        self.counters.evicted(evicted as u64);
        result
    }

    fn with_base_of<R>(&self, key: &CorrelationKey, work: impl FnOnce(&mut Access<'_>) -> R) -> R {
        self.with(key.0.base_hash, key.0.base_ref(), work)
    }

    /// Runs the stages whose keys consist of the event's own fields. If the spam filter has a
    /// user-supplied key, the event passes for now, because that decision is made later.
    fn pass(
        &self,
        lookup: &Lookup<'_>,
        has_custom_group: bool,
        access: &mut Access<'_>,
        seen: &mut Observation,
    ) {
        let Lookup { event, hashes, now, .. } = *lookup;
        let is_certain = self.custom_filter().is_none();
        if let Some(filter) = self.filter.as_ref().filter(|_| is_certain) {
            seen.passes = has_budget(event, now, filter, access);
        }
        let notes = seen.passes && is_certain;
        if let Some(aggregator) = self.aggregator.as_ref().filter(|_| !has_custom_group) {
            let key = KeyRef::group(lookup);
            let group = access.group(key, || Group::new(now));
            if aggregator.folds(group, &event.message, hashes.message, now) {
                self.observe_group(lookup, key, notes, access, seen);
            }
        }
        if !seen.is_folded {
            let entry = access.event(KeyRef::event(lookup));
            let before = entry.seen.observe(notes, || Stored::from(event));
            seen.note(&entry.key, &entry.seen, before);
        }
    }

    /// Runs the first two stages with the keys that the user-supplied function returned.
    fn fold_custom(&self, lookup: &Lookup<'_>, (group, member): &(Text, Text), seen: &mut Observation) {
        let Some(aggregator) = &self.aggregator else { return };
        let [hash, member_hash] = [group, member].map(|text| text_hash(text, self.caches.hasher()));
        self.with(hash, BaseRef::Custom(group), |access| {
            let key = KeyRef::custom_group(hash);
            let group = access.group(key, || Group::new(lookup.now));
            if aggregator.folds(group, member, member_hash, lookup.now) {
                self.observe_group(lookup, key, false, access, seen);
            }
        });
    }

    /// Runs the second stage for a group's aggregate event. `notes` is true if the event is known
    /// to pass the last stage. The aggregate event's name is derived from the time, as in
    /// client-go, but never equals a name that a recorder has given to an event. In a recording,
    /// the name also differs from the names of the object's other groups, because a recording
    /// decides several events at the same time and writes the groups independently.
    fn observe_group(
        &self,
        lookup: &Lookup<'_>,
        key: KeyRef<'_>,
        notes: bool,
        access: &mut Access<'_>,
        seen: &mut Observation,
    ) {
        let entry = access.event(key);
        let before = entry.seen.observe(notes, || {
            let object = &lookup.event.involved_object.name;
            let take = if self.is_of_recording { Numbers::take } else { Numbers::share };
            let number = take(self.clock.numbers(), name::hash(object), lookup.now.name_number());
            let (name, first_timestamp) = (name::plain(object, number), Some(lookup.now));
            Stored { name, count: 1, first_timestamp, ..Stored::default() }
        });
        seen.is_folded = true;
        seen.note(&entry.key, &entry.seen, before);
    }

    /// Runs the last stage with the user-supplied key, which is derived from the event as it would
    /// be stored.
    fn pass_custom(&self, now: Timestamp, filter: &BucketRules, event: &Event) -> bool {
        let Some(budget) = filter.custom_key(event) else { return true };
        let hash = text_hash(&budget, self.caches.hasher());
        self.with(hash, BaseRef::Custom(&budget), |access| has_budget(event, now, filter, access))
    }
}

/// Runs the last stage, which is the spam filter. Returns whether the event passes the filter.
fn has_budget(event: &Event, now: Timestamp, filter: &BucketRules, access: &mut Access<'_>) -> bool {
    let bucket = access.bucket(|| filter.full(now));
    filter.exempts(event) || filter.take(bucket, now)
}

/// Returns a key's entry if the entry has one of the given names.
fn named<'a>(key: &CorrelationKey, names: [&Text; 2], access: &'a mut Access<'_>) -> Option<&'a mut Seen> {
    access.find_event(&key.0).filter(|seen| names.contains(&&seen.stored.name))
}

impl fmt::Debug for EventCorrelator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EventCorrelator").field("stats", &self.stats()).finish_non_exhaustive()
    }
}
