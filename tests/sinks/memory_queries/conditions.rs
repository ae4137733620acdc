//! Queries, tables and descriptions.

use eventcast::event::EventSeries;
use eventcast::sink::{EventQuery, QueryLimit};
use eventcast::{Event, EventSink, EventType, MemorySink, ObjectReference, Timestamp};

use crate::support::event;

use super::names;

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
    // kubectl does not take these fields into account.
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
    assert!(!since(&event, 0), "the event has no time");
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
    assert_eq!(names(&store.find(&web)), ["b"], "the limit applies to the events found");
}

/// Other stores can read a query's fields to perform the search.
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
