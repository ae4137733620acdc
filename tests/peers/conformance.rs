//! Kubernetes: the four conformance cases for events in `test/e2e/instrumentation`
//! (`core_events.go` and `events.go`, releases 1.19 to 1.25), on a `MemorySink`. `crates/kube` has
//! them against an API server.
//!
//! Difference: an `EventSink` writes, and deletes nothing. An event leaves the store when its time
//! to live ends, as it leaves an API server by `--event-ttl`, so an expiry takes the place of a
//! delete. A query has no label and field selectors, so the tests filter what they have read.

use std::time::Duration;

use eventcast::event::EventSeries;
use eventcast::sink::{EventQuery, MemorySinkOptions};
use eventcast::testing::FakeClock;
use eventcast::{Event, EventSink, MemorySink, ObjectReference, Timestamp};

use crate::support::clock;

const NAMESPACE: &str = "events-test";
const TTL: Duration = Duration::from_secs(3600);

/// A store with the rules of events.k8s.io/v1 or without.
fn store(events_v1_rules: bool) -> (MemorySink, FakeClock) {
    let clock = clock();
    let options = MemorySinkOptions::default().ttl(TTL).events_v1_rules(events_v1_rules);
    (MemorySink::with_clock(options, clock.clock()).unwrap(), clock)
}

/// The event of `core_events.go`.
fn core(name: &'static str, label: &'static str) -> Event {
    let mut event = Event::default();
    event.metadata.name = name.into();
    event.metadata.labels_mut().insert(label.into(), "true".into());
    event.involved_object = ObjectReference::default().in_namespace(NAMESPACE);
    event.message = format!("This is {name}").into();
    event.reason = "Test".into();
    event.type_ = "Normal".into();
    event.count = 1;
    event
}

/// The event of `events.go`.
fn timed(name: &'static str, label: &'static str) -> Event {
    let mut event = core(name, label);
    event.count = 0;
    event.metadata.namespace = NAMESPACE.into();
    event.set_event_time(observed());
    event.set_action("Do");
    event.reporting_controller = "test-controller".into();
    event.reporting_instance = "test-node".into();
    event
}

fn observed() -> Timestamp {
    "2017-09-19T13:49:16Z".parse().unwrap()
}

/// Returns the names of the events with a label, of all namespaces or of one.
fn labelled(store: &MemorySink, namespace: Option<&'static str>, label: &str) -> Vec<String> {
    let query =
        namespace.map_or(EventQuery::default(), |namespace| EventQuery::default().namespace(namespace));
    let events = store.find(&query).into_iter();
    let events = events.filter(|event| event.metadata.labels().get(label).is_some_and(|v| v == "true"));
    let mut names: Vec<_> = events.map(|event| event.metadata.name.to_string()).collect();
    names.sort();
    names
}

fn assert_listed(store: &MemorySink, label: &str, names: &[&str]) {
    for namespace in [None, Some(NAMESPACE)] {
        assert_eq!(labelled(store, namespace, label), names);
    }
    assert!(labelled(store, Some("default"), label).is_empty());
}

/// Asserts that an event is as expected, but for its resource version, which the store sets.
#[track_caller]
fn assert_stored(store: &MemorySink, mut expected: Event) {
    let mut found = store.get(NAMESPACE, &expected.metadata.name).unwrap();
    assert_ne!(found.metadata.resource_version(), expected.metadata.resource_version());
    for event in [&mut found, &mut expected] {
        event.metadata.set_resource_version("");
    }
    assert_eq!(found, expected);
}

/// `core_events.go`: an event is created, listed, patched, read, updated and deleted.
#[test]
fn an_event_of_core_v1_is_listed_patched_updated_and_removed() {
    let (store, clock) = store(false);
    let label = "testevent-constant";
    let mut event = store.create(&core("event-test", label)).unwrap();
    assert_listed(&store, label, &["event-test"]);
    // A patch names the fields that change. This one is made of an event whose others are unset.
    let mut patch = core("event-test", label);
    (patch.count, patch.message) = (0, "This is a test event - patched".into());
    store.patch(&patch).unwrap();
    event.message = patch.message;
    assert_stored(&store, event.clone());
    // The update of an outdated version is refused.
    event.set_series(EventSeries::new(100, observed()));
    assert!(store.update(&event).is_err());
    let read = store.get(NAMESPACE, "event-test").unwrap();
    event.metadata.set_resource_version(read.metadata.resource_version());
    store.update(&event).unwrap();
    assert_stored(&store, event);
    clock.advance(TTL);
    assert_listed(&store, label, &[]);
    assert!(store.get(NAMESPACE, "event-test").is_none());
}

/// `events.go`: the same through events.k8s.io/v1, where a series is what is patched.
#[test]
fn an_event_of_events_v1_is_listed_patched_updated_and_removed() {
    let (store, clock) = store(true);
    let label = "testevent-constant";
    let mut event = store.create(&timed("event-test", label)).unwrap();
    assert_listed(&store, label, &["event-test"]);
    let of_controller =
        store.events().into_iter().filter(|event| event.reporting_controller == "test-controller");
    assert_eq!(of_controller.count(), 1);
    for (count, write) in [(2, EventSink::patch as fn(&_, &_) -> _), (100, EventSink::update)] {
        event.set_series(EventSeries::new(count, observed()));
        if count == 100 {
            event.metadata.set_resource_version("");
        }
        write(&store, &event).unwrap();
        assert_stored(&store, event.clone());
    }
    // An API server refuses this too, and its first conformance case patched the note.
    event.message = "This is a test event - patched".into();
    assert!(store.update(&event).is_err());
    clock.advance(TTL);
    assert_listed(&store, label, &[]);
    assert!(store.get(NAMESPACE, "event-test").is_none());
}

/// Creates three events with a label, and asserts that they leave the store without another one.
fn remove_a_collection(event: fn(&'static str, &'static str) -> Event, events_v1_rules: bool) {
    let (store, clock) = store(events_v1_rules);
    let names = ["test-event-1", "test-event-2", "test-event-3"];
    for name in names {
        store.create(&event(name, "testevent-set")).unwrap();
    }
    assert_listed(&store, "testevent-set", &names);
    clock.advance(TTL / 2);
    store.create(&event("other", "testevent-other")).unwrap();
    clock.advance(TTL / 2);
    assert_listed(&store, "testevent-set", &[]);
    assert_listed(&store, "testevent-other", &["other"]);
    assert_eq!((store.len(), store.stats().expired), (1, 3));
}

/// `core_events.go`: a collection of events is deleted.
#[test]
fn a_collection_of_core_v1_is_removed_without_other_events() {
    remove_a_collection(core, false);
}

/// `events.go`: a collection of events is deleted.
#[test]
fn a_collection_of_events_v1_is_removed_without_other_events() {
    remove_a_collection(timed, true);
}
