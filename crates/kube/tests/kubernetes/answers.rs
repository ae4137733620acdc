//! Tests the sink's results for a server's responses about events. The tests cover each response of
//! a real kube-apiserver that a sink can receive.

use eventcast::event::EventSeries;
use eventcast::sink::SinkErrorKind::{AlreadyExists, Forbidden, NotFound, Rejected};
use eventcast::{Event, EventSink, ObjectReference};
use http::Method;
use serde_json::Value;

use super::cluster::{Cluster, Role, refused};

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
    // The stored event differs only in the fields that the server has added.
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
    let sink = cluster.sink_as(Role::Everywhere);
    let mut event = cluster.event("web-0.1");
    event.metadata.namespace = "".into();
    assert_eq!(sink.create(&event).unwrap().metadata.namespace, cluster.namespace.as_str());
    let mut event = Event::default();
    // The name is unique, because the namespace `default` is shared.
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
    let event = cluster.repeat_of("web-0.1");
    let stored = sink.patch(&event).unwrap();
    assert_eq!((stored.count, stored.message.as_str()), (2, "restarts again"));
    assert_eq!(stored.last_timestamp, event.last_timestamp);
    assert_eq!(stored.first_timestamp, first.first_timestamp);
    assert_eq!(stored.metadata.uid(), first.metadata.uid());
    assert_ne!(stored.metadata.resource_version(), first.metadata.resource_version());
    // Sending the same patch again changes nothing, which also counts as success.
    assert_eq!(sink.patch(&event).unwrap(), stored);
}

#[test]
fn an_expired_event_is_not_found_and_its_name_is_free_again() {
    let cluster = Cluster::new();
    let sink = cluster.sink();
    sink.create(&cluster.event("web-0.1")).unwrap();
    let path = format!("/api/v1/namespaces/{}/events/web-0.1", cluster.namespace);
    assert_eq!(cluster.ask(Method::DELETE, &path, &Value::Null).0, 200);
    let event = cluster.repeat_of("web-0.1");
    refused(sink.patch(&event), NotFound, &["not found: 404 NotFound: events \"web-0.1\" not found"]);
    assert_eq!(sink.create(&event).unwrap().count, 2);
}

#[test]
fn a_namespace_that_does_not_exist_takes_nothing() {
    let cluster = Cluster::new();
    let sink = cluster.sink_as(Role::Everywhere);
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
    let mut event = cluster.repeat_of("web-0.1");
    let second = sink.update(&event).unwrap();
    assert_eq!((second.count, second.metadata.uid()), (2, first.metadata.uid()));
    // An update with a version replaces the event only if the stored event has that version.
    event.count = 3;
    event.metadata.set_resource_version(first.metadata.resource_version().clone());
    refused(sink.update(&event), Rejected, &["409 Conflict", "the object has been modified"]);
    event.metadata.set_resource_version(second.metadata.resource_version().clone());
    assert_eq!(sink.update(&event).unwrap().count, 3);
}

#[test]
fn a_name_conflict_returns_the_existing_event() {
    let cluster = Cluster::new();
    let sink = cluster.sink();
    let stored = sink.create(&cluster.event("web-0.1")).unwrap();
    let mut other = cluster.event("web-0.1");
    other.message = "another".into();
    let words = ["already exists: 409 AlreadyExists: events \"web-0.1\" already exists"];
    let error = refused(sink.create(&other), AlreadyExists, &words);
    assert_eq!(error.stored(), Some(&stored));
    // The second create request and the read that followed it have not changed anything.
    assert_eq!(cluster.stored("web-0.1"), Some(stored));
}

#[test]
fn a_namespace_on_its_way_out_takes_no_new_events_but_patches() {
    let cluster = Cluster::new();
    let sink = cluster.sink_as(Role::Everywhere);
    sink.create(&cluster.event("web-0.1")).unwrap();
    cluster.begin_termination();
    let terminating = format!("namespace {} because it is being terminated", cluster.namespace);
    let words = ["rejected: 403 Forbidden: ", &terminating, " (the namespace is being deleted)"];
    refused(sink.create(&cluster.event("web-0.2")), Rejected, &words);
    let event = cluster.repeat_of("web-0.1");
    assert_eq!(sink.patch(&event).unwrap().count, 2);
}

#[test]
fn a_forbidden_request_names_the_missing_role() {
    let cluster = Cluster::new();
    cluster.sink().create(&cluster.event("web-0.1")).unwrap();
    let nobody = cluster.sink_as(Role::Nobody);
    let event = cluster.repeat_of("web-0.1");
    let (user, namespace) = (cluster.user(Role::Nobody), &cluster.namespace);
    for (verb, answer) in [
        ("create", nobody.create(&event)),
        ("update", nobody.update(&event)),
        ("patch", nobody.patch(&event)),
    ] {
        // The server's own message comes first and is complete, even though the user name is long.
        let cannot = format!(
            " is forbidden: User \"{user}\" cannot {verb} resource \"events\" in API group \"\" in the namespace \
             \"{namespace}\""
        );
        let role = "(needs a role with create, patch and update on events: docs/kubernetes.md, Permissions)";
        refused(answer, Forbidden, &["forbidden: 403 Forbidden: events ", &cannot, role]);
    }
}

#[test]
fn who_may_only_create_creates_and_nothing_more() {
    let cluster = Cluster::new();
    let creator = cluster.sink_as(Role::Creator);
    creator.create(&cluster.event("web-0.1")).unwrap();
    let event = cluster.repeat_of("web-0.1");
    refused(creator.patch(&event), Forbidden, &["cannot patch resource \"events\""]);
    // The name is taken, but the sink is not permitted to read the event with this name.
    let error = refused(creator.create(&event), AlreadyExists, &[]);
    assert_eq!(error.stored(), None);
}

#[test]
fn a_token_that_is_not_known_may_be_known_later() {
    let cluster = Cluster::new();
    let answer = cluster.sink_as(Role::Stranger).create(&cluster.event("web-0.1"));
    refused(answer, Forbidden, &["401 Unauthorized"]);
}

#[test]
fn an_invalid_event_is_rejected_with_the_reason() {
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

/// Returns an event with an event time, in a form that a server accepts.
fn timed(cluster: &Cluster) -> Event {
    let mut event = cluster.event("web-0.1");
    event.set_event_time(Some("2026-11-22T03:48:14.992934Z".parse().unwrap()));
    event.reporting_controller = "example.com/probe".into();
    event.reporting_instance = "probe-1".into();
    event.set_action("Restarting");
    event
}

/// Creates an event on the server and in an in-memory store. Asserts that both accept it if
/// `is_taken` is true, and that both reject it permanently otherwise.
#[track_caller]
fn assert_admitted(cluster: &Cluster, event: &Event, is_taken: bool) {
    let (sink, memory) = (cluster.sink_as(Role::Everywhere), eventcast::MemorySink::new());
    for (who, answer) in [("server", sink.create(event)), ("memory", memory.create(event))] {
        match answer {
            Ok(stored) => {
                assert!(is_taken, "the {who} takes {event:?}");
                if who == "server" {
                    let (namespace, name) = (&stored.metadata.namespace, &stored.metadata.name);
                    let path = format!("/api/v1/namespaces/{namespace}/events/{name}");
                    assert_eq!(cluster.ask(Method::DELETE, &path, &Value::Null).0, 200);
                }
            }
            Err(error) => {
                assert!(!is_taken, "the {who} refuses {event:?}: {error}");
                assert_eq!(error.kind(), Rejected, "{error}");
            }
        }
    }
}

#[test]
fn the_store_in_memory_refuses_the_strings_that_a_server_refuses() {
    let cluster = Cluster::new();
    assert_admitted(&cluster, &timed(&cluster), true);
    let bytes = |len: usize| "ä".repeat(len / 2) + &"x".repeat(len % 2);
    for (len, is_taken) in [(0, false), (1, true), (128, true), (129, false)] {
        let with = |change: fn(&mut Event, String)| {
            let mut event = timed(&cluster);
            change(&mut event, bytes(len));
            assert_admitted(&cluster, &event, is_taken);
        };
        with(|event, text| event.reason = text.into());
        with(Event::set_action);
        with(|event, text| event.reporting_instance = text.into());
    }
    for (len, is_taken) in [(0, true), (1024, true), (1025, false)] {
        let mut event = timed(&cluster);
        event.message = bytes(len).into();
        assert_admitted(&cluster, &event, is_taken);
        // Without an event time, the server does not check these fields.
        event.set_event_time(None);
        event.reason = bytes(129).into();
        event.reporting_controller = "a/b/c".into();
        assert_admitted(&cluster, &event, true);
    }
    let mut event = timed(&cluster);
    event.type_ = "Debug".into();
    event.set_series(EventSeries::new(1, "2026-11-22T03:48:15Z".parse().unwrap()));
    assert_admitted(&cluster, &event, true);
}

#[test]
fn the_store_in_memory_refuses_the_controllers_that_a_server_refuses() {
    let cluster = Cluster::new();
    let with = |controller: &str, is_taken| {
        let mut event = timed(&cluster);
        event.reporting_controller = controller.to_owned().into();
        assert_admitted(&cluster, &event, is_taken);
    };
    for taken in ["c", "Kube_let.1-x", "example.com/Probe", "a-1.b/c", "1/2"] {
        with(taken, true);
    }
    for refused in [
        "",
        "/",
        "/c",
        "a/",
        "a b/c d",
        "a/b/c",
        "Example.com/probe",
        "ex_ample.com/probe",
        "a..b/c",
        "-a/c",
        "-c",
        "c-",
        ".c",
        "c_",
        "größe",
        "a b",
    ] {
        with(refused, false);
    }
    for (prefix, name, is_taken) in [(253, 63, true), (254, 63, false), (253, 64, false)] {
        with(&format!("{}/{}", "p".repeat(prefix), "n".repeat(name)), is_taken);
    }
}

#[test]
fn the_store_in_memory_takes_events_in_the_namespaces_that_a_server_takes_them_in() {
    let cluster = Cluster::new();
    let own = cluster.namespace.as_str();
    for (namespace, object, is_taken, is_taken_with_time) in [
        (own, own, true, true),
        (own, "elsewhere", false, true),
        (own, "", false, false),
        ("default", "", true, true),
        ("default", "default", true, true),
        ("default", own, false, true),
        ("kube-system", "", false, true),
        ("kube-system", "kube-system", true, true),
        ("", own, true, true),
        ("", "", true, true),
    ] {
        for (mut event, is_taken) in
            [(cluster.event("web-0.1"), is_taken), (timed(&cluster), is_taken_with_time)]
        {
            // The name is unique, because the namespaces `default` and `kube-system` are shared.
            event.metadata.name = format!("web-0.{own}").into();
            event.metadata.namespace = namespace.to_owned().into();
            event.involved_object.namespace = object.to_owned().into();
            assert_admitted(&cluster, &event, is_taken);
        }
    }
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
        // The event can also be patched, regardless of its name.
        event.count = 2;
        assert_eq!(sink.patch(&event).unwrap().count, 2, "{name}");
    }
}

/// A 500 response that concerns the event itself is final, because the server would respond in the
/// same way again.
#[test]
fn a_failure_that_is_about_the_event_is_a_refusal() {
    let cluster = Cluster::new();
    let sink = cluster.sink();
    let mut event = cluster.event("web-0.1");
    for (len, words) in [
        (1_600_000, &["500", "etcdserver: request is too large"][..]),
        // The server reads the event, but cannot send it to etcd.
        (2_900_000, &["500", "message larger than max"]),
        (3 << 20, &["413 RequestEntityTooLarge"]),
    ] {
        event.message = "x".repeat(len).into();
        refused(sink.create(&event), Rejected, words);
    }
    let versioned = |event: &mut Event| event.metadata.set_resource_version("7");
    let words = ["500", "resourceVersion should not be set on objects to be created"];
    refused(sink.create(&changed(&cluster, versioned)), Rejected, &words);
    assert_eq!(cluster.stored("web-0.1"), None);
    // The sink still works afterwards. Times are stored in whole seconds, as in Kubernetes.
    let fraction =
        |event: &mut Event| event.first_timestamp = Some("2026-11-21T12:00:00.98Z".parse().unwrap());
    let stored = sink.create(&changed(&cluster, fraction)).unwrap();
    assert_eq!(stored.first_timestamp, Some("2026-11-21T12:00:00Z".parse().unwrap()));
}

/// Returns the names of an event's writers, as recorded by the server.
fn managers(cluster: &Cluster, name: &str) -> Vec<String> {
    let path = format!("/api/v1/namespaces/{}/events/{name}", cluster.namespace);
    let (code, event) = cluster.ask(Method::GET, &path, &Value::Null);
    assert_eq!(code, 200, "{event}");
    let fields = event["metadata"]["managedFields"].as_array().unwrap().iter();
    let mut managers: Vec<_> = fields.map(|field| field["manager"].as_str().unwrap().to_owned()).collect();
    managers.sort();
    managers
}

#[test]
fn the_field_manager_is_the_component_or_what_was_set() {
    let cluster = Cluster::new();
    let sink = cluster.sink();
    let mut event = cluster.event("web-0.1");
    event.source = "kubelet".into();
    event.reporting_controller = "not.this/one".into();
    sink.create(&event).unwrap();
    assert_eq!(managers(&cluster, "web-0.1"), ["kubelet"]);
    let event = cluster.repeat_of("web-0.1");
    cluster.sink().field_manager("shop controller&x=/1").patch(&event).unwrap();
    assert_eq!(managers(&cluster, "web-0.1"), ["kubelet", "shop controller&x=/1"]);

    let mut event = cluster.event("web-0.2");
    event.reporting_controller = "example.com/reporter".into();
    sink.update(&event).unwrap();
    assert_eq!(managers(&cluster, "web-0.2"), ["example.com/reporter"]);
    // If no name is set, the server uses the beginning of the user agent.
    sink.create(&cluster.event("web-0.3")).unwrap();
    assert_eq!(managers(&cluster, "web-0.3"), ["eventcast"]);
    event.metadata.name = "web-0.4".into();
    cluster.sink().field_manager("").create(&event).unwrap();
    assert_eq!(managers(&cluster, "web-0.4"), ["eventcast"]);
    event.metadata.name = "web-0.5".into();
    cluster.sink().field_manager("shop").field_manager(None).create(&event).unwrap();
    assert_eq!(managers(&cluster, "web-0.5"), ["example.com/reporter"]);
}

#[test]
fn a_component_that_can_be_no_field_manager_is_made_one() {
    let cluster = Cluster::new();
    let mut event = cluster.event("web-0.1");
    event.source = format!("\u{1b}[2K größe\u{202e}\n{}", "c".repeat(200)).into();
    cluster.sink().create(&event).unwrap();
    // The name consists of at most 128 bytes, all of them printable.
    assert_eq!(managers(&cluster, "web-0.1"), [format!("[2K gre{}", "c".repeat(121))]);
}
