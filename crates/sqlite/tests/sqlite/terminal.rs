//! Checks all human-readable output of a store that contains a hostile event.

use std::time::SystemTime;

use eventcast::EventSink;
use eventcast::sink::EventTable;
use eventcast_sqlite::SqliteSink;

use crate::hostile::{PAYLOAD, assert_harmless, assert_harmless_error, hostile};

#[test]
fn tables_and_descriptions_of_a_file() {
    let folder = tempfile::tempdir().unwrap();
    let store = SqliteSink::open(folder.path().join("events.db")).unwrap();
    store.create(&hostile()).unwrap();
    let events = store.events().unwrap();
    assert_harmless(&EventTable::new(SystemTime::UNIX_EPOCH).rows(&events), 2, 5);
    assert_harmless(&EventTable::new(SystemTime::UNIX_EPOCH).describe(&events), 4, 4);
    assert_harmless_error(&store.create(&hostile()).unwrap_err().to_string());
    assert_eq!(events[0].message, PAYLOAD);
}
