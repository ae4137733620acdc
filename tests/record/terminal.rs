//! CVE-2021-25743: a failing program writes events, and another user's terminal displays them. The
//! tests pass one hostile event through every human-readable output of the library. (The programs
//! have their own tests, in `events.rs` and `supervise.rs`. `warnings.rs` tests the warnings.)

use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use eventcast::error::FlushError;
use eventcast::sink::{EventQuery, EventTable, SinkErrorKind, SinkOp};
use eventcast::{Event, EventBroadcaster, EventSink, EventType, MemorySink, ObjectReference, SinkError};

use crate::hostile::{PAYLOAD, assert_harmless, assert_harmless_error, hostile, is_hidden};
use crate::support::{LONG, Scripted, clock, gate, logged, pod, record, with_losses};

/// Returns an event in which only the object's name and the message matter.
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
        // The object's name keeps none of these characters, because it could be mistaken for
        // another name.
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
    // No script needs a joiner between ASCII letters, at either end or after another joiner, or a
    // selector after any other character.
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

/// Names of watchers and options belong to the bus, which can be built without the recorder.
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
    // The store keeps the text exactly as it was written.
    assert_eq!(store.events()[0].message, PAYLOAD);
}

/// Like a server, the sink quotes the event in its refusal.
#[test]
fn logs_and_reports_of_losses() {
    // A recorder supports only two event types.
    let builder = EventBroadcaster::builder().scrub(|event| event.type_ = PAYLOAD.into());
    let (events, losses) = with_losses(builder, |loss| [loss.to_string(), loss.cause.unwrap().to_string()]);
    let lines = logged(&events);
    let (sink, _calls) =
        Scripted::new(&clock(), |_, op| Err(SinkError::rejected(op.event().message.to_string())));
    events.record_to(sink).unwrap();
    events.recorder(PAYLOAD).event(hostile().involved_object, EventType::Warning, PAYLOAD, PAYLOAD);
    events.shutdown();
    let lines = lines.lock().unwrap();
    assert_eq!(lines.len(), 1);
    assert_harmless(&lines[0], 1, 5);
    let losses: Vec<_> = losses.try_iter().collect();
    assert_eq!(losses.len(), 1);
    losses[0].iter().for_each(|shown| assert_harmless_error(shown));
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

/// The sink quotes the event in its panic message.
#[test]
fn panics_of_a_sink() {
    let (sink, _calls) = Scripted::new(&clock(), |_, op| panic!("{}", op.event().message));
    let events = EventBroadcaster::new().unwrap();
    let recording = events.record_to(sink).unwrap();
    events.recorder("tester").normal(pod("web-0"), "Started", PAYLOAD);
    events.shutdown();
    assert_eq!(recording.stats().panics, 1);
    assert_harmless_error(&recording.stats().last_refusal.unwrap());
}

/// An error that displays its text unescaped, like the errors of some crates.
struct Raw(String);

impl fmt::Display for Raw {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for Raw {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Raw {}

#[test]
fn errors_in_every_form() {
    let hostile: String = ('\u{1}'..'\u{e0000}').filter(|c| c.is_control() || is_hidden(*c)).collect();
    for error in [
        SinkError::retry(Raw(hostile.clone())),
        SinkError::retry(hostile.clone()).with_retry_after(LONG),
        SinkError::rejected(Raw(hostile.clone())),
        SinkError::new(SinkErrorKind::NotFound, Raw(hostile.clone())),
        SinkError::new(SinkErrorKind::AlreadyExists, Raw(hostile)),
    ] {
        for shown in [error.to_string(), format!("{error:?}"), format!("{error:#?}").replace('\n', "")] {
            assert_harmless(&shown, 1, 0);
        }
    }
}

#[test]
fn names_of_recordings_in_statistics_and_errors() {
    let events = EventBroadcaster::new().unwrap();
    // A name cannot contain NUL, and the `Debug` output of a string does not escape fillers.
    let name = PAYLOAD.replace(['\0', '\u{3164}'], "");
    let (gate, pass) = gate();
    let recording = events.recording().name(&name).start(MemorySink::new()).unwrap();
    events.watch_builder().name(&name).spawn(move |_| pass()).unwrap();
    record(&events, "a", "Started");
    gate.wait();
    let error = events.flush(Duration::ZERO).unwrap_err();
    assert!(matches!(error, FlushError::Timeout { .. }), "{error}");
    let mut shown =
        vec![error.to_string(), format!("{error:?}"), format!("{recording:?}"), format!("{events:?}")];
    shown.push(format!("{:?}", events.recording().name(&name)));
    shown.push(format!("{:?}", events.watch_builder().name(&name)));
    drop(gate);
    let report = events.shutdown();
    shown.extend([report.to_string(), format!("{report:?}"), events.stats().to_string()]);
    shown.push(report.recordings[0].to_string());
    for shown in shown {
        assert_harmless(&shown, 1, 0);
    }
}
