//! A hostile event in everything that the store shows to people.

use eventcast::sink::EventQuery;
use eventcast::{EventSink, ObjectReference};
use eventcast_sqlite::SqliteSink;

use crate::hostile::{PAYLOAD, assert_harmless, assert_harmless_error, hostile};

#[test]
fn tables_and_descriptions_of_a_file() {
    let folder = tempfile::tempdir().unwrap();
    let store = SqliteSink::open(folder.path().join("events.db")).unwrap();
    store.create(&hostile()).unwrap();
    assert_harmless(&store.table().unwrap(), 2, 5);
    assert_harmless(&store.table_of(&EventQuery::default().type_(PAYLOAD)).unwrap(), 2, 5);
    assert_harmless(&store.describe(ObjectReference::new(PAYLOAD, PAYLOAD)).unwrap(), 4, 4);
    assert_harmless_error(&store.create(&hostile()).unwrap_err().to_string());
    assert_eq!(store.events().unwrap()[0].message, PAYLOAD);
}
