//! Reads from the in-memory store while many writes are taking place.

use eventcast::sink::{EventCursor, EventPage, EventQuery};
use eventcast::{EventSink, MemorySink, ObjectReference};

use super::readings::{MANY, many, rewrite, version};

#[test]
fn a_reading_ends_where_more_is_written_than_it_reads() {
    let store = MemorySink::new();
    for number in 0..MANY {
        store.create(&many(number)).unwrap();
    }
    let (mut read, mut writes) = (Vec::new(), 0);
    for event in store.stream(&EventQuery::default().type_("Normal")) {
        read.push(event.metadata.name.to_string());
        assert!(read.len() < 3 * MANY, "the read does not end");
        // Writes two events for each event read, and stays more than a page ahead.
        for _ in 0..2 {
            rewrite(&store, writes % 500, 2 + i32::try_from(writes).unwrap());
            writes += 1;
        }
    }
    // Events that do not change are read exactly once.
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
        // Changes ten events so that they are about the object of a query, and changes them back.
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
        let web_1 = EventQuery::default().object(ObjectReference::new("pod", "web-1"));
        let readings = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            for _ in 0..20 {
                let found = store.find(&EventQuery::default());
                assert!(found.is_sorted_by_key(version));
                let names: std::collections::HashSet<_> =
                    found.iter().map(|event| &event.metadata.name).collect();
                assert_eq!((found.len(), names.len()), (MANY, MANY));
                assert_eq!(store.find(&EventQuery::default().last(700)).len(), 700);
                let found = store.find(&web_1);
                assert!(found.is_sorted_by_key(version));
                let names: std::collections::HashSet<_> =
                    found.iter().map(|event| event.metadata.name.to_string()).collect();
                assert_eq!(found.len(), names.len());
                assert!((0..MANY).step_by(3).all(|number| names.contains(&format!("e-{number}"))));
                assert_eq!(store.find(&web_1.clone().last(300)).len(), 300);
                assert_eq!(store.find(&web_1.clone().first(300)).len(), 300);
            }
        }));
        is_over.store(true, Ordering::Relaxed);
        readings.unwrap();
    });
}

/// Another kind of store can use a cursor with its own pages.
#[test]
fn a_cursor_ends_with_the_error_of_a_page() {
    let page = |query: &EventQuery, after: u64| {
        let found = (after < 2).then(|| many(after as usize)).into_iter();
        let found = found.filter(|event| query.matches(event)).collect();
        if after < 2 {
            Ok(EventPage { found, last: after + 1, version: 9, is_end: false })
        } else {
            Err("the disk is gone")
        }
    };
    let mut cursor = EventCursor::new(&EventQuery::default().type_("Normal"), 0, 9);
    // The query skips the first event, which is a warning.
    assert_eq!(cursor.next(page).unwrap().unwrap().metadata.name, "e-1");
    assert_eq!(cursor.next(page), Err("the disk is gone"));
    assert_eq!(cursor.next(page), Ok(None));
    // A limit ends the cursor before the page that fails, and with a limit of zero nothing is read.
    let mut cursor = EventCursor::new(&EventQuery::default().first(2), 0, 9);
    for name in ["e-0", "e-1"] {
        assert_eq!(cursor.next(page).unwrap().unwrap().metadata.name, name);
    }
    assert_eq!(cursor.next(page), Ok(None));
    let mut cursor = EventCursor::new(&EventQuery::default().last(0).after(5), 0, 9);
    assert_eq!(cursor.next(page), Ok(None));
}
