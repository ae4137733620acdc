//! Queries, tables and descriptions.

use std::time::Duration;

use eventcast::event::EventSeries;
use eventcast::sink::{EventQuery, QueryLimit};
use eventcast::{Event, EventSink, EventSource, EventType, MemorySink, ObjectReference, Timestamp};

use crate::support::event;

use super::{clock, names, now, store};

#[test]
fn each_condition_narrows_a_query_down() {
    let store = MemorySink::new();
    let mut warning = event("a", "Pod", "web-0");
    warning.type_ = "Warning".into();
    warning.reason = "BackOff".into();
    warning.involved_object.uid = "1".into();
    let mut blue = event("b", "Pod", "web-0");
    blue.involved_object.namespace = "blue".into();
    let other = event("c", "Pod", "web-1");
    let kind = event("d", "Deployment", "web-0");
    for event in [&warning, &blue, &other, &kind] {
        store.create(event).unwrap();
    }
    let found = |query: EventQuery| {
        let found = store.find(&query);
        for event in store.events() {
            assert_eq!(query.matches(&event), found.contains(&event), "{query:?}: {event:?}");
        }
        found.iter().map(|event| event.metadata.name.to_string()).collect::<String>()
    };
    let query = EventQuery::default;
    assert_eq!(found(query()), "abcd");
    assert_eq!(found(query().namespace("default")), "acd");
    assert_eq!(found(query().namespace("blue")), "b");
    assert_eq!(found(query().namespace("blu")), "");
    assert_eq!(found(query().object(ObjectReference::new("POD", "web-0"))), "ab");
    assert_eq!(found(query().object(ObjectReference::new("pod", "web-0").in_namespace("default"))), "a");
    assert_eq!(found(query().object(ObjectReference::new("pod", ""))), "abc");
    assert_eq!(found(query().object(ObjectReference::new("", "web-0"))), "abd");
    // kubectl does not compare these fields.
    let mut reference = ObjectReference::new("Pod", "web-0");
    reference.api_version = "v2".into();
    reference.resource_version = "77".into();
    reference.field_path = "spec".into();
    assert_eq!(found(query().object(&reference)), "ab");
    reference.uid = "1".into();
    assert_eq!(found(query().object(reference)), "a");
    assert_eq!(found(query().type_(EventType::Warning)), "a");
    assert_eq!(found(query().type_("warning")), "");
    assert_eq!(found(query().reason("Started")), "bcd");
    assert_eq!(found(query().reason("Started").namespace("default")), "cd");
    assert_eq!(found(query().reason("Started").reason("").type_("Warning").type_("")), "abcd");
}

#[test]
fn since_is_about_the_last_time_that_an_event_was_seen() {
    let at = |seconds| Timestamp::new(seconds, 0).unwrap();
    let since = |event: &Event, seconds| EventQuery::default().since(at(seconds)).matches(event);
    let mut event = event("a", "Pod", "web-0");
    assert!(!since(&event, 0), "it does not say when");
    event.set_event_time(at(10));
    assert!(since(&event, 10) && !since(&event, 11));
    event.first_timestamp = Some(at(20));
    assert!(since(&event, 20) && !since(&event, 21));
    event.last_timestamp = Some(at(30));
    assert!(since(&event, 30) && !since(&event, 31));
    event.set_series(EventSeries::new(2, at(40)));
    assert!(since(&event, 40) && !since(&event, 41));
}

#[test]
fn an_event_is_found_by_the_object_that_it_is_about_now() {
    let store = MemorySink::new();
    for name in ["a", "b", "c"] {
        store.create(&event(name, "Pod", "web-0")).unwrap();
    }
    store.update(&event("b", "Pod", "web-1")).unwrap();
    let about = |name: &str| EventQuery::default().object(ObjectReference::new("pod", name));
    assert_eq!(names(&store.find(&about("web-0"))), ["a", "c"]);
    assert_eq!(names(&store.find(&about("web-1"))), ["b"]);
    assert_eq!(names(&store.find(&about("web-2"))), [""; 0]);
    store.update(&event("b", "Pod", "web-0")).unwrap();
    assert_eq!(names(&store.find(&about("web-0"))), ["a", "c", "b"], "in the order of the writes");
    assert_eq!(names(&store.find(&about("web-0").first(2))), ["a", "c"]);
    assert_eq!(names(&store.find(&about("web-0").last(2))), ["c", "b"]);
    assert_eq!(names(&store.find(&about("web-1"))), [""; 0]);
}

#[test]
fn a_limit_takes_what_was_written_last() {
    let store = MemorySink::new();
    let first = event("a", "Pod", "web-0");
    store.create(&first).unwrap();
    store.create(&event("b", "Pod", "web-1")).unwrap();
    store.create(&event("c", "Pod", "web-0")).unwrap();
    let find = |limit| store.find(&EventQuery::default().last(limit));
    assert_eq!(names(&find(2)), ["b", "c"]);
    assert_eq!(names(&find(0)), [""; 0]);
    assert_eq!(names(&find(usize::MAX)), ["a", "b", "c"]);
    let mut again = first;
    again.count = 2;
    store.patch(&again).unwrap();
    assert_eq!(names(&find(2)), ["c", "a"]);
    let web = EventQuery::default().object(ObjectReference::new("Pod", "web-1")).last(1);
    assert_eq!(names(&store.find(&web)), ["b"], "the limit is of what is found");
}

#[test]
fn the_table_of_a_query_has_its_rows_only() {
    let clock = clock();
    let store = store(&clock);
    store.create(&event("a", "Pod", "web-0")).unwrap();
    store.create(&event("b", "Node", "one")).unwrap();
    assert_eq!(
        store.table_of(&EventQuery::default().object(ObjectReference::new("Node", ""))),
        "LAST SEEN   TYPE     REASON    OBJECT     MESSAGE\n<unknown>   Normal   Started   node/one   \n"
    );
}

/// kubectl's `-A` shows the namespace in the first column. In the table of one namespace this
/// column would be the same in each row.
#[test]
fn the_table_of_several_namespaces_names_them() {
    let clock = clock();
    let store = store(&clock);
    store.create(&event("a", "Pod", "web-0")).unwrap();
    let mut blue = event("b", "Pod", "web-1");
    (blue.involved_object.namespace, blue.message) = ("blue-网络".into(), "up".into());
    store.create(&blue).unwrap();
    let mut hostile = event("c", "Pod", "web-2");
    hostile.involved_object.namespace = "\u{1b}[2K".into();
    store.create(&hostile).unwrap();
    let table = "
NAMESPACE   LAST SEEN   TYPE     REASON    OBJECT      MESSAGE
default     <unknown>   Normal   Started   pod/web-0   \nblue-网络   \
<unknown>   Normal   Started   pod/web-1   up
\\u{1b}[2K   <unknown>   Normal   Started   pod/web-2   \n";
    assert_eq!(store.table(), table[1..]);
    for namespace in ["default", "blue-网络"] {
        let table = store.table_of(&EventQuery::default().namespace(namespace));
        assert!(table.starts_with("LAST SEEN   TYPE "), "{table}");
    }
    let two = store.table_of(&EventQuery::default().reason("Started").last(2));
    assert!(two.starts_with("NAMESPACE ") && two.lines().count() == 3, "{two}");
}

/// kubectl puts the part of the object that an event is about before the message.
#[test]
fn describe_names_the_container() {
    let clock = clock();
    let store = store(&clock);
    for (name, path, message) in
        [("a", "spec.containers{web}", " Started container\n"), ("b", "spec.\n{x}", ""), ("c", "", "whole")]
    {
        let mut event = event(name, "Pod", "web-0");
        (event.involved_object.field_path, event.message) = (path.into(), message.into());
        store.create(&event).unwrap();
    }
    let section = store.describe(ObjectReference::new("Pod", "web-0"));
    let messages: Vec<&str> = section
        .lines()
        .skip(3)
        .map(|line| line.trim_start_matches("  Normal  Started  <unknown>        "))
        .collect();
    assert_eq!(messages, ["spec.containers{web}: Started container", r"spec.\n{x}: ", "whole"], "{section}");
}

#[test]
fn describe_is_kubectls() {
    let clock = clock();
    let store = store(&clock);
    let web = ObjectReference::new("Pod", "web-0");
    assert_eq!(store.describe(&web), "Events:  <none>\n");
    let start = now(&clock);
    clock.advance(Duration::from_secs(300));

    // The order is that of the last times, not that of the writes.
    let mut counted = event("counted", "Pod", "web-0");
    counted.type_ = "Warning".into();
    counted.reason = "BackOff".into();
    counted.source = EventSource::from("kubelet");
    counted.source.host = "node-7".into();
    counted.message = "  Back-off restarting\n".into();
    (counted.first_timestamp, counted.last_timestamp) = (Some(start), Some(now(&clock)));
    counted.count = 12;
    let mut once = event("once", "Pod", "web-0");
    once.message = "größe 网络".into();
    once.reason = "Zug网".into();
    once.reporting_controller = "sched".into();
    once.first_timestamp = Some(start);
    let mut series = event("series", "Pod", "web-0");
    series.source = "kubelet".into();
    series.reporting_controller = "not-shown".into();
    series.reporting_instance = "i".into();
    series.set_action("Starting");
    series.set_event_time(start);
    series.set_series(EventSeries::new(1, now(&clock)));
    let unknown = event("unknown", "Pod", "web-0");
    let elsewhere = event("elsewhere", "Pod", "web-1");
    for event in [&counted, &once, &series, &unknown, &elsewhere] {
        store.create(event).unwrap();
    }
    clock.advance(Duration::from_secs(3));
    let section = "\
Events:
  Type     Reason   Age                 From     Message
  ----     ------   ----                ----     -------
  Normal   Started  <unknown>                    \n  \
  Normal   Zug网    5m3s                sched    größe 网络
  Warning  BackOff  3s (x12 over 5m3s)  kubelet  Back-off restarting
  Normal   Started  3s (x1 over 5m3s)   kubelet  \n";
    assert_eq!(store.describe(web), section);
}

/// Another store searches by the fields of a query.
#[test]
fn a_query_shows_what_it_asks_for() {
    let at = Timestamp::new(1_700_000_000, 0).unwrap();
    let mut object = ObjectReference::new("Pod", "web-0").in_namespace("blue");
    object.uid = "7f3a".into();
    let query = EventQuery::default().namespace("red").object(object).type_("Warning").reason("BackOff");
    let query = query.since(at).after(7).last(3);
    let EventQuery { namespace, kind, name, uid, type_, reason, since, after, limit, .. } = &query;
    let texts = [namespace, kind, name, uid, type_, reason].map(eventcast::Text::as_str);
    assert_eq!(texts, ["blue", "Pod", "web-0", "7f3a", "Warning", "BackOff"]);
    assert_eq!((*since, *after, *limit), (Some(at), 7, QueryLimit::Last(3)));
    assert_eq!(query.first(2).limit, QueryLimit::First(2));
    assert_eq!(EventQuery::default().limit, QueryLimit::All);
}
