//! Kubernetes' four conformance tests for events, from `test/e2e/instrumentation` (`core_events.go`
//! and `events.go`, releases 1.19 to 1.25).
//!
//! The sink creates, patches and updates events. The sink never reads or deletes events, so the
//! administrator reads and deletes them.

use eventcast::event::EventSeries;
use eventcast::{Event, EventSink, ObjectReference, Timestamp};
use eventcast_kube::EventsApi;
use http::Method;
use serde_json::Value;

use super::cluster::Cluster;

/// One of the two APIs for events.
#[derive(Clone, Copy)]
struct Api {
    which: EventsApi,
    path: &'static str,
    event: fn(&Cluster, &str, &'static str) -> Event,
}

const CORE: Api = Api { which: EventsApi::CoreV1, path: "/api/v1", event: core };
const EVENTS_V1: Api = Api { which: EventsApi::EventsV1, path: "/apis/events.k8s.io/v1", event: timed };

/// Returns the event that `core_events.go` uses.
fn core(cluster: &Cluster, name: &str, label: &'static str) -> Event {
    let mut event = Event::default();
    event.metadata.name = name.to_owned().into();
    event.metadata.namespace = cluster.namespace.clone().into();
    event.metadata.labels_mut().insert(label.into(), "true".into());
    event.involved_object = ObjectReference::default().in_namespace(cluster.namespace.clone());
    event.message = format!("This is {name}").into();
    event.reason = "Test".into();
    event.type_ = "Normal".into();
    event.count = 1;
    event
}

/// Returns the event that `events.go` uses.
fn timed(cluster: &Cluster, name: &str, label: &'static str) -> Event {
    let mut event = core(cluster, name, label);
    event.count = 0;
    event.set_event_time(observed());
    event.set_action("Do");
    event.reporting_controller = "test-controller".into();
    event.reporting_instance = "test-node".into();
    event
}

fn observed() -> Timestamp {
    "2017-09-19T13:49:16Z".parse().unwrap()
}

impl Api {
    /// Returns the path of the events in the test's namespace.
    fn events(self, cluster: &Cluster) -> String {
        format!("{}/namespaces/{}/events", self.path, cluster.namespace)
    }

    /// Asserts that the list of the test's namespace and the list of all namespaces contain exactly
    /// these events with a label.
    #[track_caller]
    fn assert_listed(self, cluster: &Cluster, label: &str, names: &[&str]) {
        let selector = format!("labelSelector={label}%3Dtrue");
        for events in [self.events(cluster), format!("{}/events", self.path)] {
            assert_eq!(listed(cluster, &events, &selector), names, "{events}");
        }
    }

    fn delete(self, cluster: &Cluster, rest: &str) {
        let path = format!("{}{rest}", self.events(cluster));
        let (code, answer) = cluster.ask(Method::DELETE, &path, &Value::Null);
        assert_eq!(code, 200, "{answer}");
    }
}

/// Returns the names of the events in the test's namespace that match a selector.
fn listed(cluster: &Cluster, events: &str, selector: &str) -> Vec<String> {
    let (code, list) = cluster.ask(Method::GET, &format!("{events}?{selector}"), &Value::Null);
    assert_eq!(code, 200, "{list}");
    let items = list["items"].as_array().unwrap().iter().map(|item| &item["metadata"]);
    let ours = items.filter(|metadata| metadata["namespace"] == cluster.namespace.as_str());
    ours.map(|metadata| metadata["name"].as_str().unwrap().to_owned()).collect()
}

/// Asserts that an event is stored as expected, apart from its version, and returns the version.
#[track_caller]
fn assert_stored(cluster: &Cluster, mut expected: Event) -> String {
    let mut found = cluster.stored(&expected.metadata.name).unwrap();
    let version = found.metadata.resource_version().to_string();
    assert_ne!(version, expected.metadata.resource_version().as_str());
    for event in [&mut found, &mut expected] {
        event.metadata.set_resource_version("");
    }
    assert_eq!(found, expected);
    version
}

/// `core_events.go`: an event is created, listed, patched, read, updated and deleted.
#[test]
fn an_event_of_core_v1_is_listed_patched_updated_and_deleted() {
    let (cluster, label) = (Cluster::new(), "testevent-constant");
    let sink = cluster.sink().api(CORE.which);
    let mut event = sink.create(&core(&cluster, "event-test", label)).unwrap();
    CORE.assert_listed(&cluster, label, &["event-test"]);
    let mut patch = core(&cluster, "event-test", label);
    (patch.count, patch.message) = (0, "This is a test event - patched".into());
    sink.patch(&patch).unwrap();
    event.message = patch.message;
    let version = assert_stored(&cluster, event.clone());
    event.set_series(EventSeries::new(100, observed()));
    event.metadata.set_resource_version(version);
    sink.update(&event).unwrap();
    assert_stored(&cluster, event);
    CORE.delete(&cluster, "/event-test");
    CORE.assert_listed(&cluster, label, &[]);
    assert_eq!(cluster.stored("event-test"), None);
}

/// `events.go`: the same operations through events.k8s.io/v1, with a series and with field
/// selectors.
#[test]
fn an_event_of_events_v1_is_listed_patched_updated_and_deleted() {
    let (cluster, label) = (Cluster::new(), "testevent-constant");
    let sink = cluster.sink().api(EVENTS_V1.which);
    let mut event = sink.create(&timed(&cluster, "event-test", label)).unwrap();
    EVENTS_V1.assert_listed(&cluster, label, &["event-test"]);
    for (api, field) in [(CORE, "source"), (EVENTS_V1, "reportingController")] {
        for (value, names) in [("test-controller", &["event-test"][..]), ("other", &[])] {
            let selector = format!("fieldSelector={field}%3D{value}");
            assert_eq!(listed(&cluster, &api.events(&cluster), &selector), names, "{selector}");
        }
    }
    event.set_series(EventSeries::new(2, observed()));
    sink.patch(&event).unwrap();
    let version = assert_stored(&cluster, event.clone());
    event.set_series(EventSeries::new(100, observed()));
    event.metadata.set_resource_version(version);
    sink.update(&event).unwrap();
    assert_stored(&cluster, event);
    EVENTS_V1.delete(&cluster, "/event-test");
    EVENTS_V1.assert_listed(&cluster, label, &[]);
    assert_eq!(cluster.stored("event-test"), None);
}

/// `core_events.go` and `events.go`: a collection of events is deleted.
#[test]
fn a_collection_is_deleted_without_other_events() {
    for api in [CORE, EVENTS_V1] {
        let cluster = Cluster::new();
        let sink = cluster.sink().api(api.which);
        let names = ["test-event-1", "test-event-2", "test-event-3"];
        for name in names {
            sink.create(&(api.event)(&cluster, name, "testevent-set")).unwrap();
        }
        sink.create(&(api.event)(&cluster, "other", "testevent-other")).unwrap();
        api.assert_listed(&cluster, "testevent-set", &names);
        api.delete(&cluster, "?labelSelector=testevent-set%3Dtrue");
        api.assert_listed(&cluster, "testevent-set", &[]);
        api.assert_listed(&cluster, "testevent-other", &["other"]);
    }
}
