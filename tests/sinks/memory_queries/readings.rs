//! Paged reads from each kind of store while events are being written.

use eventcast::sink::{EventQuery, SinkBatch, SinkOp};
use eventcast::{Event, ObjectReference};

use crate::stores::{Store, for_each_store};
use crate::support::event;

/// The number of stored events, which is more than four pages. Every tenth event is a warning, and
/// every third event is about `web-1`.
pub(crate) const MANY: usize = 1_100;

pub(crate) fn many(number: usize) -> Event {
    let mut event = event(&format!("e-{number}"), "Pod", if number % 3 == 0 { "web-1" } else { "web-0" });
    if number % 10 == 0 {
        event.type_ = "Warning".into();
    }
    event
}

/// Runs a test with each kind of store, filled with [`MANY`] events.
fn with_each_store(test: impl Fn(&dyn Store)) {
    for_each_store(|store| {
        let events = (0..MANY).map(|number| SinkOp::Create(many(number))).collect();
        assert!(SinkBatch::perform(events, store).iter().all(Result::is_ok));
        test(store);
    });
}

pub(crate) fn version(event: &Event) -> u64 {
    event.metadata.resource_version().parse().unwrap()
}

/// Writes one of the store's events again, which makes that event the last one.
pub(crate) fn rewrite(store: &dyn Store, number: usize, count: i32) {
    let mut event = many(number);
    event.count = count;
    store.patch(&event).unwrap();
}

#[test]
fn a_reading_finds_what_a_query_finds() {
    with_each_store(|store| {
        let web = ObjectReference::new("Pod", "web-1");
        for query in [
            EventQuery::default(),
            EventQuery::default().type_("Warning"),
            EventQuery::default().object(web).namespace("default"),
            EventQuery::default().reason("Other"),
        ] {
            for after in [0, 1, 256, 1_000, 1_100, u64::MAX] {
                let query = query.clone().after(after);
                let all = store.found(&query);
                assert!(all.iter().all(|event| version(event) > after && query.matches(event)));
                assert!(store.reading(&query).eq(all.iter().cloned()), "{query:?}");
                for number in [0, 1, 256, 257, usize::MAX] {
                    let last = query.clone().last(number);
                    assert_eq!(store.found(&last), all[all.len().saturating_sub(number)..], "{last:?}");
                    assert!(store.reading(&last).eq(store.found(&last)), "{last:?}");
                    let first = query.clone().first(number);
                    assert_eq!(store.found(&first), all[..all.len().min(number)], "{first:?}");
                    assert!(store.reading(&first).eq(store.found(&first)), "{first:?}");
                }
            }
        }
        assert_eq!(store.last(), MANY as u64);
        assert_eq!(store.found(&EventQuery::default()).len(), MANY);
    });
}

#[test]
fn pages_continue_where_they_stopped_despite_writes() {
    with_each_store(|store| {
        let (mut after, mut seen) = (0, Vec::new());
        loop {
            let page = store.found(&EventQuery::default().after(after).first(100));
            let Some(last) = page.last() else { break };
            after = version(last);
            seen.extend(page.iter().map(|event| (event.metadata.name.to_string(), event.count)));
            match seen.len() {
                // Writes an event that has already been read, an event that has yet to be read, and
                // a new event.
                100 => rewrite(store, 7, 2),
                200 => rewrite(store, 900, 3),
                300 => drop(store.create(&many(MANY)).unwrap()),
                _ => {}
            }
        }
        let name = |number: usize| format!("e-{number}");
        let mut wanted: Vec<_> = (0..MANY).filter(|number| *number != 900).map(|n| (name(n), 1)).collect();
        wanted.extend([(name(7), 2), (name(900), 3), (name(MANY), 1)]);
        assert_eq!(seen, wanted);
    });
}

#[test]
fn a_reading_misses_nothing_and_ends_while_events_are_written() {
    with_each_store(|store| {
        let written = |read: usize| (read * 7) % MANY;
        // Events written during the read follow the other events, in their new state.
        let mut seen: Vec<(usize, i32)> = Vec::new();
        for event in store.reading(&EventQuery::default()) {
            seen.push((event.metadata.name["e-".len()..].parse().unwrap(), event.count));
            // More events are written than fit into the last page.
            if seen.len() % 3 == 0 && seen.len() < 1_000 {
                rewrite(store, written(seen.len()), 2);
            }
        }
        for number in 0..MANY {
            let counts: Vec<i32> = seen.iter().filter(|seen| seen.0 == number).map(|seen| seen.1).collect();
            let is_written = (3..1_000).step_by(3).any(|read| written(read) == number);
            let allowed: &[&[i32]] = if is_written { &[&[1, 2], &[2]] } else { &[&[1]] };
            assert!(allowed.contains(&&*counts), "{number}: {counts:?}");
        }
    });
}
