//! Events with arbitrary content. Reading their JSON must never panic, everything that can be read
//! can also be written, and the human-readable output contains no control characters.

use std::sync::mpsc;
use std::time::{Duration, SystemTime};

use eventcast::escape::escape;
use eventcast::sink::EventTable;
use eventcast::{Event, EventBroadcaster, EventType, ObjectReference, Timestamp};
use proptest::prelude::*;
use proptest::test_runner::TestCaseError;
use serde_json::Value;

use crate::{cases, wild};

/// Generates pieces of an event's JSON, including some pieces that make the JSON invalid.
fn piece() -> impl Strategy<Value = String> {
    let pieces = prop::sample::select(vec![
        "{",
        "}",
        "[",
        "]",
        ":",
        ",",
        "null",
        "true",
        "-",
        "0",
        "1e999",
        "2147483648",
        "-2147483649",
        "3.5",
        "\"",
        "\\",
        "\"\\ud800\"",
        "\"\\udc00\"",
        "\"\\ud83d\\ude00\"",
        "\"\\u0000\"",
        "\"metadata\"",
        "\"name\"",
        "\"labels\"",
        "\"involvedObject\"",
        "\"message\"",
        "\"count\"",
        "\"series\"",
        "\"lastObservedTime\"",
        "\"eventTime\"",
        "\"firstTimestamp\"",
        "\"related\"",
        "\"apiVersion\":\"events.k8s.io/v1\",",
        "\"regarding\"",
        "\"note\"",
        "\"deprecatedCount\"",
        "\"2024-01-01T00:00:00Z\"",
        "\"0000-01-01T00:00:00Z\"",
        "\"9999-12-31T23:59:60.999999999999Z\"",
        "\"2024-02-30T25:61:61+99:99\"",
        "\"x\":1",
        "{\"a\":{\"b\":[]}}",
        "\u{1b}",
        "\u{0}",
        "\u{feff}",
    ]);
    prop_oneof![5 => pieces.prop_map(str::to_owned), 1 => wild::text()]
}

/// Generates strings by editing the JSON of an event.
fn edited() -> impl Strategy<Value = String> {
    let edit = (any::<prop::sample::Index>(), 0..12_usize, prop::collection::vec(piece(), 0..3));
    let edits = prop::collection::vec(edit, 0..6);
    (wild::event(), any::<bool>(), edits).prop_map(|(event, is_core, edits)| {
        let json = if is_core { event.to_json() } else { event.to_events_v1_json() };
        let mut text: Vec<char> = json.chars().collect();
        for (at, cut, pieces) in edits {
            let at = at.index(text.len() + 1);
            let end = (at + cut).min(text.len());
            text.splice(at..end, pieces.concat().chars());
        }
        text.into_iter().collect()
    })
}

fn json() -> impl Strategy<Value = String> {
    let bytes =
        prop::collection::vec(any::<u8>(), 0..200).prop_map(|b| String::from_utf8_lossy(&b).into_owned());
    let soup = prop::collection::vec(piece(), 0..40).prop_map(|pieces| pieces.concat());
    prop_oneof![1 => bytes, 3 => soup, 8 => edited()]
}

/// Checks that both documents of an event can be read, that the event read from each document is
/// written as the same JSON, and that both documents contain the same event.
fn assert_round_trip(event: &Event) -> Result<(), TestCaseError> {
    let written = event.to_json();
    prop_assert!(serde_json::from_str::<Value>(&written).is_ok_and(|value| value.is_object()), "{}", written);
    let read = Event::from_json(&written);
    prop_assert!(read.is_ok(), "{:?} of {}", read.err(), written);
    prop_assert_eq!(read.as_ref().map(Event::to_json), Ok(written));

    let newer = event.to_events_v1_json();
    let same = Event::from_json(&newer);
    prop_assert_eq!(same.as_ref().map(Event::to_events_v1_json), Ok(newer));
    let mut expected = read.unwrap_or_default();
    expected.set_kind("Event");
    expected.set_api_version("v1");
    prop_assert_eq!(same, Ok(expected));
    Ok(())
}

#[test]
fn json_of_anything_is_read_or_refused() {
    cases::check(1000, json, |text| match Event::from_json(&text) {
        Ok(event) => assert_round_trip(&event),
        Err(error) => {
            let told = error.to_string();
            prop_assert!(!told.contains(wild::is_dangerous), "{:?}", told);
            prop_assert!(told.chars().count() < 1000, "{} characters", told.chars().count());
            Ok(())
        }
    });
}

#[test]
fn any_event_is_written_and_read_back() {
    cases::check(300, wild::event, |event| {
        assert_round_trip(&event)?;
        // Everything that JSON can express survives. Only times outside the years that JSON can
        // express may be missing.
        let read =
            Event::from_json(&event.to_json()).map_err(|error| TestCaseError::fail(error.to_string()))?;
        prop_assert_eq!(&read.message, &event.message);
        prop_assert_eq!(&read.involved_object, &event.involved_object);
        prop_assert_eq!(&read.metadata, &event.metadata);
        prop_assert_eq!((read.count, read.related()), (event.count, event.related()));
        Ok(())
    });
}

/// A parsed reference displays the text that it was parsed from. A reference's text parses to the
/// same reference, unless the text omits a part or contains a slash or an escape within a part.
#[test]
fn a_reference_is_read_as_it_is_shown_or_not_at_all() {
    let part = || prop_oneof![4 => "[a-zA-Z0-9.{}:<é日 -]{1,9}", 2 => wild::text(), 1 => "[/a\\\\n]{0,4}"];
    let strategy = move || (part(), prop_oneof![Just(String::new()), part()], part());
    cases::check(1000, strategy, |(kind, namespace, name)| {
        let object = ObjectReference::new(&kind, &name).in_namespace(&namespace);
        let shown = object.to_string();
        let read = shown.parse::<ObjectReference>();
        let is_plain = |part: &str| !part.contains(['/', '\\']) && escape(part).to_string() == part;
        if !kind.is_empty()
            && !name.is_empty()
            && [&kind, &namespace, &name].iter().all(|part| is_plain(part))
        {
            prop_assert_eq!(read, Ok(object));
        } else if let Ok(read) = read {
            prop_assert_eq!(read.to_string(), shown);
            let is_whole = !kind.is_empty() && !name.is_empty();
            let has_slash = [&kind, &namespace, &name].iter().any(|part| part.contains('/'));
            prop_assert!(read == object || !is_whole || has_slash, "{:?}", read);
        } else if let Err(error) = read {
            prop_assert!(!error.to_string().contains(wild::is_dangerous));
        }
        if let Ok(read) = name.parse::<ObjectReference>() {
            prop_assert_eq!(read.to_string(), name);
        }
        Ok(())
    });
}

#[test]
fn the_log_has_one_line_for_each_event_and_no_control_character() {
    let events = EventBroadcaster::new().unwrap();
    let (tx, lines) = mpsc::channel();
    events.log_to(move |line| drop(tx.send(line.to_owned()))).unwrap();
    let strategy = || (wild::reference(), wild::text(), wild::text());
    cases::check(300, strategy, move |(object, reason, message)| {
        let recorded = events.recorder("fuzz").event(object, EventType::Warning, reason, message);
        if !recorded.is_accepted() {
            return Ok(());
        }
        let line = lines.recv_timeout(Duration::from_secs(60));
        let line = line.map_err(|_| TestCaseError::fail("no line was logged"))?;
        let (at, rest) = line.split_at_checked(20).unwrap_or_default();
        prop_assert!(at.parse::<Timestamp>().is_ok(), "{:?}", line);
        prop_assert!(rest.starts_with("  Warning  "), "{:?}", line);
        prop_assert!(!line.contains(wild::is_dangerous), "{:?}", line);
        Ok(())
    });
}

#[test]
fn the_table_has_one_line_for_each_event_and_no_control_character() {
    let strategy = || prop::collection::vec(wild::event(), 0..4);
    cases::check(150, strategy, |events| {
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000);
        let table = EventTable::new(now).rows(&events);
        let lines: Vec<_> = table.split('\n').filter(|line| !line.is_empty()).collect();
        prop_assert_eq!(lines.len(), events.len() + 1, "{:?}", table);
        for line in lines {
            prop_assert!(!line.contains(wild::is_dangerous), "{:?}", line);
        }
        Ok(())
    });
}
