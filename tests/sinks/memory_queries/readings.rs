//! Readings in parts, while events are written.

use eventcast::sink::{EventQuery, EventTable, SinkBatch, SinkOp};
use eventcast::{Event, EventSink, MemorySink, ObjectReference, Timestamp};

use crate::stores::{Store, for_each_store};

use super::event;

/// The number of stored events: more than four pages. Every tenth is a warning, every third is
/// about `web-1`.
const MANY: usize = 1_100;

fn many(number: usize) -> Event {
    let mut event = event(&format!("e-{number}"), "Pod", if number % 3 == 0 { "web-1" } else { "web-0" });
    if number % 10 == 0 {
        event.type_ = "Warning".into();
    }
    event
}

/// Runs a test with a store of each kind that holds [`MANY`] events.
fn with_each_store(test: impl Fn(&dyn Store)) {
    for_each_store(|store| {
        let events = (0..MANY).map(|number| SinkOp::Create(many(number))).collect();
        assert!(SinkBatch::perform(events, store).iter().all(Result::is_ok));
        test(store);
    });
}

fn version(event: &Event) -> u64 {
    event.metadata.resource_version().parse().unwrap()
}

/// Writes an event of the store again, which makes it the last one.
fn rewrite(store: &dyn Store, number: usize, count: i32) {
    let mut event = many(number);
    event.count = count;
    store.patch(&event).unwrap();
}

#[test]
fn a_reading_finds_what_a_query_finds() {
    with_each_store(|store| {
        let web = ObjectReference::new("Pod", "web-1");
        for query in [
            EventQuery::new(),
            EventQuery::new().type_("Warning"),
            EventQuery::new().object(web).namespace("default"),
            EventQuery::new().reason("Other"),
        ] {
            for after in [0, 1, 256, 1_000, 1_100, u64::MAX] {
                let query = query.clone().after(after);
                let all = store.found(&query);
                assert!(all.iter().all(|event| version(event) > after && query.matches(event)));
                assert!(store.reading(&query).eq(all.iter().cloned()), "{query:?}");
                for number in [0, 1, 256, 257, usize::MAX] {
                    let last = query.clone().limit(number);
                    assert_eq!(store.found(&last), all[all.len().saturating_sub(number)..], "{last:?}");
                    assert!(store.reading(&last).eq(store.found(&last)), "{last:?}");
                    let first = query.clone().first(number);
                    assert_eq!(store.found(&first), all[..all.len().min(number)], "{first:?}");
                    assert!(store.reading(&first).eq(store.found(&first)), "{first:?}");
                }
            }
        }
        assert_eq!(store.last(), MANY as u64);
        assert_eq!(store.found(&EventQuery::new()).len(), MANY);
    });
}

#[test]
fn pages_go_on_where_they_stopped_whatever_is_written() {
    with_each_store(|store| {
        let (mut after, mut seen) = (0, Vec::new());
        loop {
            let page = store.found(&EventQuery::new().after(after).first(100));
            let Some(last) = page.last() else { break };
            after = version(last);
            seen.extend(page.iter().map(|event| (event.metadata.name.to_string(), event.count)));
            match seen.len() {
                // An event that was read already, one that is still to come, and one that is new.
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
        // Events that were written meanwhile come behind the others, in their new state.
        let mut seen: Vec<(usize, i32)> = Vec::new();
        for event in store.reading(&EventQuery::new()) {
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

#[test]
fn a_reading_ends_where_more_is_written_than_it_reads() {
    let store = MemorySink::new();
    for number in 0..MANY {
        store.create(&many(number)).unwrap();
    }
    let (mut read, mut writes) = (Vec::new(), 0);
    for event in store.stream(&EventQuery::new().type_("Normal")) {
        read.push(event.metadata.name.to_string());
        assert!(read.len() < 3 * MANY, "it does not end");
        // Two writes for each event read, and always more than a page ahead.
        for _ in 0..2 {
            rewrite(&store, writes % 500, 2 + i32::try_from(writes).unwrap());
            writes += 1;
        }
    }
    // An event that does not change comes once.
    for number in (500..MANY).filter(|number| number % 10 != 0) {
        let name = format!("e-{number}");
        assert_eq!(read.iter().filter(|read| **read == name).count(), 1, "{name}");
    }
}

#[test]
fn all_events_are_found_while_all_of_them_are_written() {
    use std::sync::atomic::{AtomicBool, Ordering};
    let store = MemorySink::new();
    for number in 0..MANY {
        store.create(&many(number)).unwrap();
    }
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for writer in 0..2 {
            let (store, is_over) = (&store, &is_over);
            scope.spawn(move || {
                let mut count = 2;
                while !is_over.load(Ordering::Relaxed) {
                    for number in (writer..MANY).step_by(2) {
                        rewrite(store, number, count);
                    }
                    count += 1;
                }
            });
        }
        // Ten events come to be about the object of a query, and go again.
        scope.spawn(|| {
            for round in 1.. {
                if is_over.load(Ordering::Relaxed) {
                    break;
                }
                for number in (1..30).step_by(3) {
                    let mut event = many(number + round % 2);
                    event.metadata.name = many(number).metadata.name;
                    store.update(&event).unwrap();
                }
            }
        });
        let web_1 = EventQuery::new().object(ObjectReference::new("pod", "web-1"));
        let readings = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            for _ in 0..20 {
                let found = store.find(&EventQuery::new());
                assert!(found.is_sorted_by_key(version));
                let names: std::collections::HashSet<_> =
                    found.iter().map(|event| &event.metadata.name).collect();
                assert_eq!((found.len(), names.len()), (MANY, MANY));
                assert_eq!(store.find(&EventQuery::new().limit(700)).len(), 700);
                let found = store.find(&web_1);
                assert!(found.is_sorted_by_key(version));
                let names: std::collections::HashSet<_> =
                    found.iter().map(|event| event.metadata.name.to_string()).collect();
                assert_eq!(found.len(), names.len());
                assert!((0..MANY).step_by(3).all(|number| names.contains(&format!("e-{number}"))));
                assert_eq!(store.find(&web_1.clone().limit(300)).len(), 300);
                assert_eq!(store.find(&web_1.clone().first(300)).len(), 300);
            }
        }));
        is_over.store(true, Ordering::Relaxed);
        readings.unwrap();
    });
}

#[test]
fn a_table_in_parts_keeps_the_widths_of_its_first_part() {
    let now = Timestamp::UNIX_EPOCH;
    let (mut wide, narrow) = (event("a", "Pod", "web-0"), event("b", "Pod", "w"));
    wide.reason = "FailedScheduling".into();
    let mut table = EventTable::new(now);
    let parts = table.rows(&[narrow.clone(), wide.clone()])
        + &table.rows(&[])
        + &table.rows(std::slice::from_ref(&narrow));
    let whole = EventTable::new(now).rows(&[narrow.clone(), wide.clone(), narrow.clone()]);
    assert_eq!(parts, whole);
    // A wider cell widens its column from there on.
    let mut table = EventTable::new(now);
    let parts = [table.rows(std::slice::from_ref(&narrow)), table.rows(&[wide]), table.rows(&[narrow])];
    assert_eq!(
        parts.concat(),
        "\
LAST SEEN   TYPE     REASON    OBJECT   MESSAGE
<unknown>   Normal   Started   pod/w    \n\
<unknown>   Normal   FailedScheduling   pod/web-0   \n\
<unknown>   Normal   Started            pod/w       \n"
    );
    assert_eq!(EventTable::new(now).rows(&[]), "LAST SEEN   TYPE   REASON   OBJECT   MESSAGE\n");
}
