//! What a server answers about events, and what becomes of it: each row of what was seen of a kube-apiserver that a sink
//! can meet.

use eventcast::SinkErrorKind::{AlreadyExists, NotFound, Rejected, Retry};
use eventcast::{Event, EventPatch, EventSeries, EventSink, ObjectReference, SinkError, SinkErrorKind};
use http::Method;
use serde_json::Value;

use super::cluster::{Cluster, Role};

/// It was refused, this way, for a reason that has these words in it.
#[track_caller]
fn refused(answer: Result<Event, SinkError>, kind: SinkErrorKind, words: &[&str]) -> SinkError {
    let error = answer.unwrap_err();
    assert_eq!(error.kind(), kind, "{error}");
    for word in words {
        assert!(error.to_string().contains(word), "{word:?} is not in {error}");
    }
    error
}

#[test]
fn a_new_event_is_stored_with_all_that_it_has() {
    let cluster = Cluster::new();
    let mut event = cluster.event("web-0.1");
    event.metadata.labels_mut().insert("team".into(), "blue".into());
    event.metadata.annotations_mut().insert("note".into(), "\u{1b}[2K\r'); DROP TABLE events;--".into());
    event.involved_object.uid = "4711".into();
    event.involved_object.field_path = "spec.containers{web}".into();
    event.source = eventcast::EventSource::from("kubelet").on_host("node-1");
    event.reporting_controller = "kubelet".into();
    event.reporting_instance = "node-1".into();
    event.set_action("Restarting");
    event.set_event_time(Some("2026-11-21T12:00:00.123456Z".parse().unwrap()));
    event.set_series(EventSeries::new(2, "2026-11-21T12:00:01.5Z".parse().unwrap()));
    event.set_related(ObjectReference::new("Node", "node-1"));
    let stored = cluster.sink().create(&event).unwrap();
    assert_eq!(Some(&stored), cluster.stored("web-0.1").as_ref());
    assert!(!stored.metadata.uid().is_empty() && !stored.metadata.resource_version().is_empty());
    assert!(stored.metadata.creation_timestamp().is_some());
    // What the server has added is all that is different.
    let mut same = stored;
    same.metadata.set_uid("");
    same.metadata.set_resource_version("");
    same.metadata.set_creation_timestamp(None);
    same.set_kind("");
    same.set_api_version("");
    assert_eq!(same, event);
}

#[test]
fn an_event_without_a_namespace_goes_to_its_objects_or_to_default() {
    let cluster = Cluster::new();
    let sink = cluster.sink();
    let mut event = cluster.event("web-0.1");
    event.metadata.namespace = "".into();
    assert_eq!(sink.create(&event).unwrap().metadata.namespace, cluster.namespace.as_str());
    let mut event = Event::default();
    // Its own, because `default` is shared.
    event.metadata.name = format!("node-1.{}", cluster.namespace).into();
    event.involved_object = ObjectReference::new("Node", "node-1");
    let stored = sink.create(&event).unwrap();
    assert_eq!(stored.metadata.namespace, "default");
    let path = format!("/api/v1/namespaces/default/events/{}", stored.metadata.name);
    assert_eq!(cluster.ask(Method::DELETE, &path, &Value::Null).0, 200);
}

#[test]
fn a_patch_changes_count_last_time_and_message() {
    let cluster = Cluster::new();
    let sink = cluster.sink();
    let first = sink.create(&cluster.event("web-0.1")).unwrap();
    let (event, patch) = cluster.patch_of("web-0.1");
    let stored = sink.patch(&event, &patch).unwrap();
    assert_eq!((stored.count, stored.message.as_str()), (2, "restarts again"));
    assert_eq!(stored.last_timestamp, event.last_timestamp);
    assert_eq!(stored.first_timestamp, first.first_timestamp);
    assert_eq!(stored.metadata.uid(), first.metadata.uid());
    assert_ne!(stored.metadata.resource_version(), first.metadata.resource_version());
    // The same again changes nothing, and that is success too.
    assert_eq!(sink.patch(&event, &patch).unwrap(), stored);
}

#[test]
fn a_patch_of_an_event_that_is_not_there_finds_nothing() {
    let cluster = Cluster::new();
    let (event, patch) = cluster.patch_of("web-0.1");
    let words = ["not found: 404 NotFound: events \"web-0.1\" not found"];
    refused(cluster.sink().patch(&event, &patch), NotFound, &words);
}

#[test]
fn an_expired_event_is_not_found_and_its_name_is_free_again() {
    let cluster = Cluster::new();
    let sink = cluster.sink();
    sink.create(&cluster.event("web-0.1")).unwrap();
    let path = format!("/api/v1/namespaces/{}/events/web-0.1", cluster.namespace);
    assert_eq!(cluster.ask(Method::DELETE, &path, &Value::Null).0, 200);
    let (event, patch) = cluster.patch_of("web-0.1");
    refused(sink.patch(&event, &patch), NotFound, &[]);
    assert_eq!(sink.create(&event).unwrap().count, 2);
}

#[test]
fn a_namespace_that_does_not_exist_takes_nothing() {
    let cluster = Cluster::new();
    let sink = cluster.sink();
    let mut event = cluster.event("web-0.1");
    for namespace in [&mut event.metadata.namespace, &mut event.involved_object.namespace] {
        *namespace = "eventcast-no-such-namespace".into();
    }
    let words = ["404 NotFound: namespaces \"eventcast-no-such-namespace\" not found"];
    refused(sink.create(&event), Rejected, &words);
    refused(sink.update(&event), Rejected, &words);
}

#[test]
fn an_update_creates_replaces_and_respects_a_version() {
    let cluster = Cluster::new();
    let sink = cluster.sink();
    let first = sink.update(&cluster.event("web-0.1")).unwrap();
    assert_eq!(first.count, 1);
    let (mut event, _) = cluster.patch_of("web-0.1");
    let second = sink.update(&event).unwrap();
    assert_eq!((second.count, second.metadata.uid()), (2, first.metadata.uid()));
    // With a version it replaces that version alone.
    event.count = 3;
    event.metadata.set_resource_version(first.metadata.resource_version().clone());
    refused(sink.update(&event), Rejected, &["409 Conflict", "the object has been modified"]);
    event.metadata.set_resource_version(second.metadata.resource_version().clone());
    assert_eq!(sink.update(&event).unwrap().count, 3);
}

#[test]
fn a_name_that_is_taken_comes_with_the_event_that_has_it() {
    let cluster = Cluster::new();
    let sink = cluster.sink();
    let stored = sink.create(&cluster.event("web-0.1")).unwrap();
    let mut other = cluster.event("web-0.1");
    other.message = "another".into();
    let words = ["already exists: 409 AlreadyExists: events \"web-0.1\" already exists"];
    let error = refused(sink.create(&other), AlreadyExists, &words);
    assert_eq!(error.stored(), Some(&stored));
    // Reading it has changed nothing.
    assert_eq!(cluster.stored("web-0.1"), Some(stored));
}

#[test]
fn a_namespace_on_its_way_out_takes_no_new_events_but_patches() {
    let cluster = Cluster::new();
    let sink = cluster.sink();
    sink.create(&cluster.event("web-0.1")).unwrap();
    cluster.begin_termination();
    let words = ["rejected: the namespace is being deleted: 403 Forbidden", "because it is being terminated"];
    refused(sink.create(&cluster.event("web-0.2")), Rejected, &words);
    let (event, patch) = cluster.patch_of("web-0.1");
    assert_eq!(sink.patch(&event, &patch).unwrap().count, 2);
}

#[test]
fn who_may_not_is_told_which_role_is_missing() {
    let cluster = Cluster::new();
    cluster.sink().create(&cluster.event("web-0.1")).unwrap();
    let nobody = cluster.sink_as(Role::Nobody);
    let (event, patch) = cluster.patch_of("web-0.1");
    let role =
        "rejected: needs a role with create, patch and update on events (docs/kubernetes.md, Permissions)";
    refused(nobody.create(&event), Rejected, &[role, "403 Forbidden", "cannot create resource \"events\""]);
    refused(nobody.update(&event), Rejected, &[role, "403 Forbidden", "cannot update resource \"events\""]);
    refused(
        nobody.patch(&event, &patch),
        Rejected,
        &[role, "403 Forbidden", "cannot patch resource \"events\""],
    );
}

#[test]
fn who_may_only_create_creates_and_nothing_more() {
    let cluster = Cluster::new();
    let creator = cluster.sink_as(Role::Creator);
    creator.create(&cluster.event("web-0.1")).unwrap();
    let (event, patch) = cluster.patch_of("web-0.1");
    refused(creator.patch(&event, &patch), Rejected, &["cannot patch resource \"events\""]);
    // The name is taken; which event has it cannot be read.
    let error = refused(creator.create(&event), AlreadyExists, &[]);
    assert_eq!(error.stored(), None);
}

#[test]
fn a_token_that_is_not_known_may_be_known_later() {
    let cluster = Cluster::new();
    let answer = cluster.sink_as(Role::Stranger).create(&cluster.event("web-0.1"));
    refused(answer, Retry, &["401 Unauthorized"]);
}

#[test]
fn what_is_invalid_is_rejected_with_the_reason() {
    let cluster = Cluster::new();
    let sink = cluster.sink();
    let elsewhere = |event: &mut Event| event.involved_object.namespace = "elsewhere".into();
    refused(
        sink.create(&changed(&cluster, elsewhere)),
        Rejected,
        &["422 Invalid", "involvedObject.namespace", "does not match event.namespace"],
    );
    let nameless = |event: &mut Event| event.metadata.name = "".into();
    refused(sink.create(&changed(&cluster, nameless)), Rejected, &["422 Invalid", "metadata.name"]);
    let slashed = |event: &mut Event| event.metadata.name = "web/0".into();
    refused(sink.create(&changed(&cluster, slashed)), Rejected, &["422 Invalid", "may not contain '/'"]);
    let timed = |event: &mut Event| event.set_event_time(event.first_timestamp);
    refused(sink.create(&changed(&cluster, timed)), Rejected, &["422 Invalid", "Required value"]);
    let long = |event: &mut Event| {
        timed(event);
        event.set_action("Restarting");
        (event.reporting_controller, event.reporting_instance) = ("kubelet".into(), "node-1".into());
        event.message = "ä".repeat(513).into();
    };
    refused(sink.create(&changed(&cluster, long)), Rejected, &["422 Invalid", "1024"]);
    let other_kind = |event: &mut Event| event.set_kind("Pod");
    refused(sink.create(&changed(&cluster, other_kind)), Rejected, &["400 BadRequest"]);
}

fn changed(cluster: &Cluster, change: impl FnOnce(&mut Event)) -> Event {
    let mut event = cluster.event("web-0.1");
    change(&mut event);
    event
}

#[test]
fn without_an_event_time_nearly_everything_is_taken() {
    let cluster = Cluster::new();
    let sink = cluster.sink();
    for (name, type_, message) in [
        ("web-0.1".to_owned(), "Warning", "ä".repeat(513)),
        ("web-0.2".to_owned(), "Error", "no such type".to_owned()),
        ("Bad_Name!".to_owned(), "Normal", "no DNS subdomain".to_owned()),
        ("n".repeat(254), "Normal", "too long for one".to_owned()),
    ] {
        let mut event = cluster.event(&name);
        (event.type_, event.message) = (type_.into(), message.clone().into());
        assert_eq!(sink.create(&event).unwrap().message, message.as_str(), "{name}");
        // And can be patched, by whatever name.
        event.count = 2;
        assert_eq!(sink.patch(&event, &EventPatch::new(&event)).unwrap().count, 2, "{name}");
    }
}

#[test]
fn times_are_kept_as_kubernetes_keeps_them() {
    let cluster = Cluster::new();
    let mut event = cluster.event("web-0.1");
    event.first_timestamp = Some("2026-11-21T12:00:00.987654321Z".parse().unwrap());
    let stored = cluster.sink().create(&event).unwrap();
    assert_eq!(stored.first_timestamp, Some("2026-11-21T12:00:00Z".parse().unwrap()));
}

#[test]
fn what_is_too_large_is_rejected_not_tried_for_ever() {
    let cluster = Cluster::new();
    let sink = cluster.sink();
    let mut event = cluster.event("web-0.1");
    event.message = "x".repeat(1_600_000).into();
    refused(sink.create(&event), Rejected, &["500", "etcdserver: request is too large"]);
    event.message = "x".repeat(3 << 20).into();
    refused(sink.create(&event), Rejected, &["413 RequestEntityTooLarge"]);
    // The sink is none the worse for it. The server hangs up after that answer, and may do so when the next request is
    // already on its way: that one is to be tried again.
    let event = cluster.event("web-0.2");
    let answer = sink.create(&event);
    if answer.as_ref().is_err_and(|error| error.kind() == Retry) {
        sink.create(&event).unwrap();
    } else {
        answer.unwrap();
    }
}
