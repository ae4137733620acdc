//! Structured keys, which determine whether two events are equal, are similar, or share a budget.
//!
//! client-go joins the fields into one string without separators, so the fields `ab` and `c` result
//! in the same key as `a` and `bc`. Here, a key consists of the fields themselves. A lookup hashes
//! and compares the event's own fields without building a key. A lookup copies the fields only if
//! the key is new to a cache.
//!
//! All three keys of an event begin with the same eight fields, which identify the source, object
//! and type. The eight fields form a [`Base`], which is hashed once. All keys that are in use at
//! the same time share one copy of the base. Where possible, two bases are compared only by their
//! addresses.

use std::fmt;
use std::hash::{BuildHasher, Hash, Hasher};

use super::base::{Base, BaseFields, BaseRef, base_fields, hashed};
use crate::record::event::{Event, Text, Timestamp};
use crate::sync::Arc;

/// An event that is passing through the stages, with the parts of its keys.
pub(super) struct Lookup<'a> {
    pub(super) event: &'a Event,
    pub(super) base: BaseFields<'a>,
    pub(super) hashes: Hashes,
    pub(super) now: Timestamp,
}

/// The hashes of an event's keys. Each field is hashed only once.
#[derive(Clone, Copy)]
pub(super) struct Hashes {
    pub(super) base: u64,
    pub(super) group: u64,
    pub(super) event: u64,
    pub(super) message: u64,
}

impl<'a> Lookup<'a> {
    pub(super) fn of(event: &'a Event, now: Timestamp, state: &ahash::RandomState) -> Self {
        let fields = base_fields(event);
        let base = hashed(&fields, state);
        let mut reason = base.clone();
        reason.write(event.reason.as_bytes());
        let mut group = reason.clone();
        group.write(event.reporting_controller.as_bytes());
        group.write(event.reporting_instance.as_bytes());
        let message = text_hash(&event.message, state);
        let mut same = reason;
        same.write_u64(message);
        same.write(event.involved_object.field_path.as_bytes());
        let hashes = Hashes { base: base.finish(), group: group.finish(), event: same.finish(), message };
        Self { event, base: fields, hashes, now }
    }

    /// Returns the fields that, together with the base, form the key under which the event is
    /// counted.
    pub(super) fn event_fields(&self) -> [&'a Text; 3] {
        [&self.event.reason, &self.event.message, &self.event.involved_object.field_path]
    }

    /// Returns the fields that, together with the base, form the key of the event's group.
    pub(super) fn group_fields(&self) -> [&'a Text; 3] {
        [&self.event.reason, &self.event.reporting_controller, &self.event.reporting_instance]
    }
}

pub(super) fn text_hash(text: &str, state: &ahash::RandomState) -> u64 {
    let mut hasher = state.build_hasher();
    hasher.write(text.as_bytes());
    hasher.finish()
}

/// Returns whether the strings in both arrays are equal.
pub(super) fn are(mine: &[Text; 3], others: [&Text; 3]) -> bool {
    mine.iter().zip(others).all(|(mine, other)| {
        // Strings that are literals, or copies of each other, often have the same address.
        mine.len() == other.len() && (mine.is_empty() || mine.as_ptr() == other.as_ptr() || mine == other)
    })
}

/// Returns copies of three strings.
pub(super) fn copied([a, b, c]: [&Text; 3]) -> [Text; 3] {
    // This function does not use `map`, because the compiler would then move each string five
    // times, in small pieces.
    [a.clone(), b.clone(), c.clone()]
}

/// The key of an entry in the event cache.
#[derive(PartialEq, Eq)]
pub(super) struct Key {
    /// The hash used to look up the base.
    pub(super) base_hash: u64,
    /// The hash used to look up the key among the keys with the same base.
    pub(super) hash: u64,
    pub(super) base: Base,
    kind: Kind,
    fields: [Text; 3],
}

/// The kind of event that a key identifies. Keys of different kinds are never equal.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// An event. Equal events have the same base, reason, message and field path.
    Event,
    /// The aggregate event for a group of similar events. Similar events have the same base, reason
    /// and reporter, or the user-supplied function returned the same string for them.
    Group,
}

/// The part of a [`Key`] that distinguishes the key from other keys with the same base.
#[derive(Clone, Copy)]
pub(super) struct KeyRef<'a> {
    pub(super) kind: Kind,
    pub(super) hash: u64,
    pub(super) fields: [&'a Text; 3],
}

static EMPTY: Text = Text::EMPTY;
const NO_FIELDS: [&Text; 3] = [&EMPTY; 3];

impl<'a> KeyRef<'a> {
    pub(super) fn event(lookup: &Lookup<'a>) -> Self {
        Self { kind: Kind::Event, hash: lookup.hashes.event, fields: lookup.event_fields() }
    }

    pub(super) fn group(lookup: &Lookup<'a>) -> Self {
        Self { kind: Kind::Group, hash: lookup.hashes.group, fields: lookup.group_fields() }
    }

    /// Returns the key of a group that the user-supplied function has named. The group's base alone
    /// identifies the group.
    pub(super) fn custom_group(hash: u64) -> Self {
        Self { kind: Kind::Group, hash, fields: NO_FIELDS }
    }

    pub(super) fn is(&self, key: &Key) -> bool {
        self.kind == key.kind && are(&key.fields, self.fields)
    }

    pub(super) fn to_key(self, base_hash: u64, base: &Base) -> Arc<Key> {
        let Self { kind, hash, fields } = self;
        Arc::new(Key { base_hash, hash, base: base.clone(), kind, fields: copied(fields) })
    }
}

impl Key {
    /// Returns whether the event stored under this key is a group's aggregate event.
    pub(super) fn is_of_group(&self) -> bool {
        self.kind == Kind::Group
    }

    pub(super) fn base_ref(&self) -> BaseRef<'_> {
        BaseRef::Base(&self.base)
    }
}

/// Identifies a correlator's entry for an event about which the correlator has made a decision. The
/// caller passes the key back to [`confirm`](super::EventCorrelator::confirm) together with the
/// store's response.
///
/// Cloning a key only increments a reference count. Two keys from the same correlator are equal if
/// their events are counted as one event. Keys from different correlators are never equal.
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
    pub(crate) fn hash(&self) -> u64 {
        self.0.hash
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
        // The strings are left out, because they may contain data that does not belong in a log.
        let kind = match (self.0.kind, &self.0.base) {
            (Kind::Event, _) => "Event",
            (Kind::Group, Base::Fields(_)) => "Group",
            (Kind::Group, Base::Custom(_)) => "Custom",
        };
        f.debug_tuple("CorrelationKey").field(&format_args!("{kind}")).finish()
    }
}
