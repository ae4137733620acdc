//! CVE-2021-25743: whatever failed writes events, and somebody's terminal shows them. The tests put
//! one hostile event through every output that the library has for people. (The programs have their
//! own tests, in `events.rs` and `supervise.rs`.)

use std::sync::{Arc, Mutex};
use std::time::SystemTime;

use eventcast::sink::{EventQuery, EventTable, SinkOp};
use eventcast::{Event, EventBroadcaster, EventSink, EventType, MemorySink, ObjectReference, SinkError};

use crate::hostile::{PAYLOAD, assert_harmless, assert_harmless_error, hostile, is_hidden};

/// Returns an event of which only the name of the object and the message matter.
fn saying(name: String, message: String) -> Event {
    let mut event = Event::default();
    event.metadata.name = "e".into();
    event.involved_object = ObjectReference::new("Pod", name);
    (event.type_, event.reason, event.message) = ("Normal".into(), "Started".into(), message.into());
    event
}

fn table(store: &MemorySink) -> String {
    EventTable::new(SystemTime::UNIX_EPOCH).rows(&store.events())
}

fn describe(store: &MemorySink, object: &ObjectReference) -> String {
    EventTable::new(SystemTime::UNIX_EPOCH).describe(&store.find(&EventQuery::default().object(object)))
}

#[test]
fn no_invisible_character_is_shown_in_any_text() {
    for c in ('\0'..=char::MAX).filter(|c| is_hidden(*c)) {
        let event = saying(format!("pod-{c}0"), format!("gone: pod-{c}0"));
        let escape = c.escape_default().to_string();
        let store = MemorySink::new();
        store.create(&event).unwrap();
        let shown = table(&store) + &describe(&store, &event.involved_object);
        assert!(!shown.contains(c), "{escape}");
        assert_eq!(shown.matches(&format!("pod-{escape}0")).count(), 3, "{shown}");
    }
}

#[test]
fn what_scripts_and_emoji_need_stays_in_a_message() {
    let texts = [
        "می\u{200c}خواهم API\u{200c}ها",
        "क्\u{200d}ष र\u{200d}्य ශ්\u{200d}රී",
        "\u{1f468}\u{200d}\u{1f33e} \u{1f3f3}\u{fe0f}\u{200d}\u{1f308} \u{26a0}\u{fe0f} 1\u{fe0f}\u{20e3} \u{1f469}\u{1f3fd}\u{200d}\u{1f4bb} \u{2714}\u{fe0e}",
    ];
    for text in texts {
        let event = saying(text.replace(' ', "_"), text.to_owned());
        let store = MemorySink::new();
        store.create(&event).unwrap();
        for shown in [table(&store), describe(&store, &event.involved_object)] {
            assert!(shown.trim_end().ends_with(text), "{shown:?}");
        }
        // The name of the object keeps none of them, because it could be taken for another name.
        assert_eq!(table(&store).matches(is_hidden).count(), text.matches(is_hidden).count());
        let logged = Arc::new(Mutex::new(String::new()));
        let into = logged.clone();
        let events = EventBroadcaster::new().unwrap();
        events.log_to(move |line| *into.lock().unwrap() = line.to_owned()).unwrap();
        let object = event.involved_object.clone();
        events.recorder("test").event(object, EventType::Normal, "Started", text.to_owned());
        events.shutdown();
        let line = logged.lock().unwrap().clone();
        assert!(line.ends_with(text), "{line:?}");
        assert_eq!(line.matches(is_hidden).count(), text.matches(is_hidden).count());
    }
    // Nobody needs a joiner between ASCII letters, at an end or behind another joiner, or a
    // selector behind anything else.
    for text in [
        "a\u{200d}b",
        "\u{200d}ش",
        "ش\u{200c}",
        "ش\u{200c}\u{200c}ش",
        "a\u{fe0f}",
        "1\u{fe0f}",
        "\u{26a0}\u{fe0f}\u{fe0f}!",
        "葛\u{e0100}",
    ] {
        let store = MemorySink::new();
        store.create(&saying("web-0".to_owned(), format!(".{text}."))).unwrap();
        let kept = usize::from(text.starts_with('\u{26a0}'));
        let table = table(&store);
        assert_eq!(table.matches(is_hidden).count(), kept, "{table:?}");
        assert!(table.contains(r"\u{"), "{table:?}");
    }
}

/// Names on the bus, which can be built without events.
#[test]
fn names_of_watchers_and_options() {
    let bus = eventcast::Broadcaster::<u8>::new().unwrap();
    let hidden = "w\u{3164}\u{fe0f}\u{e0041}\u{fffc}";
    let watcher = bus.watch_builder().name(hidden).watch().unwrap();
    let shown = watcher.stats().to_string();
    assert!(shown.starts_with(r"w\u{3164}\u{fe0f}\u{e0041}\u{fffc} ("), "{shown:?}");
    let error = bus.watch_builder().name(&format!("{hidden}\0")).watch().unwrap_err().to_string();
    assert!(error.contains(r"w\u{3164}\u{fe0f}\u{e0041}\u{fffc}\u{0}"), "{error:?}");
}

#[test]
fn tables_and_descriptions() {
    let store = MemorySink::new();
    store.create(&hostile()).unwrap();
    assert_harmless(&table(&store), 2, 5);
    assert_harmless(&describe(&store, &ObjectReference::new(PAYLOAD, PAYLOAD)), 4, 4);
    let mut reported = hostile();
    reported.source = "".into();
    store.update(&reported).unwrap();
    assert_harmless(&describe(&store, &reported.involved_object), 4, 4);
    // The store keeps the text as it was written.
    assert_eq!(store.events()[0].message, PAYLOAD);
}

#[test]
fn logs_and_what_is_told_of_losses() {
    let [lines, losses] = std::array::from_fn(|_| Arc::new(Mutex::new(Vec::new())));
    let (logged, told) = (lines.clone(), losses.clone());
    let events = EventBroadcaster::builder()
        .on_loss(move |loss| {
            told.lock().unwrap().push(loss.to_string());
            told.lock().unwrap().push(loss.cause.unwrap().to_string());
        })
        // A recorder knows only two types.
        .scrub(|event| event.type_ = PAYLOAD.into())
        .build()
        .unwrap();
    events.log_to(move |line| logged.lock().unwrap().push(line.to_owned())).unwrap();
    events.record_to(Refuses).unwrap();
    let recorder = events.recorder(PAYLOAD);
    recorder.event(hostile().involved_object, EventType::Warning, PAYLOAD, PAYLOAD);
    events.shutdown();
    let lines = lines.lock().unwrap();
    assert_eq!(lines.len(), 1);
    assert_harmless(&lines[0], 1, 5);
    let losses = losses.lock().unwrap();
    assert_eq!(losses.len(), 2);
    for told in &*losses {
        assert_harmless_error(told);
    }
}

/// A sink that quotes the event in its refusal, as servers do.
struct Refuses;

impl EventSink for Refuses {
    fn create(&self, event: &Event) -> Result<Event, SinkError> {
        Err(SinkError::rejected(event.message.to_string()))
    }

    fn patch(&self, event: &Event) -> Result<Event, SinkError> {
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
}

/// A sink that quotes the event in its panic.
struct Panics;

impl EventSink for Panics {
    fn create(&self, event: &Event) -> Result<Event, SinkError> {
        panic!("{}", event.message)
    }

    fn patch(&self, event: &Event) -> Result<Event, SinkError> {
        self.create(event)
    }
}

#[test]
fn panics_of_a_sink() {
    let events = EventBroadcaster::new().unwrap();
    let recording = events.record_to(Panics).unwrap();
    events.recorder("tester").event(
        ObjectReference::new("Pod", "web-0"),
        EventType::Normal,
        "Started",
        PAYLOAD,
    );
    events.shutdown();
    assert_eq!(recording.stats().panics, 1);
    assert_harmless_error(&recording.stats().last_refusal.unwrap());
}

#[cfg(feature = "tracing")]
mod warnings {
    use std::fmt::{self, Write as _};
    use std::sync::Mutex;

    use tracing::field::{Field, Visit};
    use tracing::span::{Attributes, Id, Record};
    use tracing::{Metadata, Subscriber};

    /// The lines that a subscriber that escapes nothing itself would print.
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
    fn warnings_of_losses() {
        use super::*;
        test_support::in_own_process!();
        tracing::subscriber::set_global_default(Printer).unwrap();
        let events = EventBroadcaster::builder().scrub(|event| event.type_ = PAYLOAD.into()).build().unwrap();
        events.record_to(Refuses).unwrap();
        let recorder = events.recorder(PAYLOAD);
        recorder.event(hostile().involved_object, EventType::Warning, PAYLOAD, PAYLOAD);
        events.shutdown();
        let lines = LINES.lock().unwrap();
        assert!(!lines.is_empty());
        for line in &*lines {
            assert_harmless_error(line);
        }
    }
}
