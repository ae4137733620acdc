//! Events with an event time: the form that events.k8s.io/v1 requires, and events that are refused
//! early.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use eventcast::EventType::{Normal, Warning};
use eventcast::event::EventField;
use eventcast::record::{EventBroadcasterBuilder, LossReason};
use eventcast::sink::MemorySinkOptions;
use eventcast::testing::FakeClock;
use eventcast::{
    CorrelatorOptions, Event, EventBroadcaster, EventSource, MemorySink, ObjectReference, Recorded, Recorder,
    Timestamp,
};

use crate::support::{LONG, Scripted, assert_balanced, at_once, clock, clocked, pod, with_losses};

fn timed(clock: &FakeClock) -> EventBroadcasterBuilder {
    clocked(clock).event_time(true)
}

/// Returns the events that are in a store after these calls to a recorder.
fn stored(source: EventSource, calls: impl FnOnce(&Recorder)) -> Vec<Event> {
    let clock = clock();
    clock.advance(Duration::from_nanos(123_456_789));
    let events = timed(&clock).build().unwrap();
    let store = MemorySink::new();
    events.record_to(store.clone()).unwrap();
    calls(&events.recorder(source));
    let report = events.shutdown();
    assert!(report.complete);
    assert_balanced(&report.recordings[0]);
    store.events()
}

fn web() -> EventSource {
    EventSource::from("example.com/web").on_host("web-7")
}

#[test]
fn an_event_has_what_the_newer_api_demands() {
    let node = ObjectReference::new("Node", "n1");
    let event = stored(web(), |recorder| {
        let draft = recorder.draft(pod("a").in_namespace("shop"), Warning, "BackOff");
        let draft = draft.action("Restart").related(&node).message("again").label("team", "blue");
        assert_eq!(draft.record(), Recorded::Accepted);
    })
    .remove(0);
    assert_eq!(event.event_time(), Some("2023-11-14T22:13:20.123456Z".parse().unwrap()));
    assert_eq!((event.first_timestamp, event.last_timestamp, event.count), (None, None, 0));
    assert_eq!((&event.source, event.series()), (&EventSource::default(), None));
    assert_eq!((&*event.reporting_controller, &*event.reporting_instance), ("example.com/web", "web-7"));
    assert_eq!((&**event.action(), &*event.reason, &*event.message), ("Restart", "BackOff", "again"));
    assert_eq!((event.related().unwrap(), &*event.metadata.labels()["team"]), (&node, "blue"));
    assert_eq!((&*event.metadata.namespace, &*event.type_), ("shop", "Warning"));
    // The name contains all digits of the time.
    assert_eq!(event.metadata.name, "a.17979cfe3d85cd15");
}

#[test]
fn missing_fields_have_values_from_other_fields() {
    let event = stored("web".into(), |recorder| {
        assert!(recorder.event(pod("a"), Normal, "Started", "").is_accepted());
    })
    .remove(0);
    assert_eq!(event.action(), "Started");
    assert_eq!(event.reporting_controller, "web");
    // The machine's name follows the dash.
    assert!(event.reporting_instance.starts_with("web-"), "{}", event.reporting_instance);
}

#[test]
fn a_past_event_has_the_past_time() {
    let past: Timestamp = "2001-02-03T04:05:06.7891239Z".parse().unwrap();
    let events = stored(web(), |recorder| {
        recorder.draft(pod("a"), Normal, "Rebooted").at(past).record();
    });
    let cut = Some("2001-02-03T04:05:06.789123Z".parse().unwrap());
    assert!(events.iter().all(|event| event.event_time() == cut), "{events:?}");
    assert_eq!(events.len(), 1);
}

/// Without series, each event is stored separately. These events bypass the correlator, because the
/// correlator counts in fields of the older API.
#[test]
fn equal_events_are_not_counted_without_series() {
    let events = timed(&clock()).build().unwrap();
    let store = MemorySink::new();
    let correlator = CorrelatorOptions::default().on_skip(|_| panic!("the correlator has seen one"));
    events.recording().correlator(correlator).series(None).start(store.clone()).unwrap();
    let recorder = events.recorder(web());
    for _ in 0..40 {
        assert!(recorder.event(pod("a"), Normal, "Started", "up").is_accepted());
    }
    assert_balanced(&events.shutdown().recordings[0]);
    assert_eq!(store.len(), 40);
    assert!(store.events().iter().all(|event| event.count == 0 && event.series().is_none()));
}

#[test]
fn a_note_is_cut_at_a_character_and_counted() {
    let clock = clock();
    let events = timed(&clock).build().unwrap();
    let mut watcher = events.watch_builder().watch().unwrap();
    let recorder = events.recorder(web());
    // These notes consist of two-byte characters. One note is 1024 bytes long, and the other note
    // is one byte longer.
    for note in ["é".repeat(512), format!("x{}", "é".repeat(512))] {
        assert!(recorder.event(pod("a"), Normal, "Started", note).is_accepted());
    }
    events.shutdown();
    let notes: Vec<_> = watcher.events().map(|event| event.message).collect();
    assert_eq!(*notes[0], *"é".repeat(512));
    assert_eq!(*notes[1], *format!("x{}...", "é".repeat(510)));
    assert_eq!(notes[1].len(), 1024);
    assert_eq!(events.stats().recorder.truncated, 1);
}

/// The event is refused before its message is formatted. The event is counted, and is reported
/// together with the field's name.
#[test]
fn an_event_that_a_server_would_refuse_is_refused_early() {
    let builder = EventBroadcaster::builder().event_time(true);
    let (events, losses) = with_losses(builder, |loss| (loss.reason, loss.to_string()));
    let long = "r".repeat(129);
    let record = |source: EventSource, reason: &str, action: &str| {
        let recorder = events.recorder(source);
        let draft = recorder.draft(pod("a"), Normal, reason.to_owned()).message("secret");
        (if action.is_empty() { draft } else { draft.action(action.to_owned()) }).record()
    };
    let on = |component: &str, host: &str| EventSource::from(component.to_owned()).on_host(host.to_owned());
    for (source, reason, action, field) in [
        (web(), &*long, "", EventField::Reason),
        (web(), "R", &*long, EventField::Action),
        (on("", "h"), "R", "", EventField::ReportingController),
        (on("not a name", "h"), "R", "", EventField::ReportingController),
        (on("Example.com/web", "h"), "R", "", EventField::ReportingController),
        (on(&format!("a/{}", "n".repeat(64)), "h"), "R", "", EventField::ReportingController),
        (on("web", &long), "R", "", EventField::ReportingInstance),
    ] {
        assert_eq!(record(source, reason, action), Recorded::Invalid(field));
        let (lost, text) = losses.try_recv().unwrap();
        assert_eq!(lost, LossReason::Invalid(field));
        assert!(text.contains(&format!("(invalid {field})")) && !text.contains("secret"), "{text}");
    }
    assert_eq!(record(web(), "", ""), Recorded::EmptyReason);
    let most = "r".repeat(128);
    assert_eq!(record(on(&format!("a/{}", "n".repeat(63)), &most), &most, &most), Recorded::Accepted);
    events.shutdown();
    assert_eq!(record(web(), &long, ""), Recorded::Closed);
    let stats = events.stats().recorder;
    assert_eq!((stats.invalid, stats.empty_reason, stats.refused()), (7, 1, 9));
    assert!(stats.to_string().contains(", invalid 7), "), "{stats}");
}

#[test]
fn the_fields_have_the_names_of_the_document() {
    for (field, name) in [
        (EventField::Action, "action"),
        (EventField::Reason, "reason"),
        (EventField::ReportingController, "reportingController"),
        (EventField::ReportingInstance, "reportingInstance"),
    ] {
        assert_eq!((field.as_str(), field.to_string().as_str()), (name, name));
        assert_eq!(serde_json::to_value(field).unwrap(), name);
        assert_eq!(Recorded::Invalid(field).to_string(), format!("the {name} is not valid"));
    }
}

/// The scrub function sees the event time. The reason that the function leaves in place becomes the
/// action.
#[test]
fn scrubbing_precedes_the_action() {
    let clock = clock();
    let seen = Arc::new(Mutex::new(Vec::new()));
    let into = seen.clone();
    let scrub = move |event: &mut Event| {
        into.lock().unwrap().push((event.event_time(), event.count, event.action().to_string()));
        event.reason = "Scrubbed".into();
    };
    let events = timed(&clock).scrub(scrub).build().unwrap();
    let mut watcher = events.watch_builder().watch().unwrap();
    events.recorder(web()).event(pod("a"), Normal, "Secret", "up");
    events.shutdown();
    assert_eq!(*seen.lock().unwrap(), [(Some(Timestamp::from(clock.clock().now())), 0, String::new())]);
    let event = watcher.events().next().unwrap();
    assert_eq!((&*event.reason, &**event.action()), ("Scrubbed", "Scrubbed"));
}

/// An API server accepts an event about an object without a namespace only in certain namespaces.
#[test]
fn stores_take_cluster_scoped_events_in_the_namespaces_in_which_a_server_does() {
    let stored_in = |is_timed: bool, namespace: &'static str| {
        let clock = clock();
        let events = clocked(&clock).event_time(is_timed).build().unwrap();
        let strict = MemorySinkOptions::default().events_v1_rules(true);
        let stores = [MemorySink::new(), MemorySink::with_options(strict).unwrap()];
        let recordings = stores.clone().map(|store| events.record_to(store).unwrap());
        let recorder = events.recorder(web()).cluster_scoped_namespace(namespace);
        for _ in 0..2 {
            recorder.normal(ObjectReference::new("Node", "node-1"), "Ready", "up");
        }
        events.shutdown();
        let found = stores.map(|store| match &store.events()[..] {
            [] => false,
            [event] => event.metadata.namespace == namespace && event.involved_object.namespace.is_empty(),
            more => panic!("{more:?}"),
        });
        assert_eq!(found, recordings.map(|recording| recording.stats().rejected == 0));
        assert_eq!(found[0], found[1]);
        found[0]
    };
    let namespaces = ["default", "kube-system", "shop"];
    assert_eq!(namespaces.map(|namespace| stored_in(false, namespace)), [true, false, false]);
    assert_eq!(namespaces.map(|namespace| stored_in(true, namespace)), [true, true, false]);
}

/// The second attempt finds the event, and recognises it by its event time and its reporter.
#[test]
fn an_event_whose_creation_was_not_answered_is_recognized() {
    let clock = clock();
    let events = timed(&clock).retry(at_once()).build().unwrap();
    let (sink, _calls) = Scripted::lossy(&clock, 1, true);
    let recording = events.record_to(sink.clone()).unwrap();
    events.recorder(web()).event(pod("a"), Normal, "Started", "up");
    events.flush(LONG).unwrap();
    let stats = recording.stats();
    assert_balanced(&stats);
    assert_eq!((stats.created, stats.retried, sink.store.len()), (1, 1, 1));
    let names = sink.names();
    assert_eq!((names.len(), &names[0]), (2, &names[1]));
}

/// Another process has stored an event with the same name that differs only in the reporter.
#[test]
fn an_event_of_another_reporter_is_another_one() {
    let clock = clock();
    let store = MemorySink::new();
    for host in ["web-7", "web-8"] {
        let events = timed(&FakeClock::new(clock.clock().now())).retry(at_once()).build().unwrap();
        events.record_to(store.clone()).unwrap();
        events.recorder(EventSource::from("web").on_host(host)).event(pod("a"), Normal, "Started", "up");
        assert_balanced(&events.shutdown().recordings[0]);
    }
    let mut hosts: Vec<_> = store.events().into_iter().map(|event| event.reporting_instance).collect();
    hosts.sort_unstable();
    assert_eq!(hosts, ["web-7", "web-8"]);
}
