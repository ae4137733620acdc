//! Provides this crate's stores to the tests that are shared with the main library.

use eventcast::sink::EventQuery;
use eventcast::{Event, EventSink};
use eventcast_sqlite::{SqliteSink, SqliteSinkOptions};

/// A store whose events can be read back.
pub(crate) trait Store: EventSink {
    fn found(&self, query: &EventQuery) -> Vec<Event>;
    fn reading(&self, query: &EventQuery) -> Box<dyn Iterator<Item = Event>>;
    fn last(&self) -> u64;
}

impl Store for SqliteSink {
    fn found(&self, query: &EventQuery) -> Vec<Event> {
        self.find(query).unwrap()
    }

    fn reading(&self, query: &EventQuery) -> Box<dyn Iterator<Item = Event>> {
        Box::new(self.stream(query).unwrap().map(Result::unwrap))
    }

    fn last(&self) -> u64 {
        self.version().unwrap()
    }
}

/// Calls `test` with a new store.
pub(crate) fn for_each_store(test: impl Fn(&dyn Store)) {
    let folder = tempfile::tempdir().unwrap();
    test(&SqliteSink::open(folder.path().join("events.db")).unwrap());
}

/// Calls `test` with a new store that enforces the rules of events.k8s.io/v1.
pub(crate) fn for_each_strict_store(test: impl Fn(&dyn EventSink)) {
    let folder = tempfile::tempdir().unwrap();
    let options = SqliteSinkOptions::default().events_v1_rules(true);
    test(&SqliteSink::with_options(folder.path().join("events.db"), options).unwrap());
}
