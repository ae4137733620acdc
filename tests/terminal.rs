//! CVE-2021-25743: events are written by whatever failed, and shown on somebody's terminal. One hostile event, and every
//! output that the library has for people. (The programs have tests of their own, in `events.rs` and `supervise.rs`.)
#![cfg(feature = "recorder")]
#![allow(clippy::disallowed_types, clippy::disallowed_methods, reason = "tests are not part of the model")]

use std::sync::{Arc, Mutex};

use eventcast::{
    Event, EventBroadcaster, EventQuery, EventSink, EventType, Filter, MemorySink, ObjectReference,
    SinkError, SinkOp, Tee,
};

/// Clears the screen, goes to its corner, changes colours with one byte less, rewrites the line, steps back, deletes,
/// turns the reading direction round, and begins a line of its own. Then a title that could be answered to a shell.
const PAYLOAD: &str = "\u{1b}[2J\u{1b}[1;1H\u{9b}31mpwned\rNormal\u{8}\u{7f}\u{202e}txet\u{2066}\u{2028}next\n\
                       LAST SEEN\t\u{1b}]0;title\u{7}\u{0}\u{85}\u{200f}";
const SHOWN: &str = r"\u{1b}[2J\u{1b}[1;1H\u{9b}31mpwned\rNormal\u{8}\u{7f}\u{202e}txet\u{2066}\u{2028}next\nLAST SEEN\t\u{1b}]0;title\u{7}\u{0}\u{85}\u{200f}";

fn hostile() -> Event {
    let mut event = Event::default();
    event.metadata.name = PAYLOAD.into();
    event.involved_object = ObjectReference::new(PAYLOAD, PAYLOAD).in_namespace(PAYLOAD);
    event.involved_object.uid = PAYLOAD.into();
    event.involved_object.field_path = PAYLOAD.into();
    event.involved_object.api_version = PAYLOAD.into();
    (event.type_, event.reason, event.message) = (PAYLOAD.into(), PAYLOAD.into(), PAYLOAD.into());
    event.source = PAYLOAD.into();
    event.reporting_controller = PAYLOAD.into();
    event
}

/// How it begins: what a store says is shown up to a length.
const BEGINNING: &str = r"\u{1b}[2J\u{1b}[1;1H\u{9b}31mpwned\rNormal";

/// Harmless, and the payload is in it.
#[track_caller]
fn assert_harmless_error(shown: &str) {
    assert_harmless(shown, 1, 0);
    assert!(shown.contains(BEGINNING), "{shown}");
}

/// `lines` lines, nothing in them that a terminal obeys, and the payload as text at least `times` times.
#[track_caller]
fn assert_harmless(shown: &str, lines: usize, times: usize) {
    let is_obeyed = |c: char| {
        (c.is_control() && c != '\n')
            || matches!(c, '\u{200e}' | '\u{200f}' | '\u{61c}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
    };
    assert!(!shown.contains(is_obeyed), "{shown:?}");
    assert_eq!(shown.lines().count(), lines, "{shown}");
    // Kinds are shown in lower case.
    let found = shown.to_lowercase().matches(&SHOWN.to_lowercase()).count();
    assert!(found >= times, "{found} times in {shown}");
}

#[test]
fn tables_and_descriptions() {
    let store = MemorySink::new();
    store.create(&hostile()).unwrap();
    assert_harmless(&store.table(), 2, 5);
    assert_harmless(&store.table_of(&EventQuery::new().reason(PAYLOAD)), 2, 5);
    let section = store.describe(ObjectReference::new(PAYLOAD, PAYLOAD));
    assert_harmless(&section, 4, 4);
    let mut reported = hostile();
    reported.source = "".into();
    store.update(&reported).unwrap();
    assert_harmless(&store.describe(&reported.involved_object), 4, 4);
    // What is stored is what was written.
    assert_eq!(store.events()[0].message, PAYLOAD);
}

#[cfg(feature = "sqlite-system")]
#[test]
fn tables_and_descriptions_of_a_file() {
    let folder = std::env::temp_dir().join(format!("eventcast-terminal-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let store = eventcast::SqliteSink::open(folder.join("events.db")).unwrap();
    store.create(&hostile()).unwrap();
    assert_harmless(&store.table().unwrap(), 2, 5);
    assert_harmless(&store.table_of(&EventQuery::new().type_(PAYLOAD)).unwrap(), 2, 5);
    assert_harmless(&store.describe(ObjectReference::new(PAYLOAD, PAYLOAD)).unwrap(), 4, 4);
    assert_harmless_error(&store.create(&hostile()).unwrap_err().to_string());
    assert_eq!(store.events().unwrap()[0].message, PAYLOAD);
    drop(store);
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn logs_and_what_is_told_of_losses() {
    let (lines, losses) = (Arc::new(Mutex::new(Vec::new())), Arc::new(Mutex::new(Vec::new())));
    let (logged, told) = (lines.clone(), losses.clone());
    let events = EventBroadcaster::builder()
        .on_loss(move |loss| {
            told.lock().unwrap().push(loss.to_string());
            told.lock().unwrap().push(loss.cause().unwrap().to_string());
        })
        // A recorder knows two types only.
        .scrub(|event| event.type_ = PAYLOAD.into())
        .build()
        .unwrap();
    events.start_logging(move |line| logged.lock().unwrap().push(line.to_owned())).unwrap();
    events.start_recording_to_sink(Refuses).unwrap();
    let recorder = events.new_recorder(PAYLOAD);
    recorder.event(hostile().involved_object, EventType::Warning, PAYLOAD, PAYLOAD);
    events.shutdown();
    let lines = lines.lock().unwrap();
    assert_eq!(lines.len(), 1);
    assert_harmless(&lines[0], 1, 8);
    let losses = losses.lock().unwrap();
    assert_eq!(losses.len(), 2);
    for told in &*losses {
        assert_harmless_error(told);
    }
}

/// Quotes the event in its refusal, as servers do.
struct Refuses;

impl EventSink for Refuses {
    fn create(&self, event: &Event) -> Result<Event, SinkError> {
        Err(SinkError::rejected(event.message.to_string()))
    }

    fn update(&self, event: &Event) -> Result<Event, SinkError> {
        self.create(event)
    }
}

#[test]
fn refusals() {
    let store = MemorySink::new();
    store.create(&hostile()).unwrap();
    let mut old = hostile();
    old.metadata.set_resource_version(PAYLOAD);
    let mut nowhere = hostile();
    nowhere.metadata.namespace = "elsewhere".into();
    let mut wrong = hostile();
    wrong.metadata.name = format!("{PAYLOAD}/").into();
    for op in [SinkOp::Create(hostile()), SinkOp::Update(old), SinkOp::Create(nowhere), SinkOp::Create(wrong)]
    {
        let error = op.apply_to(&store).unwrap_err();
        assert_harmless_error(&error.to_string());
        assert_harmless(&format!("{error:?}"), 1, 0);
    }
    // Panics are quoted too.
    let sink = Filter::new(|_: &Event| panic!("{PAYLOAD}"), store);
    assert_harmless_error(&sink.create(&hostile()).unwrap_err().to_string());
    let told = Arc::new(Mutex::new(String::new()));
    let into = told.clone();
    let tee = Tee::new(MemorySink::new(), Refuses)
        .on_failure(move |_, error| *into.lock().unwrap() = error.to_string());
    tee.create(&hostile()).unwrap();
    assert_harmless_error(&told.lock().unwrap());
}

#[cfg(feature = "tracing")]
mod structured {
    use std::fmt::{self, Write as _};
    use std::sync::Mutex;

    use tracing::field::{Field, Visit};
    use tracing::span::{Attributes, Id, Record};
    use tracing::{Metadata, Subscriber};

    /// What a subscriber that escapes nothing itself would print.
    static LINES: Mutex<Vec<String>> = Mutex::new(Vec::new());

    struct Printer;

    struct Fields<'a>(&'a mut String);

    impl Visit for Fields<'_> {
        fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
            write!(self.0, " {field}={value:?}").unwrap();
        }
    }

    impl Subscriber for Printer {
        fn enabled(&self, metadata: &Metadata<'_>) -> bool {
            metadata.target().starts_with("eventcast")
        }

        fn new_span(&self, _: &Attributes<'_>) -> Id {
            Id::from_u64(1)
        }

        fn record(&self, _: &Id, _: &Record<'_>) {}

        fn record_follows_from(&self, _: &Id, _: &Id) {}

        fn event(&self, event: &tracing::Event<'_>) {
            let mut line = event.metadata().name().to_owned();
            event.record(&mut Fields(&mut line));
            LINES.lock().unwrap().push(line);
        }

        fn enter(&self, _: &Id) {}

        fn exit(&self, _: &Id) {}
    }

    #[test]
    fn structured_logs_and_warnings() {
        use super::*;
        tracing::subscriber::set_global_default(Printer).unwrap();
        let events = EventBroadcaster::builder().scrub(|event| event.type_ = PAYLOAD.into()).build().unwrap();
        events.start_structured_logging(tracing::Level::INFO).unwrap();
        events.start_recording_to_sink(Refuses).unwrap();
        let recorder = events.new_recorder(PAYLOAD);
        recorder.event(hostile().involved_object, EventType::Warning, PAYLOAD, PAYLOAD);
        events.shutdown();
        let lines = LINES.lock().unwrap();
        let occurred: Vec<_> = lines.iter().filter(|line| line.starts_with("Event occurred")).collect();
        assert_eq!(occurred.len(), 1, "{lines:?}");
        assert_harmless(occurred[0], 1, 8);
        // And the library's own warnings, of this loss among them.
        assert!(lines.len() > 1);
        for line in &*lines {
            assert_harmless_error(line);
        }
    }
}
