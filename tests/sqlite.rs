//! The store in a file, through its public face: what it keeps, how it answers, how it is asked.
#![cfg(feature = "sqlite")]

#[path = "support/folder.rs"]
mod folder;

use std::time::{Duration, SystemTime};

use eventcast::{
    Event, EventBroadcaster, EventPatch, EventQuery, EventSeries, EventSink, EventType, FakeClock,
    ObjectReference, SinkErrorKind, SinkOp, SqliteErrorKind, SqliteSink, SqliteSinkOptions, SqliteSinkStats,
    SqliteSynchronous, Text, Timestamp,
};
use folder::Folder;

fn clock() -> FakeClock {
    FakeClock::new(SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000))
}

fn open(folder: &Folder, clock: &FakeClock, options: SqliteSinkOptions) -> SqliteSink {
    SqliteSink::with_clock(folder.file("events.db"), options, clock.clock()).unwrap()
}

fn store(folder: &Folder) -> SqliteSink {
    SqliteSink::open(folder.file("events.db")).unwrap()
}

fn event(name: &str) -> Event {
    let mut event = Event::default();
    event.metadata.name = name.to_owned().into();
    event.involved_object = ObjectReference::new("Pod", "web-0");
    event.type_ = EventType::Normal.into();
    event.reason = "Started".into();
    event.message = "started".into();
    event.count = 1;
    event
}

fn names(events: &[Event]) -> Vec<&str> {
    events.iter().map(|event| event.metadata.name.as_str()).collect()
}

/// Every field that an event has, each of another value.
fn full(name: &str, text: &str) -> Event {
    let at = |seconds, nanos| Timestamp::new(seconds, nanos);
    let text = |field: &str| Text::from(format!("{field} {text}"));
    let mut event = event(name);
    event.set_kind(text("kind"));
    event.set_api_version(text("apiVersion"));
    event.metadata.set_generate_name(text("generateName"));
    event.metadata.set_self_link(text("selfLink"));
    event.metadata.labels_mut().insert(text("key"), text("value"));
    event.metadata.labels_mut().insert(text("other"), "".into());
    event.metadata.annotations_mut().insert("".into(), text("annotation"));
    event.involved_object.kind = text("object kind");
    event.involved_object.namespace = text("namespace");
    event.involved_object.name = text("object name");
    event.involved_object.uid = text("object uid");
    event.involved_object.api_version = text("object version");
    event.involved_object.resource_version = text("object resource version");
    event.involved_object.field_path = text("path");
    event.reason = text("reason");
    event.message = text("message");
    event.source.component = text("component");
    event.source.host = text("host");
    event.first_timestamp = at(-62_167_219_200, 0);
    event.last_timestamp = at(253_402_300_799, 0);
    event.count = i32::MIN;
    event.type_ = text("type");
    event.reporting_controller = text("controller");
    event.reporting_instance = text("instance");
    event.set_action(text("action"));
    event.set_event_time(at(1_700_000_000, 123_456_000));
    event.set_series(EventSeries::new(i32::MAX, at(-1, 999_999_000).unwrap()));
    event.set_related(ObjectReference::new(text("related kind"), text("related name")));
    event
}

#[test]
fn what_is_stored_is_there_after_the_next_start() {
    let folder = Folder::new();
    let sink = store(&folder);
    let a = sink.create(&event("a")).unwrap();
    let b = sink.create(&event("b")).unwrap();
    assert_eq!((a.metadata.resource_version().as_str(), b.metadata.resource_version().as_str()), ("1", "2"));
    assert_ne!(a.metadata.uid(), b.metadata.uid());
    drop(sink);

    // Closed in order, there is one file.
    assert_eq!(folder.files().len(), 1);
    let sink = store(&folder);
    assert_eq!(sink.events().unwrap(), [a.clone(), b]);
    let mut again = a.clone();
    again.count = 2;
    let a = sink.patch(&again, &EventPatch::new(&again)).unwrap();
    assert_eq!(a.metadata.resource_version(), "3");
    let c = sink.create(&event("c")).unwrap();
    assert_eq!(c.metadata.uid().split_at(24).0, a.metadata.uid().split_at(24).0);
    assert_eq!(sink.stats().unwrap().to_string().split_at(25).0, "stored 3, created 3, upda");
    assert_eq!(sink.get("default", "c").unwrap(), Some(c));
    assert_eq!(sink.get("elsewhere", "c").unwrap(), None);
}

#[test]
fn every_field_and_every_character_comes_back_as_it_was() {
    let folder = Folder::new();
    let sink = store(&folder);
    let every: String = (0..=0x2FF)
        .chain([0x2028, 0x202E, 0xFEFF, 0xFFFD, 0xFFFF, 0x1F600])
        .filter_map(char::from_u32)
        .collect();
    let texts = [
        "",
        "plain",
        "'); DROP TABLE events;--",
        "\"; DELETE FROM events; --",
        "?1 :a @b $c %s {}",
        "\0",
        "before\0after",
        "\u{1b}[2J\r\n\u{9b}31m",
        &every,
        &"x".repeat(100_000),
    ];
    let mut stored = Vec::new();
    for (number, text) in texts.iter().enumerate() {
        let mut event = full(&format!("{number}"), text);
        // The API server limits messages of events that have an event time.
        event.message = event.message.chars().take(300).collect::<String>().into();
        stored.push(sink.create(&event).unwrap());
        let mut named = self::event(&text.replace('/', ""));
        named.message = (*text).to_owned().into();
        match sink.create(&named) {
            Ok(event) => stored.push(event),
            Err(error) => assert!(named.metadata.name.is_empty(), "{error}"),
        }
    }
    assert_eq!(stored.len(), 2 * texts.len() - 1);
    assert_eq!(sink.events().unwrap(), stored);
    drop(sink);
    let sink = store(&folder);
    assert_eq!(sink.events().unwrap(), stored);
    for event in &stored {
        let (namespace, name) = (&event.metadata.namespace, &event.metadata.name);
        assert_eq!(sink.get(namespace, name).unwrap().as_ref(), Some(event));
        let query =
            EventQuery::new().object(&event.involved_object).type_(&event.type_).reason(&event.reason);
        assert!(sink.find(&query).unwrap().contains(event));
        let mut again = event.clone();
        again.count = 7;
        assert_eq!(sink.patch(&again, &EventPatch::new(&again)).unwrap().count, 7);
    }
}
