//! The part that all keys of an event have in common, which is the event's source, object and type.

use std::hash::{BuildHasher, Hasher};

use crate::record::event::{Event, Text};
use crate::sync::Arc;

/// The number of fields of a [`Base`].
const FIELDS: usize = 8;
/// The number of bytes in which a field's length is stored.
const LEN: usize = size_of::<u32>();
/// The number of bytes that precede the fields' strings.
const HEAD: usize = FIELDS * LEN;
/// The maximum length in bytes of a base that is assembled on the stack.
const SHORT: usize = 512;

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

/// The part that all keys in one entry of the map have in common. The spam filter has one budget
/// for each base.
#[derive(Clone, PartialEq, Eq)]
pub(super) enum Base {
    /// The source, object and type of events. The lengths of all strings are stored first, followed
    /// by the strings, so that one comparison covers all strings.
    Fields(Arc<[u8]>),
    /// The string that a user-supplied function returned.
    Custom(Text),
}

/// A base to look up.
#[derive(Clone, Copy)]
pub(super) enum BaseRef<'a> {
    Fields(&'a BaseFields<'a>),
    Custom(&'a Text),
    Base(&'a Base),
}

impl BaseRef<'_> {
    pub(super) fn is(self, base: &Base) -> bool {
        match (self, base) {
            (Self::Fields(fields), Base::Fields(bytes)) => are(fields, bytes),
            (Self::Custom(text), Base::Custom(custom)) => custom == text,
            (Self::Base(Base::Fields(a)), Base::Fields(b)) => Arc::ptr_eq(a, b) || a == b,
            (Self::Base(other), base) => other == base,
            _ => false,
        }
    }

    pub(super) fn to_base(self) -> Base {
        match self {
            Self::Fields(fields) => Base::Fields(joined(fields)),
            Self::Custom(text) => Base::Custom(text.clone()),
            Self::Base(base) => base.clone(),
        }
    }
}

fn head(fields: &BaseFields<'_>) -> [u8; HEAD] {
    let mut head = [0; HEAD];
    for (len, field) in head.chunks_exact_mut(LEN).zip(fields) {
        len.copy_from_slice(&(field.len() as u32).to_ne_bytes());
    }
    head
}

fn are(fields: &BaseFields<'_>, bytes: &[u8]) -> bool {
    let Some((lens, mut rest)) = bytes.split_at_checked(HEAD) else { return false };
    fields.iter().zip(lens.chunks_exact(LEN)).all(|(field, len)| *len == (field.len() as u32).to_ne_bytes())
        && fields.iter().all(|field| {
            let (mine, after) = rest.split_at_checked(field.len()).unwrap_or_default();
            rest = after;
            // Most events have empty fields, and even comparing empty slices costs a function call.
            field.is_empty() || mine == field.as_bytes()
        })
}

fn joined(fields: &BaseFields<'_>) -> Arc<[u8]> {
    let len = HEAD + fields.iter().map(|field| field.len()).sum::<usize>();
    let mut short = [0; SHORT];
    let Some(bytes) = short.get_mut(..len) else {
        let mut bytes = head(fields).to_vec();
        for field in fields {
            bytes.extend_from_slice(field.as_bytes());
        }
        return bytes.into();
    };
    let (lens, mut rest) = bytes.split_at_mut(HEAD);
    lens.copy_from_slice(&head(fields));
    for field in fields {
        let (mine, after) = rest.split_at_mut(field.len());
        mine.copy_from_slice(field.as_bytes());
        rest = after;
    }
    (&*bytes).into()
}

/// Returns a hasher that has already hashed the given fields, so that the caller can continue with
/// the fields that follow.
pub(super) fn hashed<S: BuildHasher>(fields: &BaseFields<'_>, state: &S) -> S::Hasher {
    let mut hasher = state.build_hasher();
    // The hash does not include separators between the fields. Two different keys may therefore
    // have the same hash, but the lookup still compares their strings.
    for field in fields {
        hasher.write(field.as_bytes());
    }
    hasher
}
