//! Recognizes documents that are states of the same event.

use std::collections::HashMap;

use eventcast::event::ReadEvent;
use eventcast::{Event, Text, Timestamp};

/// Recognizes documents that are states of the same event.
///
/// A cluster updates the count of a recurring event, so a watch, a log or a pair of dumps can
/// contain the same event several times. Two documents are states of the same event if their
/// namespace, name and UID are equal. Without a UID, the namespace, name and first time must be
/// equal. If the first time is missing, the creation time is used instead. A document with neither
/// a UID nor a name is always a separate event.
///
/// If a state has a series, the state's count is the count of the series, and otherwise it is the
/// event's own count. The state's count is at least 1.
///
/// If the `resourceVersion` of both states is a number, the state with the larger version is the
/// later state. Otherwise, the later state is the state with the larger count or, if the counts are
/// equal, with the later time.
///
/// Each event takes about 400 bytes. Once the limit is reached, new events are not stored, so each
/// state of a new event counts as a separate event.
#[derive(Debug)]
pub(crate) struct States {
    seen: HashMap<Key, Seen>,
    max_events: usize,
    /// The number of the next event.
    next: u64,
    forgotten: u64,
}

/// The result of [`States::observe`], which describes how a document relates to the states before
/// it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct State {
    /// The number of the event. Events are numbered from 0, in the order in which their first
    /// states were read.
    pub(crate) number: u64,
    /// Whether this is the first state of its event.
    pub(crate) is_first: bool,
    /// Whether this is the latest state of its event so far.
    pub(crate) is_latest: bool,
    /// The count of this state.
    pub(crate) count: u32,
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Key {
    namespace: Text,
    name: Text,
    identity: Identity,
}

/// The part of the key that distinguishes events with the same name.
#[derive(Debug, PartialEq, Eq, Hash)]
enum Identity {
    /// A UID in the form of a UUID, as assigned by API servers.
    Uuid(u128),
    Uid(Text),
    /// The first time of an event without a UID, or the creation time if there is no first time.
    First(Option<Timestamp>),
}

#[derive(Debug)]
struct Seen {
    number: u64,
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

impl States {
    /// Creates an empty set that stores a limited number of events. If the limit is 0, each
    /// document is a separate event.
    pub(crate) fn new(max_events: usize) -> Self {
        Self { seen: HashMap::default(), max_events, next: 0, forgotten: 0 }
    }

    /// Adds a document, and returns how the document relates to the earlier states of its event.
    /// Returns `None` for a deletion.
    pub(crate) fn observe(&mut self, read: &ReadEvent) -> Option<State> {
        if read.is_deleted {
            return None;
        }
        let event = &read.event;
        let count = event.occurrences();
        let order = Order::new(event, count);
        let key = key(event);
        if let Some(seen) = key.as_ref().and_then(|key| self.seen.get_mut(key)) {
            let is_latest = order.is_later_than(seen.latest);
            if is_latest {
                seen.latest = order;
            }
            return Some(State { number: seen.number, is_first: false, is_latest, count });
        }
        let number = self.next;
        self.next += 1;
        if let Some(key) = key {
            if self.seen.len() < self.max_events {
                self.seen.insert(key, Seen { number, latest: order });
            } else {
                self.forgotten += 1;
            }
        }
        Some(State { number, is_first: true, is_latest: true, count })
    }

    /// Returns the number of documents that were not stored because the limit was reached.
    pub(crate) fn forgotten(&self) -> u64 {
        self.forgotten
    }
}

/// Returns the key that all states of an event share, or `None` if the event has no identity.
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

/// Parses a UUID in its canonical lower-case form, so that the key does not require an allocation.
/// Any other spelling counts as a different UID.
fn uuid(text: &str) -> Option<u128> {
    let is_canonical = text.len() == 36
        && text.bytes().enumerate().all(|(at, byte)| match at {
            8 | 13 | 18 | 23 => byte == b'-',
            _ => matches!(byte, b'0'..=b'9' | b'a'..=b'f'),
        });
    let digits = |number: u128, digit: char| Some(number << 4 | u128::from(digit.to_digit(16)?));
    is_canonical.then(|| text.chars().filter(|c| *c != '-').try_fold(0, digits)).flatten()
}

#[cfg(test)]
mod tests {
    use eventcast::event::EventReader;

    use super::States;

    /// Returns the event number and the count for each document.
    fn observed(states: &mut States, input: &str) -> Vec<(u64, u32)> {
        let read = EventReader::new(input.as_bytes()).map(Result::unwrap);
        read.filter_map(|read| states.observe(&read)).map(|state| (state.number, state.count)).collect()
    }

    fn state(metadata: &str, count: &str) -> String {
        format!(r#"{{"metadata":{{{metadata}}},"reason":"R"{count}}}"#)
    }

    #[test]
    fn the_count_of_a_series_is_preferred() {
        let uid = r#""name":"n","uid":"u""#;
        let input: String =
            ["", r#","count":3"#, r#","count":3"#, r#","count":2"#, r#","count":3,"series":{"count":9}"#]
                .map(|count| state(uid, count))
                .concat();
        assert_eq!(observed(&mut States::new(9), &input), [(0, 1), (0, 3), (0, 3), (0, 2), (0, 9)]);
    }

    #[test]
    fn the_name_space_name_and_uid_make_an_event_the_same() {
        let same = r#""name":"n","namespace":"a","uid":"u""#;
        let input: String = [
            same,
            same,
            r#""name":"n","namespace":"a","uid":"v""#,
            r#""name":"n","namespace":"b","uid":"u""#,
            r#""name":"m","namespace":"a","uid":"u""#,
        ]
        .map(|metadata| state(metadata, ""))
        .concat();
        let numbers: Vec<u64> =
            observed(&mut States::new(9), &input).into_iter().map(|(number, _)| number).collect();
        assert_eq!(numbers, [0, 0, 1, 2, 3]);
    }

    #[test]
    fn without_a_uid_the_first_time_decides() {
        let at = |field: &str, second: u32| {
            let time = format!(r#","{field}":"2024-01-01T00:00:0{second}Z","count":2"#);
            state(r#""name":"n""#, &time)
        };
        let input =
            [at("firstTimestamp", 1), at("firstTimestamp", 1), at("firstTimestamp", 2), at("eventTime", 2)]
                .concat();
        assert_eq!(observed(&mut States::new(9), &input), [(0, 2), (0, 2), (1, 2), (1, 2)]);
        let created = |second: u32| {
            state(&format!(r#""name":"n","creationTimestamp":"2024-01-01T00:00:0{second}Z""#), "")
        };
        assert_eq!(observed(&mut States::new(9), &(created(1) + &created(2))), [(0, 1), (1, 1)]);
        // Documents without a name are always separate events.
        let nameless = state("", "").repeat(2);
        assert_eq!(observed(&mut States::new(9), &nameless), [(0, 1), (1, 1)]);
    }

    #[test]
    fn the_later_state_is_found_by_version_then_count_then_time() {
        let latest = |first: &str, second: &str| {
            let mut states = States::new(9);
            let input = format!("{first}{second}");
            let all: Vec<bool> = EventReader::new(input.as_bytes())
                .map(|read| states.observe(&read.unwrap()).unwrap().is_latest)
                .collect();
            assert!(all[0]);
            all[1]
        };
        let version =
            |version: &str, rest: &str| state(&format!(r#""uid":"u","resourceVersion":"{version}""#), rest);
        let timed = |second: u32| version("x", &format!(r#","lastTimestamp":"2024-01-01T00:00:0{second}Z""#));
        for (first, second, is_latest) in [
            (version("9", r#","count":5"#), version("10", r#","count":1"#), true),
            (version("10", ""), version("9", r#","count":7"#), false),
            (version("9", ""), version("x", r#","count":2"#), true),
            (version("x", r#","count":3"#), version("9", r#","count":2"#), false),
            (timed(1), timed(2), true),
            (timed(2), timed(1), false),
            (timed(1), timed(1), false),
        ] {
            assert_eq!(latest(&first, &second), is_latest, "{first} {second}");
        }
    }

    #[test]
    fn states_beyond_the_limit_are_not_kept() {
        let input: String =
            ["a", "b", "a", "b", "c"].map(|uid| state(&format!(r#""uid":"{uid}""#), "")).concat();
        let mut states = States::new(1);
        assert_eq!(observed(&mut states, &input), [(0, 1), (1, 1), (0, 1), (2, 1), (3, 1)]);
        assert_eq!(states.forgotten(), 3);
    }

    #[test]
    fn a_deletion_is_not_a_state() {
        let watch = |verb: &str, count: u32| {
            let event = state(r#""name":"n","uid":"u""#, &format!(r#","count":{count}"#));
            format!(r#"{{"type":"{verb}","object":{event}}}"#)
        };
        let input =
            [watch("DELETED", 3), watch("ADDED", 2), watch("DELETED", 9), watch("MODIFIED", 3)].concat();
        assert_eq!(observed(&mut States::new(9), &input), [(0, 2), (0, 3)]);
    }
}
