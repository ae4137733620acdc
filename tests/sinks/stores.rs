//! The stores whose common behaviour the tests compare. The crate `eventcast-sqlite` has a test
//! module with the same name for the tests that both crates share.

use eventcast::sink::rules::Rules;
use eventcast::sink::{EventQuery, MemorySinkOptions};
use eventcast::{Event, EventSink, MemorySink};

use crate::rules::Shelf;

/// A store that supports reading.
pub(crate) trait Store: EventSink {
    fn found(&self, query: &EventQuery) -> Vec<Event>;
    fn reading(&self, query: &EventQuery) -> Box<dyn Iterator<Item = Event>>;
    fn last(&self) -> u64;
}

impl Store for MemorySink {
    fn found(&self, query: &EventQuery) -> Vec<Event> {
        self.find(query)
    }

    fn reading(&self, query: &EventQuery) -> Box<dyn Iterator<Item = Event>> {
        Box::new(self.stream(query))
    }

    fn last(&self) -> u64 {
        self.version()
    }
}

/// Calls `test` with a new store of each readable kind.
pub(crate) fn for_each_store(test: impl Fn(&dyn Store)) {
    test(&MemorySink::new());
}

/// Calls `test` with a new store of each kind that implements the rules of events.k8s.io/v1.
pub(crate) fn for_each_strict_store(test: impl Fn(&dyn EventSink)) {
    let options = MemorySinkOptions::default().events_v1_rules(true);
    test(&MemorySink::with_options(options).unwrap());
    test(&Shelf::new(Rules::new().events_v1(true)));
}
