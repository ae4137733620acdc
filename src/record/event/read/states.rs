//! Recognizes states of the same event.

use std::collections::HashMap;

use ahash::RandomState;

use super::item::ReadEvent;
use crate::record::event::core_v1::Event;
use crate::record::event::text::Text;
use crate::record::event::timestamp::Timestamp;

/// The default limit on the number of events.
const MAX_EVENTS: usize = 1_000_000;

/// Recognizes documents that are states of the same event, and computes what each state adds to the
/// number of occurrences.
///
/// A cluster updates the count of an event that recurs, so a watch, a log or two dumps contain the
/// same event several times. Two documents are states of the same event if their namespace, name
/// and UID are equal. Without a UID, namespace, name and first time must be equal, where the
/// creation time replaces a missing first time. A document with neither a UID nor a name is always
/// a separate event.
///
/// The count of a state is the count of its series if it has one, otherwise the event's own count,
/// and at least 1. A state adds the amount by which its count exceeds the largest count seen so
/// far. A deletion adds nothing.
///
/// The later of two states is the one with the larger `resourceVersion` if both are numbers,
/// otherwise the one with the larger count, and if the counts are equal, the one with the later
/// time.
///
/// # Memory
///
/// Each event takes about 400 bytes. The default limit is one million events, see
/// [`with_max_events`](Self::with_max_events). Beyond the limit, new events are not remembered, so
/// each of their states counts as a separate event. [`forgotten`](Self::forgotten) returns the
/// number of such documents.
///
/// # Examples
///
/// ```
/// use eventcast::event::{EventReader, EventStates};
///
/// let watch = r#"
/// {"type": "ADDED", "object": {"metadata": {"name": "a", "uid": "1"}, "reason": "BackOff", "count": 1}}
/// {"type": "MODIFIED", "object": {"metadata": {"name": "a", "uid": "1"}, "reason": "BackOff", "count": 5}}
/// {"type": "DELETED", "object": {"metadata": {"name": "a", "uid": "1"}, "reason": "BackOff", "count": 5}}
/// {"type": "ADDED", "object": {"metadata": {"name": "a", "uid": "2"}, "reason": "BackOff", "count": 2}}
/// "#;
/// let mut states = EventStates::default();
/// let mut added = Vec::new();
/// for read in EventReader::new(watch.as_bytes()) {
///     added.extend(states.observe(&read?).map(|state| (state.number, state.added)));
/// }
/// assert_eq!(added, [(0, 1), (0, 4), (1, 2)]);
/// # Ok::<(), eventcast::event::EventReadError>(())
/// ```
#[derive(Debug)]
pub struct EventStates {
    seen: HashMap<Key, Seen, RandomState>,
    max_events: usize,
    /// The number of the next event.
    next: u64,
    forgotten: u64,
}

/// The result of [`EventStates::observe`]: how a document relates to the states before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct EventState {
    /// The number of the event, in the order of their first states, starting at 0.
    pub number: u64,
    /// Whether this is the first state of its event.
    pub is_first: bool,
    /// Whether this is the latest state of its event so far.
    pub is_latest: bool,
    /// The count of this state.
    pub count: u32,
    /// The number of occurrences that this state adds.
    pub added: u32,
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Key {
    namespace: Text,
    name: Text,
    identity: Identity,
}

/// Distinguishes events with the same name.
#[derive(Debug, PartialEq, Eq, Hash)]
enum Identity {
    /// A UID in the form of a UUID, as API servers give it.
    Uuid(u128),
    Uid(Text),
    /// Without a UID, the first time, or the creation time if there is none.
    First(Option<Timestamp>),
}

#[derive(Debug)]
struct Seen {
    number: u64,
    largest: u32,
    latest: Order,
}

/// The values that determine which of two states is later.
#[derive(Clone, Copy, Debug)]
struct Order {
    resource_version: Option<u64>,
    count: u32,
    last: Option<Timestamp>,
}

impl Order {
    fn new(event: &Event, count: u32) -> Self {
        let resource_version = event.metadata.resource_version().parse().ok();
        Self { resource_version, count, last: event.last_seen() }
    }

    fn is_later_than(self, other: Self) -> bool {
        match (self.resource_version, other.resource_version) {
            (Some(version), Some(other)) => version > other,
            _ => (self.count, self.last) > (other.count, other.last),
        }
    }
}

impl Default for EventStates {
    /// Creates an empty set with a limit of one million events.
    fn default() -> Self {
        Self::with_max_events(MAX_EVENTS)
    }
}

impl EventStates {
    /// Creates an empty set with a limit on the number of events. With 0, each document is a
    /// separate event.
    pub fn with_max_events(max_events: usize) -> Self {
        Self { seen: HashMap::default(), max_events, next: 0, forgotten: 0 }
    }

    /// Adds a document. Returns how it relates to the earlier states of its event, or `None` for a
    /// deletion.
    pub fn observe(&mut self, read: &ReadEvent) -> Option<EventState> {
        if read.is_deleted {
            return None;
        }
        let event = &read.event;
        let count = event.occurrences();
        let order = Order::new(event, count);
        let key = key(event);
        if let Some(seen) = key.as_ref().and_then(|key| self.seen.get_mut(key)) {
            let added = count.saturating_sub(seen.largest);
            seen.largest = seen.largest.max(count);
            let is_latest = order.is_later_than(seen.latest);
            if is_latest {
                seen.latest = order;
            }
            return Some(EventState { number: seen.number, is_first: false, is_latest, count, added });
        }
        let number = self.next;
        self.next += 1;
        if let Some(key) = key {
            if self.seen.len() < self.max_events {
                self.seen.insert(key, Seen { number, largest: count, latest: order });
            } else {
                self.forgotten += 1;
            }
        }
        Some(EventState { number, is_first: true, is_latest: true, count, added: count })
    }

    /// Returns the number of documents that were not remembered because the limit was reached.
    pub fn forgotten(&self) -> u64 {
        self.forgotten
    }
}

/// Returns the key shared by all states of an event, or `None` if the event has no identity.
fn key(event: &Event) -> Option<Key> {
    let (metadata, uid) = (&event.metadata, event.metadata.uid());
    if uid.is_empty() && metadata.name.is_empty() {
        return None;
    }
    let identity = if uid.is_empty() {
        let first = event.first_seen();
        Identity::First(first.or(metadata.creation_timestamp()))
    } else {
        uuid(uid).map_or_else(|| Identity::Uid(uid.clone()), Identity::Uuid)
    };
    Some(Key { namespace: metadata.namespace.clone(), name: metadata.name.clone(), identity })
}

/// Parses a UUID in its canonical lower-case form, so that its key needs no allocation. Other
/// spellings are different UIDs.
fn uuid(text: &str) -> Option<u128> {
    let is_canonical = text.len() == 36
        && text.bytes().enumerate().all(|(at, byte)| match at {
            8 | 13 | 18 | 23 => byte == b'-',
            _ => matches!(byte, b'0'..=b'9' | b'a'..=b'f'),
        });
    let digits = |number: u128, digit: char| Some(number << 4 | u128::from(digit.to_digit(16)?));
    is_canonical.then(|| text.chars().filter(|c| *c != '-').try_fold(0, digits)).flatten()
}
