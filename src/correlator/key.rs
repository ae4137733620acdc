//! What makes two events the same, similar, or of one budget: keys with structure.
//!
//! client-go joins the fields into one string, with nothing between them, so that `ab` and `c` are the same as `a` and
//! `bc`. Here a key is the fields themselves. A lookup hashes and compares the fields of the event in hand, without
//! building anything; only a key that is new to a cache is copied, and then the long texts are shared.

use std::borrow::Borrow;
use std::fmt;
use std::hash::{Hash, Hasher};

use crate::event::{Event, Text};
use crate::sync::Arc;

/// The most fields that a key has.
const PARTS: usize = 11;

static EMPTY: Text = Text::EMPTY;

/// Keys of different kinds are never equal, so that one cache can hold several.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Kind {
    /// The same event: the unit of counting.
    Event,
    /// Similar events: equal but for their messages.
    Aggregate,
    /// One budget of the spam filter.
    Spam,
    /// Whatever the user's function made of it.
    Custom,
}

/// A key, in a cache or still in the fields of an event.
pub(super) trait AnyKey {
    fn kind(&self) -> Kind;
    fn parts(&self) -> [&Text; PARTS];
    fn to_key(&self) -> Key;
}

/// A key in the fields of an event.
pub(super) enum KeyRef<'a> {
    Event(&'a Event),
    Aggregate(&'a Event),
    Spam(&'a Event),
    Custom(&'a Text),
}

impl AnyKey for KeyRef<'_> {
    fn kind(&self) -> Kind {
        match self {
            Self::Event(_) => Kind::Event,
            Self::Aggregate(_) => Kind::Aggregate,
            Self::Spam(_) => Kind::Spam,
            Self::Custom(_) => Kind::Custom,
        }
    }

    fn parts(&self) -> [&Text; PARTS] {
        // The fields that client-go joins. The object's resource version is in none of them.
        let (event, last) = match self {
            Self::Event(e) => (e, [&e.reason, &e.message, &e.involved_object.field_path]),
            Self::Aggregate(e) => (e, [&e.reason, &e.reporting_controller, &e.reporting_instance]),
            Self::Spam(e) => (e, [&EMPTY; 3]),
            Self::Custom(key) => {
                let mut parts = [&EMPTY; PARTS];
                parts[0] = key;
                return parts;
            }
        };
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
            last[0],
            last[1],
            last[2],
        ]
    }

    fn to_key(&self) -> Key {
        Key(Arc::new(Owned { kind: self.kind(), parts: self.parts().map(Text::clone) }))
    }
}

/// A key in a cache; a clone is one reference count.
#[derive(Clone)]
pub(super) struct Key(Arc<Owned>);

struct Owned {
    kind: Kind,
    parts: [Text; PARTS],
}

impl AnyKey for Key {
    fn kind(&self) -> Kind {
        self.0.kind
    }

    fn parts(&self) -> [&Text; PARTS] {
        self.0.parts.each_ref()
    }

    fn to_key(&self) -> Key {
        self.clone()
    }
}

/// This is what lets a map of keys be asked with a [`KeyRef`]: both hash and compare as `dyn AnyKey`.
impl<'a> Borrow<dyn AnyKey + 'a> for Key {
    fn borrow(&self) -> &(dyn AnyKey + 'a) {
        self
    }
}

impl Hash for dyn AnyKey + '_ {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.kind().hash(state);
        for part in self.parts() {
            part.hash(state);
        }
    }
}

impl PartialEq for dyn AnyKey + '_ {
    fn eq(&self, other: &Self) -> bool {
        self.kind() == other.kind() && self.parts() == other.parts()
    }
}

impl Eq for dyn AnyKey + '_ {}

impl Hash for Key {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (self as &dyn AnyKey).hash(state);
    }
}

impl PartialEq for Key {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0) || (self as &dyn AnyKey) == (other as &dyn AnyKey)
    }
}

impl Eq for Key {}

/// Which entry of a correlator's memory a decision was about; it goes back with the store's answer to
/// [`confirm`](super::EventCorrelator::confirm).
///
/// A clone is one reference count. Equal keys belong to events that count as one.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct CorrelationKey(pub(super) Key);

impl fmt::Debug for CorrelationKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Without the texts, which may hold what should not be in a log.
        f.debug_tuple("CorrelationKey").field(&self.0.kind()).finish()
    }
}
