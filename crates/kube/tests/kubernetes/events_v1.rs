//! Events with an event time, through core/v1 and through events.k8s.io/v1.

use std::thread;
use std::time::Duration;

use eventcast::EventType::Warning;
use eventcast::event::EventSeries;
use eventcast::sink::{SinkBatch, SinkErrorKind, SinkOp};
use eventcast::{Event, EventBroadcaster, EventSink, EventSource, ObjectReference, RetryPolicy, Timestamp};
use eventcast_kube::EventsApi;
use http::Method;
use serde_json::{Value, json};
use test_support::{LONG, until};

use super::api_server::{Fault, Seen};
use super::cluster::{Cluster, Role, refused};

/// The path of the request that finds out whether a server supports events.k8s.io/v1.
const DISCOVERY: &str = "/apis/events.k8s.io/v1";

fn at_once() -> RetryPolicy {
    RetryPolicy::default().delay(Duration::ZERO)
}

/// Returns an event with an event time, about a pod in the namespace.
fn timed(cluster: &Cluster, name: &str) -> Event {
    let mut event = cluster.event(name);
    (event.count, event.first_timestamp, event.last_timestamp) = (0, None, None);
    event.set_event_time("2026-11-21T12:00:00.5Z".parse::<Timestamp>().unwrap());
    (event.reporting_controller, event.reporting_instance) = ("example.com/tester".into(), "web-7".into());
    event.set_action("Restart");
    event
}

/// Returns the methods and paths of the requests since the last call, without the namespace's name.
fn requests(cluster: &Cluster) -> Vec<String> {
    let namespace = format!("/namespaces/{}/events", cluster.namespace);
    let show = |seen: &Seen| format!("{} {}", seen.method, seen.path.replacen(&namespace, "", 1));
    cluster.server().take_seen().iter().map(show).collect()
}

/// Returns the events in the test's namespace.
fn listed(cluster: &Cluster) -> Vec<Event> {
    let path = format!("/api/v1/namespaces/{}/events", cluster.namespace);
    let (code, list) = cluster.ask(Method::GET, &path, &Value::Null);
    assert_eq!(code, 200, "{list}");
    let items = list["items"].as_array().unwrap();
    items.iter().map(|item| Event::from_json(&item.to_string()).unwrap()).collect()
}

/// Through either API, a server accepts a series in the form that client-go writes, and an expired
/// event is created again with its series.
#[test]
fn repeats_are_counted_in_a_series() {
    for api in [EventsApi::CoreV1, EventsApi::EventsV1, EventsApi::Auto] {
        count_in_a_series(api);
    }
}

fn count_in_a_series(api: EventsApi) {
    let cluster = Cluster::new();
    let events = EventBroadcaster::builder().retry(at_once()).event_time(true).build().unwrap();
    let recording = events.record_to(cluster.sink().api(api)).unwrap();
    let recorder = events.recorder(EventSource::from("example.com/tester").on_host("web-7"));
    let pod = ObjectReference::new("Pod", "web-0").in_namespace(cluster.namespace.clone());
    let record = |times: usize| {
        for _ in 0..times {
            assert!(recorder.event(&pod, Warning, "BackOff", "restarts").is_accepted());
        }
        events.flush(LONG).unwrap();
    };
    record(5);
    let first = listed(&cluster).remove(0);
    let series = first.series().unwrap();
    assert_eq!((series.count, first.count, first.first_timestamp), (5, 0, None));
    assert!(series.last_observed_time >= first.event_time());
    assert_eq!((&*first.reporting_controller, &*first.reporting_instance), ("example.com/tester", "web-7"));
    assert_eq!(first.action(), "BackOff");

    let path = format!("/api/v1/namespaces/{}/events/{}", cluster.namespace, first.metadata.name);
    assert_eq!(cluster.ask(Method::DELETE, &path, &Value::Null).0, 200);
    record(2);
    let again = listed(&cluster);
    assert_eq!(again.len(), 1);
    assert_eq!((&again[0].metadata.name, again[0].event_time()), (&first.metadata.name, first.event_time()));
    assert_eq!(again[0].series().unwrap().count, 7);
    let stats = recording.stats();
    assert_eq!((stats.created + stats.updated, stats.recreated, stats.lost()), (7, 1, 0), "{stats}");
}

/// The response to the creation is lost. The second attempt finds the existing event, and
/// recognises it by its event time and its reporter.
#[test]
fn a_series_continues_after_an_unanswered_creation() {
    for (fault, api) in [
        (Fault::HangUpAfter, EventsApi::CoreV1),
        (Fault::CutAnswer, EventsApi::CoreV1),
        (Fault::HangUpAfter, EventsApi::EventsV1),
        (Fault::CutAnswer, EventsApi::EventsV1),
    ] {
        let cluster = Cluster::fake();
        let events = EventBroadcaster::builder().retry(at_once()).event_time(true).build().unwrap();
        events.record_to(cluster.sink().api(api)).unwrap();
        let recorder = events.recorder(EventSource::from("tester").on_host("web-7"));
        let pod = ObjectReference::new("Pod", "web-0").in_namespace(cluster.namespace.clone());
        cluster.server().fail([fault]);
        for _ in 0..3 {
            assert!(recorder.event(&pod, Warning, "BackOff", "restarts").is_accepted());
            events.flush(LONG).unwrap();
        }
        assert!(events.shutdown().complete);
        let stored = listed(&cluster);
        assert_eq!((stored.len(), stored[0].series().unwrap().count), (1, 3));
    }
}

/// A sink writes an event through one API. The test then reads the event through the other API and
/// finds every field in its place.
#[test]
fn an_event_is_the_same_through_both_apis() {
    let cluster = Cluster::new();
    let sink = cluster.sink().api(EventsApi::EventsV1);
    let event = timed(&cluster, "web-0.1");
    let stored = sink.create(&event).unwrap();
    assert_eq!(Some(&stored), cluster.stored("web-0.1").as_ref());
    assert_eq!((&stored.message, &stored.involved_object), (&event.message, &event.involved_object));
    assert_eq!((stored.event_time(), stored.action()), (event.event_time(), event.action()));

    let mut again = event;
    again.set_series(EventSeries::new(2, "2026-11-21T12:00:01.5Z".parse().unwrap()));
    let patched = sink.patch(&again).unwrap();
    assert_eq!(patched.series(), again.series());
    assert_eq!(cluster.stored("web-0.1").unwrap().series(), again.series());
    // The name is taken, and the error contains the stored event with that name.
    let error = sink.create(&again).unwrap_err();
    assert_eq!(error.kind(), SinkErrorKind::AlreadyExists);
    assert_eq!(error.stored().unwrap().series(), again.series());
}

#[test]
fn the_newer_api_checks_more() {
    let cluster = Cluster::new();
    let mut event = timed(&cluster, "web-0.1");
    event.type_ = "Odd".into();
    let newer = cluster.sink().api(EventsApi::EventsV1);
    refused(newer.create(&event), SinkErrorKind::Rejected, &["422", "type"]);
    cluster.sink().create(&event).unwrap();
    let mut event = timed(&cluster, "web-0.2");
    event.set_series(EventSeries::new(1, Timestamp::UNIX_EPOCH));
    refused(newer.create(&event), SinkErrorKind::Rejected, &["422", "series"]);
}

/// The newer API would refuse an event without an event time, so the sink sends such an event
/// through the older API.
#[test]
fn each_event_goes_through_the_api_that_takes_it() {
    let cluster = Cluster::fake();
    let sink = cluster.sink().api(EventsApi::EventsV1);
    sink.create(&cluster.event("web-0.1")).unwrap();
    sink.patch(&cluster.repeat_of("web-0.1")).unwrap();
    sink.create(&timed(&cluster, "web-0.2")).unwrap();
    let expected = ["POST /api/v1", "PATCH /api/v1/web-0.1", "POST /apis/events.k8s.io/v1"];
    assert_eq!(requests(&cluster), expected);
}

#[test]
fn a_server_is_asked_once_which_api_it_has() {
    for has_it in [true, false] {
        let cluster = Cluster::fake();
        if !has_it {
            cluster.server().remove_events_v1();
        }
        let sink = cluster.sink().in_flight(1).api(EventsApi::Auto);
        sink.create(&cluster.event("web-0.1")).unwrap();
        assert_eq!(requests(&cluster), ["POST /api/v1"], "it matters only for an event time");
        for name in ["web-0.2", "web-0.3"] {
            sink.create(&timed(&cluster, name)).unwrap();
        }
        let path = if has_it { DISCOVERY } else { "/api/v1" };
        let post = format!("POST {path}");
        assert_eq!(requests(&cluster), [format!("GET {DISCOVERY}"), post.clone(), post]);
    }
}

/// A server lacks the API only if the server does not know the path. After any other failure, the
/// sink sends the discovery query again.
#[test]
fn discovery_is_repeated_until_the_server_answers() {
    let busy = || Fault::status(503, &json!({"reason": "ServiceUnavailable", "message": "not ready"}));
    let no = || Fault::status(403, &json!({"reason": "Forbidden", "message": "no"}));
    let cluster = Cluster::fake();
    let sink = cluster.sink().api(EventsApi::Auto);
    cluster.server().fail([busy()]);
    let error = sink.create(&timed(&cluster, "web-0.1")).unwrap_err();
    assert_eq!(error.kind(), SinkErrorKind::GroupUnavailable, "{error}");
    let ask = format!("GET {DISCOVERY}");
    assert_eq!(requests(&cluster), std::slice::from_ref(&ask));
    // Each operation sends the discovery query until the server has answered it.
    cluster.server().fail([no(), no()]);
    let batch = ["web-0.1", "web-0.2"].map(|name| SinkOp::Create(timed(&cluster, name))).to_vec();
    for answer in SinkBatch::perform(batch, &sink) {
        assert_eq!(answer.unwrap_err().error().kind(), SinkErrorKind::Forbidden);
    }
    assert_eq!(requests(&cluster), [ask.clone(), ask.clone()]);
    sink.create(&timed(&cluster, "web-0.1")).unwrap();
    sink.create(&timed(&cluster, "web-0.2")).unwrap();
    let post = format!("POST {DISCOVERY}");
    assert_eq!(requests(&cluster), [ask, post.clone(), post]);
}

/// An operation waiting for the response does not block other operations, whether or not they also
/// send the discovery query.
#[test]
fn an_unanswered_discovery_blocks_one_operation() {
    let cluster = Cluster::fake();
    let sink = cluster.sink().api(EventsApi::Auto).timeout(2 * LONG);
    cluster.server().fail([Fault::Silence]);
    thread::scope(|scope| {
        let waiting = scope.spawn(|| sink.create(&timed(&cluster, "web-0.1")));
        until(|| cluster.server().seen_count() > 0);
        sink.create(&cluster.event("web-0.2")).unwrap();
        sink.create(&timed(&cluster, "web-0.3")).unwrap();
        assert!(!waiting.is_finished());
        cluster.server().kill();
        assert_eq!(waiting.join().unwrap().unwrap_err().kind(), SinkErrorKind::Unavailable);
    });
}

/// A role for core/v1's events does not cover the newer API, and the error names the newer API's
/// group.
#[test]
fn a_forbidden_request_names_the_group_of_the_role() {
    let cluster = Cluster::new();
    let nobody = cluster.sink_as(Role::Nobody).api(EventsApi::EventsV1);
    let words = ["in API group \"events.k8s.io\"", "apiGroups: [\"events.k8s.io\"]", "Permissions"];
    refused(nobody.create(&timed(&cluster, "web-0.1")), SinkErrorKind::Forbidden, &words);
}
