//! Events as plain data: texts, times, references, and the size of an event.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use eventcast::event::EventSeries;
use eventcast::{Event, EventSource, EventType, ObjectReference, Text, Timestamp};

fn at(text: &str) -> Timestamp {
    text.parse().unwrap()
}

#[test]
fn an_event_stays_small_enough_to_be_moved_by_value() {
    assert_eq!(size_of::<Event>(), 440);
    assert_eq!(size_of::<Option<Timestamp>>(), size_of::<Timestamp>());
}

#[test]
fn text_comes_from_every_kind_of_string() {
    let long = "more than what fits into the value itself";
    let shared: Arc<str> = Arc::from(long);
    let texts = [
        Text::from(long),
        Text::from(long.to_owned()),
        Text::from(shared.clone()),
        Text::from(Cow::Borrowed(long)),
        Text::from(Cow::<'static, str>::Owned(long.to_owned())),
        Text::from(format_args!("more than {} the value itself", "what fits into")),
        Text::from_static(long),
        Text::from(&long.to_owned()),
        Text::from(long.to_owned().as_str()),
    ];
    assert_eq!(Text::from('ß'), "ß");
    for text in &texts {
        assert_eq!(text, long);
        assert_eq!(*text, texts[0]);
        assert_eq!(text.to_string(), long);
        assert_eq!(format!("{text:?}"), format!("{long:?}"));
    }
    // A literal of `from_static` stays at the same address, also after a clone. The same holds for
    // the text of an `Arc`.
    assert_eq!(Text::from_static(long).clone().as_ptr(), long.as_ptr());
    assert_eq!(Text::from(format_args!("a literal")), "a literal");
    assert_eq!(texts[2].clone().as_ptr(), shared.as_ptr());
    assert_eq!(String::from(texts[1].clone()), long);
}

#[test]
fn text_is_looked_up_by_str() {
    let hasher = RandomState::new();
    assert_eq!(hasher.hash_one(Text::from("pod")), hasher.hash_one("pod"));
    let map = HashMap::from([(Text::from("pod".to_owned()), 1)]);
    assert_eq!(map.get("pod"), Some(&1));
    let (a, b) = (Text::from("a"), Text::from("b".to_owned()));
    assert!(a < b);
    assert_eq!(format!("{:>5}|{:.1}", Text::from("pod"), Text::from("pod")), "  pod|p");
}

#[test]
fn times_are_shown_and_read_as_rfc_3339() {
    for (text, seconds, nanos) in [
        ("1970-01-01T00:00:00Z", 0, 0),
        ("1969-12-31T23:59:59.999999999Z", -1, 999_999_999),
        ("2024-02-29T12:00:00.5Z", 1_709_208_000, 500_000_000),
        ("2000-03-01T00:00:00Z", 951_868_800, 0),
        ("0000-01-01T00:00:00Z", -62_167_219_200, 0),
        ("9999-12-31T23:59:59.999999999Z", 253_402_300_799, 999_999_999),
    ] {
        let time = Timestamp::new(seconds, nanos).unwrap();
        assert_eq!(time.to_string(), text);
        assert_eq!(at(text), time);
    }
    assert_eq!(at("2024-01-31T23:30:00-01:15"), at("2024-02-01T00:45:00Z"));
    assert_eq!(at("2024-01-31T23:30:00.1234567899999Z").subsec_nanos(), 123_456_789);
    assert_eq!(format!("{:.3}", at("2024-01-31T23:30:00.9999Z")), "2024-01-31T23:30:00.999Z");
}

#[test]
fn what_is_no_time_is_refused_by_its_escaped_text() {
    for text in [
        "",
        "2024-01-31",
        "2024-01-31T23:30:00",
        "2024-01-31 23:30:00Z",
        "2024-01-31t23:30:00z",
        "2024-1-31T23:30:00Z",
        "2024-02-30T23:30:00Z",
        "2023-02-29T23:30:00Z",
        "2024-01-31T24:00:00Z",
        "2024-01-31T23:60:00Z",
        "2024-01-31T23:59:60Z",
        "2024-01-31T23:30:00.Z",
        "2024-01-31T23:30:00.5",
        "2024-01-31T23:30:00+24:00",
        "2024-01-31T23:30:00+0100",
        "2024-01-31T23:30:00Zx",
        "2024-01-31T23:30:00é",
        "+024-01-31T23:30:00Z",
        "10000-01-01T00:00:00Z",
        "0000-01-01T00:00:00+00:01",
        "9999-12-31T23:59:59-00:01",
        "2024-01-31T23:30:00Z[UTC]",
    ] {
        assert!(text.parse::<Timestamp>().is_err(), "{text}");
    }
    let error = "\u{1b}[2Know".parse::<Timestamp>().unwrap_err().to_string();
    assert!(error.starts_with(r"invalid time `\u{1b}[2Know`: "), "{error}");
}

#[test]
fn times_from_the_system_are_exact_and_stay_in_range() {
    let second = Duration::from_secs(1);
    assert_eq!(Timestamp::from(SystemTime::UNIX_EPOCH - Duration::from_nanos(1)).as_secs(), -1);
    assert_eq!(Timestamp::from(SystemTime::UNIX_EPOCH + second / 4).subsec_nanos(), 250_000_000);
    assert_eq!(
        Timestamp::from(SystemTime::UNIX_EPOCH + Duration::from_secs(253_402_300_800)),
        Timestamp::MAX
    );
    assert_eq!(Timestamp::from(SystemTime::UNIX_EPOCH - Duration::from_secs(62_167_219_201)), Timestamp::MIN);
    assert_eq!(Timestamp::new(0, 1_000_000_000), None);
    assert_eq!(Timestamp::new(253_402_300_800, 0), None);
    assert_eq!(Timestamp::new(i64::MIN, 0), None);
}

#[test]
fn arithmetic_with_times_saturates() {
    let early = at("2024-01-01T00:00:00.9Z");
    let late = at("2024-01-01T00:00:02.1Z");
    assert_eq!(late.duration_since(early), Duration::from_millis(1200));
    assert_eq!(early.duration_since(late), Duration::ZERO);
    assert_eq!(early.saturating_add(Duration::from_millis(1200)), late);
    assert_eq!(late.saturating_sub(Duration::from_millis(1200)), early);
    assert_eq!(late.saturating_add(Duration::MAX), Timestamp::MAX);
    assert_eq!(late.saturating_sub(Duration::MAX), Timestamp::MIN);
    assert_eq!(late.trunc_to_second(), at("2024-01-01T00:00:02Z"));
    assert_eq!(Timestamp::MAX.duration_since(Timestamp::MIN), Duration::new(315_569_519_999, 999_999_999));
    assert_eq!(at("1969-12-31T23:59:59.5Z").as_nanos(), -500_000_000);
}

#[test]
fn a_source_is_a_component_and_perhaps_a_host() {
    let source = EventSource::from("kubelet").on_host("node-1".to_owned());
    assert_eq!((&*source.component, &*source.host), ("kubelet", "node-1"));
    assert_eq!(EventSource::from(String::from("kubelet")).host, "");
}

#[test]
fn a_reference_shows_what_it_has_and_nothing_that_controls_a_terminal() {
    assert_eq!(ObjectReference::new("Node", "n\r1").to_string(), r"Node/n\r1");
    assert_eq!(ObjectReference::default().to_string(), "");
}

#[test]
fn a_reference_is_read_from_its_text() {
    let pod = ObjectReference::new("Pod", "web-0").in_namespace("default");
    assert_eq!("Pod/default/web-0".parse(), Ok(pod.clone()));
    assert_eq!("Node/n 1".parse(), Ok(ObjectReference::new("Node", "n 1")));
    // A slash in a name looks like the one between namespace and name.
    let disk = ObjectReference::new("Disk", "dev/sda");
    assert_eq!(disk.to_string().parse(), Ok(ObjectReference::new("Disk", "sda").in_namespace("dev")));
    let long = "x".repeat(100);
    for text in [
        "",
        "/",
        "Pod",
        "Pod/",
        "/web-0",
        "Pod//web-0",
        "Pod/default/",
        "Disk//dev/sda",
        "Pod/default/web-0/log",
        "Pod/a\\nb",
        "Pod/a\nb",
        "Pod/\u{1b}[2J",
        "Pod/web\u{200b}",
        &long,
    ] {
        let error = text.parse::<ObjectReference>().unwrap_err().to_string();
        let (shown, _) = error.strip_prefix("invalid reference `").unwrap().split_once('`').unwrap();
        assert!(shown.chars().count() <= 64 && !shown.contains(char::is_control), "{error}");
    }
    let set = HashSet::from([pod.clone(), "Pod/default/web-0".parse().unwrap()]);
    assert_eq!(set.len(), 1);
    assert!(HashSet::from([EventType::Normal]).contains(&"Normal".parse().unwrap()));
}

#[test]
fn rare_fields_read_as_empty_until_they_are_set() {
    let mut event = Event::default();
    assert_eq!(event.related(), None);
    assert_eq!(event.metadata.labels().len(), 0);
    // A box that holds only defaults makes no difference.
    let mut touched = event.clone();
    touched.set_action("x");
    touched.set_action("");
    touched.metadata.labels_mut().clear();
    assert_eq!(touched, event);

    event.set_kind("Event");
    event.set_api_version("v1");
    event.set_action("Scale");
    event.set_event_time(at("2024-01-01T00:00:00Z"));
    event.set_series(EventSeries::new(2, at("2024-01-01T00:00:01Z")));
    event.set_related(ObjectReference::new("Node", "n1"));
    event.metadata.set_uid("u1");
    event.metadata.set_generate_name("web-");
    event.metadata.set_self_link("/api/v1/x");
    event.metadata.set_resource_version("7");
    event.metadata.set_creation_timestamp(at("2024-01-01T00:00:02Z"));
    event.metadata.labels_mut().insert("a".into(), "b".into());
    event.metadata.annotations_mut().insert("c".into(), "d".into());

    assert_eq!((event.kind().as_str(), event.api_version().as_str()), ("Event", "v1"));
    assert_eq!(event.action(), "Scale");
    assert_eq!(event.event_time(), Some(at("2024-01-01T00:00:00Z")));
    assert_eq!(event.series(), Some(EventSeries::new(2, at("2024-01-01T00:00:01Z"))));
    assert_eq!(event.related().map(|r| r.name.as_str()), Some("n1"));
    assert_eq!(event.metadata.uid(), "u1");
    assert_eq!(event.metadata.generate_name(), "web-");
    assert_eq!(event.metadata.self_link(), "/api/v1/x");
    assert_eq!(event.metadata.resource_version(), "7");
    assert_eq!(event.metadata.creation_timestamp(), Some(at("2024-01-01T00:00:02Z")));
    assert_eq!(event.metadata.labels()["a"], "b");
    assert_eq!(event.metadata.annotations()["c"], "d");
    assert_ne!(event, touched);
    let mut without = event.clone();
    without.set_series(None);
    assert_ne!(without, event);
    without.set_series(event.series());
    assert_eq!(without, event);
}

/// The order in which kubectl reads the fields.
#[test]
fn last_seen_prefers_the_series_and_then_the_last_time() {
    let mut event = Event::default();
    event.metadata.set_creation_timestamp(at("2024-01-01T00:00:05Z"));
    assert_eq!(event.last_seen(), None);
    event.set_event_time(at("2024-01-01T00:00:04Z"));
    assert_eq!(event.last_seen(), Some(at("2024-01-01T00:00:04Z")));
    event.first_timestamp = Some(at("2024-01-01T00:00:03Z"));
    assert_eq!(event.last_seen(), Some(at("2024-01-01T00:00:03Z")));
    event.last_timestamp = Some(at("2024-01-01T00:00:02Z"));
    assert_eq!(event.last_seen(), Some(at("2024-01-01T00:00:02Z")));
    event.set_series(EventSeries::new(2, at("2024-01-01T00:00:01Z")));
    assert_eq!(event.last_seen(), Some(at("2024-01-01T00:00:01Z")));
    // A series without a time, which no API server accepts.
    event.set_series(EventSeries::default());
    assert_eq!(event.last_seen(), Some(at("2024-01-01T00:00:02Z")));
}

#[test]
fn a_type_is_read_where_it_is_one_of_the_two() {
    let mut event = Event::default();
    assert_eq!(event.event_type(), None);
    for type_ in [EventType::Normal, EventType::Warning] {
        event.type_ = type_.into();
        assert_eq!(event.event_type(), Some(type_));
        assert_eq!(event.type_, *type_.to_string());
    }
    event.type_ = "warning".into();
    assert_eq!(event.event_type(), None);
}

#[test]
fn a_patch_holds_what_differs_from_nothing() {
    let mut event = Event::default();
    assert_eq!(event.to_patch_json(), r#"{"lastTimestamp":null}"#);
    event.last_timestamp = Some(Timestamp::UNIX_EPOCH);
    assert_eq!(event.to_patch_json(), "{}");
    event.message = "<a>&\u{2028}\u{2029}\"\\\n\u{1}\u{7f}é".into();
    assert_eq!(
        event.to_patch_json(),
        "{\"message\":\"\\u003ca\\u003e\\u0026\\u2028\\u2029\\\"\\\\\\n\\u0001\u{7f}é\"}"
    );
    event.count = -3;
    event.message = Text::default();
    assert_eq!(event.to_patch_json(), r#"{"count":-3}"#);
    event.last_timestamp = Some(at("2024-01-02T03:04:05.999999999Z"));
    event.message = "m".into();
    assert_eq!(
        event.to_patch_json().as_bytes(),
        br#"{"count":-3,"lastTimestamp":"2024-01-02T03:04:05Z","message":"m"}"#
    );
}

#[test]
fn plain_data_crosses_threads() {
    fn assert<T: Send + Sync + Unpin + 'static>() {}
    assert::<Event>();
    assert::<Text>();
}
