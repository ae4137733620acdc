//! Keys with structure. They decide whether two events are the same, similar, or of one budget.
//!
//! client-go joins the fields into one string, with nothing between them, so that `ab` and `c` are
//! the same as `a` and `bc`. Here a key consists of the fields themselves. A lookup hashes and
//! compares the event's own fields, and builds nothing. It copies only keys that are new to a
//! cache.
//!
//! All three keys of an event begin with the same eight fields: source, object and type. This
//! [`Base`] is hashed once, and all keys that are in use at the same time share one copy. Keys
//! compare it by its address wherever the address says enough.

use std::fmt;
use std::hash::{BuildHasher, Hash, Hasher};

use super::shards::beside;
use crate::record::event::{Event, Text, Timestamp};
use crate::sync::Arc;

/// The number of fields of a [`Base`].
const FIELDS: usize = 8;

/// The fields that all keys of an event have in common. No key contains the object's resource
/// version.
pub(super) type BaseFields<'a> = [&'a str; FIELDS];

pub(super) fn base_fields(event: &Event) -> BaseFields<'_> {
    let object = &event.involved_object;
    [
        &event.source.component,
        &event.source.host,
        &object.kind,
        &object.namespace,
        &object.name,
        &object.uid,
        &object.api_version,
        &event.type_,
    ]
}

/// The source, object and type of an event: one budget of the spam filter. The texts stand one
/// after the other, so that one comparison covers them all.
pub(super) struct Base {
    lens: [usize; FIELDS],
    text: Box<str>,
}

impl Base {
    pub(super) fn of(fields: &BaseFields<'_>) -> Self {
        let lens = fields.map(str::len);
        Self { lens, text: fields.concat().into() }
    }

    pub(super) fn is(&self, fields: &BaseFields<'_>) -> bool {
        if fields.map(str::len) != self.lens {
            return false;
        }
        let mut rest = self.text.as_bytes();
        fields.iter().all(|field| {
            // The default is never used, because the lengths are those of the texts.
            let (mine, after) = rest.split_at_checked(field.len()).unwrap_or_default();
            rest = after;
            mine == field.as_bytes()
        })
    }
}

impl PartialEq for Base {
    fn eq(&self, other: &Self) -> bool {
        self.lens == other.lens && self.text == other.text
    }
}

impl Eq for Base {}

/// An event on its way through the stages, with the parts of its keys.
pub(super) struct Lookup<'a> {
    pub(super) event: &'a Event,
    pub(super) base: BaseFields<'a>,
    pub(super) hashes: Hashes,
    pub(super) now: Timestamp,
}

/// The hashes of an event's keys. Each field is hashed once. All hashes except the message's choose
/// the same shard, that of the base.
#[derive(Clone, Copy)]
pub(super) struct Hashes {
    pub(super) base: u64,
    pub(super) group: u64,
    pub(super) event: u64,
    pub(super) message: u64,
}

impl Hashes {
    pub(super) fn of(event: &Event, fields: &BaseFields<'_>, state: &ahash::RandomState) -> Self {
        let mut base = state.build_hasher();
        // No marks separate the fields. If two keys have the same hash because of that, the lookup
        // compares their texts.
        for field in fields {
            base.write(field.as_bytes());
        }
        let mut reason = base.clone();
        reason.write(event.reason.as_bytes());
        let mut group = reason.clone();
        group.write(event.reporting_controller.as_bytes());
        group.write(event.reporting_instance.as_bytes());
        let message = text_hash(&event.message, state);
        let mut same = reason;
        same.write_u64(message);
        same.write(event.involved_object.field_path.as_bytes());
        let base = base.finish();
        Self { base, group: beside(base, group.finish()), event: beside(base, same.finish()), message }
    }
}

pub(super) fn text_hash(text: &str, state: &ahash::RandomState) -> u64 {
    let mut hasher = state.build_hasher();
    hasher.write(text.as_bytes());
    hasher.finish()
}

/// A key in the caches of groups and of events.
pub(super) struct Key {
    /// The hash, which says where the key lies: its shard and its slot.
    pub(super) hash: u64,
    subject: Subject,
}

/// The contents of a key. Keys of different kinds are never equal, so that one cache can hold
/// several kinds.
#[derive(PartialEq, Eq)]
enum Subject {
    /// The key of an event, which is the unit of counting: equal events have the same base, reason,
    /// message and field path.
    Event(Arc<Base>, [Text; 3]),
    /// The key of a group of similar events, which are equal except for their messages: the base,
    /// the reason and the reporter.
    Group(Arc<Base>, [Text; 3]),
    /// The text that the user's function returned.
    Custom(Text),
    /// The key of the summaries of a budget.
    Summary(BudgetKey),
}

/// A key in the cache of budgets.
#[derive(Clone, PartialEq, Eq)]
pub(super) enum BudgetKey {
    /// The source, object and type of the events.
    Base(Arc<Base>),
    /// The text that the user's function returned.
    Custom(Text),
}

impl BudgetKey {
    pub(super) fn base(&self) -> Option<&Arc<Base>> {
        match self {
            Self::Base(base) => Some(base),
            Self::Custom(_) => None,
        }
    }

    pub(super) fn is_base(&self, fields: &BaseFields<'_>) -> bool {
        self.base().is_some_and(|base| base.is(fields))
    }

    pub(super) fn is_custom(&self, text: &Text) -> bool {
        matches!(self, Self::Custom(custom) if custom == text)
    }
}

fn event_fields(event: &Event) -> [&Text; 3] {
    [&event.reason, &event.message, &event.involved_object.field_path]
}

fn group_fields(event: &Event) -> [&Text; 3] {
    [&event.reason, &event.reporting_controller, &event.reporting_instance]
}

/// Returns whether `base` is the base of the looked-up event. `known` is the event's base, if the
/// caller has it already.
fn is_base(base: &Arc<Base>, lookup: &Lookup<'_>, known: Option<&Arc<Base>>) -> bool {
    known.is_some_and(|known| Arc::ptr_eq(base, known)) || base.is(&lookup.base)
}

fn base_of(lookup: &Lookup<'_>, known: Option<&Arc<Base>>) -> Arc<Base> {
    known.map_or_else(|| Arc::new(Base::of(&lookup.base)), Arc::clone)
}

impl Key {
    pub(super) fn event(lookup: &Lookup<'_>, known: Option<&Arc<Base>>) -> Self {
        let Lookup { event, hashes, .. } = lookup;
        let subject = Subject::Event(base_of(lookup, known), event_fields(event).map(Text::clone));
        Self { hash: hashes.event, subject }
    }

    pub(super) fn group(lookup: &Lookup<'_>, known: Option<&Arc<Base>>) -> Self {
        let Lookup { event, hashes, .. } = lookup;
        let subject = Subject::Group(base_of(lookup, known), group_fields(event).map(Text::clone));
        Self { hash: hashes.group, subject }
    }

    pub(super) fn custom(text: Text, hash: u64) -> Self {
        Self { hash, subject: Subject::Custom(text) }
    }

    /// Returns the key of the summaries of a budget, in the budget's shard.
    pub(super) fn summary(budget: &BudgetKey, hash: u64) -> Self {
        // Any number except the budget's hash would do. The budget lies in another cache, but other
        // keys of its shard are near by in this one.
        Self { hash: beside(hash, hash.rotate_left(17)), subject: Subject::Summary(budget.clone()) }
    }

    /// Returns whether this is the key by which the looked-up event is counted.
    pub(super) fn is_event(&self, lookup: &Lookup<'_>, known: Option<&Arc<Base>>) -> bool {
        matches!(&self.subject, Subject::Event(base, fields)
            if fields.each_ref() == event_fields(lookup.event) && is_base(base, lookup, known))
    }

    /// Returns whether this is the key of the group to which the looked-up event belongs.
    pub(super) fn is_group(&self, lookup: &Lookup<'_>, known: Option<&Arc<Base>>) -> bool {
        matches!(&self.subject, Subject::Group(base, fields)
            if fields.each_ref() == group_fields(lookup.event) && is_base(base, lookup, known))
    }

    pub(super) fn is_custom(&self, text: &Text) -> bool {
        matches!(&self.subject, Subject::Custom(custom) if custom == text)
    }

    /// Returns whether the event that is stored under this key stands for a group.
    pub(super) fn is_of_group(&self) -> bool {
        matches!(self.subject, Subject::Group(..) | Subject::Custom(_))
    }

    pub(super) fn base(&self) -> Option<&Arc<Base>> {
        match &self.subject {
            Subject::Event(base, _) | Subject::Group(base, _) => Some(base),
            Subject::Custom(_) | Subject::Summary(_) => None,
        }
    }
}

impl PartialEq for Key {
    fn eq(&self, other: &Self) -> bool {
        self.hash == other.hash && self.subject == other.subject
    }
}

impl Eq for Key {}

/// A key to the entry of a correlator's memory that a decision was about. The caller passes it back
/// to [`confirm`](super::EventCorrelator::confirm), with the store's answer.
///
/// A clone costs one reference count. Two keys of one correlator are equal if they belong to events
/// that count as one. Keys of two correlators are never equal.
///
/// # Examples
///
/// ```
/// use eventcast::correlator::{Correlation, CorrelationKey, EventCorrelator};
/// use eventcast::{CorrelatorOptions, Event};
///
/// let correlator = EventCorrelator::new(CorrelatorOptions::default())?;
/// let key = |message: &'static str| -> CorrelationKey {
///     let mut event = Event::default();
///     event.message = message.into();
///     event.count = 1;
///     match correlator.correlate(&event) {
///         Correlation::Create { key, .. } | Correlation::Update { key, .. } => key,
///         _ => panic!("nothing is held back"),
///     }
/// };
/// let (first, again, other) = (key("a"), key("a"), key("b"));
/// assert_eq!(first, again);
/// assert_ne!(first, other);
/// # Ok::<(), eventcast::error::BuildError>(())
/// ```
#[derive(Clone)]
pub struct CorrelationKey(pub(super) Arc<Key>);

impl CorrelationKey {
    /// Returns the key's hash, which is the same for equal keys of one correlator.
    pub(crate) fn hash(&self) -> u64 {
        self.0.hash
    }

    /// Returns a number below `parts`, always the same one for the same key, to divide keys among
    /// workers.
    pub(crate) fn share(&self, parts: usize) -> usize {
        // The upper half, because tables choose slots by the lowest bits.
        ((self.0.hash >> 32) % parts as u64) as usize
    }
}

impl PartialEq for CorrelationKey {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0) || self.0 == other.0
    }
}

impl Eq for CorrelationKey {}

impl Hash for CorrelationKey {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.0.hash);
    }
}

impl fmt::Debug for CorrelationKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The output leaves out the texts, which may hold what should not be in a log.
        let kind = match self.0.subject {
            Subject::Event(..) => "Event",
            Subject::Group(..) => "Aggregate",
            Subject::Custom(_) => "Custom",
            Subject::Summary(_) => "Summary",
        };
        f.debug_tuple("CorrelationKey").field(&format_args!("{kind}")).finish()
    }
}
