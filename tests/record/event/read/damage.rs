//! Input that is malformed, truncated, or too large.

use std::io::{self, BufRead, BufReader, Read};

use eventcast::event::{EventReadErrorKind as Kind, EventReader};
use proptest::prelude::*;

use super::{event, names, pretty, read};

fn list(count: usize) -> String {
    let events: Vec<String> = (0..count).map(|number| event(&number.to_string())).collect();
    format!(r#"{{"apiVersion":"v1","items":[{}],"kind":"List"}}"#, events.join(","))
}

#[test]
fn a_truncated_list_yields_its_first_events_and_an_error() {
    let pretty = pretty(&list(3));
    for whole in [list(3), pretty] {
        let all = names(&whole);
        for end in 1..whole.len() {
            let seen = read(&whole[..end]);
            assert!(all.starts_with(&seen.names), "{end}: {seen:?}");
            let kinds: Vec<Kind> = seen.errors.iter().map(|(kind, _)| *kind).collect();
            assert_eq!(kinds, [Kind::CutOff], "{}", &whole[..end]);
        }
    }
}

#[test]
fn a_broken_document_ends_where_the_next_one_begins() {
    let [a, b] = ["a", "b"].map(event);
    for broken in [
        "{broken}",
        r#"{"reason":"R"#,
        r#"{"reason":"R""#,
        r#"{"reason":"R","#,
        r#"{"reason":"#,
        r#"{"reason":["#,
        r#"{"reason":[1,"#,
        r#"{"reason":{"x":1"#,
        r#"{"reason":]}"#,
        r#"{"reason":"R"}}"#,
        "}",
        "]",
        "[x",
        "[7 x",
        "[[x]]",
        "{\"a\\",
    ] {
        let seen = read(format!("{a}\n{broken}\n{b}\n"));
        assert_eq!(seen.names.first().map(String::as_str), Some("a"), "{broken}: {seen:?}");
        assert_eq!(seen.names.last().map(String::as_str), Some("b"), "{broken}: {seen:?}");
        assert!(
            !seen.errors.is_empty() && seen.errors.iter().all(|(_, line)| *line == 2),
            "{broken}: {seen:?}"
        );
    }
}

/// All elements of a pretty-printed list start with the same indentation.
#[test]
fn a_broken_element_of_a_pretty_list_spoils_only_itself() {
    let pretty = pretty(&list(3));
    let second = pretty.replacen("\"name\": \"1\"", "\"name\": \"1", 1);
    let seen = read(&second);
    assert_eq!(seen.names, ["0", "2"], "{seen:?}");
    assert_eq!(seen.errors.len(), 1);
    assert_eq!(seen.errors[0].0, Kind::Malformed);
    // The same holds for an array without indentation.
    let seen = read(format!("[\n{},\n{{\"reason\":,\n{}\n]\n{}", event("a"), event("b"), event("c")));
    assert_eq!((seen.names.join(" "), seen.errors), ("a b c".to_owned(), vec![(Kind::Malformed, 3)]));
}

#[test]
fn text_between_documents_is_passed_over() {
    let input = format!("Warning: a\n{}\n[info] b\nInfo: c\n{}\ntrailing", event("a"), event("b"));
    let seen = read(input);
    assert_eq!(seen.names, ["a", "b"]);
    assert_eq!(seen.errors, [(Kind::Text, 1), (Kind::Text, 3), (Kind::Text, 4), (Kind::Text, 6)]);
}

/// Returns a reader that yields a head, a string that is repeated, and a tail.
fn repeated(head: &str, part: &str, times: usize, tail: &str) -> impl BufRead {
    let part = part.repeat(1024);
    assert_eq!(times % 1024, 0);
    let mut reader: Box<dyn Read> = Box::new(io::Cursor::new(head.to_owned()));
    for _ in 0..times / 1024 {
        reader = Box::new(reader.chain(io::Cursor::new(part.clone())));
    }
    BufReader::new(reader.chain(io::Cursor::new(tail.to_owned())))
}

#[test]
fn a_document_beyond_a_limit_is_passed_over() {
    const MIB: usize = 1 << 20;
    const LONG: &str = "\"0123456789012345678901234567890123456789012345678901234567890123\",";
    let behind = format!("\n{}", event("b"));
    for (what, head, part, times, tail) in [
        ("a string", r#"{"reason":""#, "x", 5 * MIB, r#""}"#),
        ("its length", r#"{"reason":["#, LONG, 512 << 10, "0]}"),
        ("the number of its values", r#"{"reason":["#, "0,", MIB, "0]}"),
        ("its depth", r#"{"reason":"#, r#"{"x":"#, 1024, &format!("1{}}}", "}".repeat(1024))),
    ] {
        let found: Vec<_> =
            EventReader::new(repeated(head, part, times, &format!("{tail}{behind}"))).collect();
        let error = found[0].as_ref().unwrap_err();
        assert_eq!((error.kind(), error.line()), (Kind::TooLarge, 1), "{error}");
        assert!(error.text().contains(what), "{error}");
        assert_eq!(found[1].as_ref().unwrap().event.metadata.name, "b");
        assert_eq!(found.len(), 2);
    }
    // Documents within the limits can be read.
    let found: Vec<_> = EventReader::new(repeated(r#"{"reason":""#, "x", 3 * MIB, r#""}"#)).collect();
    assert_eq!(found[0].as_ref().unwrap().event.reason.len(), 3 * MIB);
    let seen: Vec<_> = EventReader::new(repeated("", "[", 1024, &behind)).collect();
    assert_eq!(seen[0].as_ref().unwrap_err().kind(), Kind::TooLarge);
    assert_eq!(seen[1].as_ref().unwrap().event.metadata.name, "b");
}

/// The standard error and standard output of a program were written to the same file.
#[test]
fn a_stray_line_in_a_list_does_not_affect_its_events() {
    let pretty = pretty(&list(4));
    let lines: Vec<&str> = pretty.lines().collect();
    for stray in ["E1125 14:03:00 couldn't get it: \"x\"", "{", "}", "warning: x", "  [x", "7"] {
        for at in 1..lines.len() {
            let mut input = lines.clone();
            input.insert(at, stray);
            let seen = read(input.join("\n"));
            // Only the event that contains the stray line may be lost.
            assert!(seen.names.len() >= 3, "{stray} before line {}: {seen:?}", at + 1);
            let is_told = seen.names.len() == 4 || seen.errors.iter().any(|(kind, _)| kind.is_loss());
            assert!(is_told, "{stray} before line {}: {seen:?}", at + 1);
        }
    }
    let seen = read(format!("[{},xx,{},nil {}]", event("a"), event("b"), event("c")));
    assert_eq!(seen.names, ["a", "b", "c"]);
    assert_eq!(seen.errors, [(Kind::Malformed, 1), (Kind::Malformed, 1)]);
}

#[test]
fn a_truncated_list_is_reported_after_a_malformed_document() {
    let [a, b] = ["a", "b"].map(event);
    for malformed in ["{broken}", "}", "[x y]", "[7 x]", "{\"x\":\n{},\"items\":[]}} {", "[{\"a\"]"] {
        let seen = read(format!("{malformed}\n{{\"items\":[{a},\n{b}"));
        assert_eq!(seen.names, ["a", "b"], "{malformed}: {seen:?}");
        assert_eq!(seen.errors.last().unwrap().0, Kind::CutOff, "{malformed}: {seen:?}");
    }
    // An empty list does not end the line on which the object started.
    let seen = read(format!("{{\"x\":\n{{}},\"items\":[],\"y\":]}}\n{a}\n{b}"));
    assert_eq!((seen.names.join(" "), seen.errors), ("a b".to_owned(), vec![(Kind::Malformed, 1)]));
}

#[test]
fn a_document_may_continue_without_indentation() {
    let deleted = format!("{{\"type\":\"DELETED\",\"object\":\n{}}}\n{}", event("a"), event("b"));
    let all: Vec<_> = EventReader::new(deleted.as_bytes()).map(Result::unwrap).collect();
    assert_eq!(all.len(), 2);
    assert!(all[0].is_deleted && !all[1].is_deleted);
    // Once the object turns out to be malformed, each of its lines is treated as a separate
    // document.
    for end in ["", "\n", "\n]", "\n\"x\n"] {
        let seen = read(format!("{{\"object\":\n{}\n{}{end}", event("a"), event("b")));
        assert_eq!(seen.names, ["a", "b"], "{end:?}");
        assert_eq!(seen.errors[0], (Kind::Malformed, 1), "{end:?}");
    }
    let many = format!("{{\"object\":[\n{}1", format!("{},\n", event("a")).repeat(50_000));
    let seen = read(&many);
    assert_eq!((seen.names.len(), seen.errors[0]), (50_000, (Kind::Malformed, 1)));
}

/// A reader that fails after an event.
struct Failing(io::Cursor<Vec<u8>>, Vec<io::ErrorKind>);

impl Read for Failing {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self.0.read(buffer)? {
            0 => self.1.pop().map_or(Ok(0), |kind| Err(kind.into())),
            len => Ok(len),
        }
    }
}

#[test]
fn an_error_of_the_source_ends_the_reading() {
    let failing = |kinds: &[io::ErrorKind]| {
        let source = Failing(io::Cursor::new(format!("\n{}", event("a")).into_bytes()), kinds.to_vec());
        EventReader::new(BufReader::new(source))
    };
    let mut reader = failing(&[io::ErrorKind::PermissionDenied]);
    assert!(reader.next().unwrap().is_ok());
    let error = reader.next().unwrap().unwrap_err();
    assert_eq!((error.kind(), error.line()), (Kind::Io, 2));
    let source = std::error::Error::source(&error).unwrap().downcast_ref::<io::Error>().unwrap();
    assert_eq!(source.kind(), io::ErrorKind::PermissionDenied);
    assert!(reader.next().is_none() && reader.next().is_none());
    assert_eq!(failing(&[io::ErrorKind::Interrupted]).count(), 1);
}

/// Returns inputs in every format, with a few random edits.
fn mutated() -> impl Strategy<Value = Vec<u8>> {
    let pieces = prop::sample::select(vec![
        "{", "}", "[", "]", "\"", "\\", ",", ":", "\n", " ", "null", "1e999", "\u{feff}", "items", "\\ud800",
        "{}", "[[", "---", "\r\n", "\u{1e}", "\u{0}",
    ]);
    let edit = (any::<prop::sample::Index>(), 0..4_usize, pieces);
    let form = prop::sample::select(super::forms::forms());
    (form, prop::collection::vec(edit, 0..6)).prop_map(|((_, form), edits)| {
        let mut bytes = form.into_bytes();
        for (place, removed, piece) in edits {
            let at = place.index(bytes.len() + 1);
            let end = (at + removed).min(bytes.len());
            bytes.splice(at..end, piece.bytes());
        }
        bytes
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]

    /// Any mutated input is read to the end, and every error has a valid line number.
    #[test]
    fn no_input_makes_the_reader_fail(input in mutated(), size in 1..40_usize) {
        let lines = input.split(|byte| *byte == b'\n').count() as u64;
        let mut found = 0;
        for found_one in EventReader::new(BufReader::with_capacity(size, &input[..])) {
            found += 1;
            match found_one {
                Ok(read) => prop_assert!((1..=lines).contains(&read.line)),
                Err(error) => prop_assert!((1..=lines).contains(&error.line()), "{error}"),
            }
        }
        prop_assert!(found <= input.len() + 1);
    }

    /// A damaged line does not affect the surrounding lines.
    #[test]
    fn a_damaged_line_spoils_only_itself(
        edits in prop::collection::vec((any::<prop::sample::Index>(), 0..40_usize, r#"[{}\[\]":,\\a0]{0,3}"#), 1..5)
    ) {
        let mut damaged = event("damaged");
        for (place, removed, inserted) in edits {
            let at = place.index(damaged.len() + 1);
            let end = (at + removed).min(damaged.len());
            damaged.replace_range(at..end, &inserted);
        }
        let seen = read(format!("{}\n{damaged}\n{}\n", event("a"), event("b")));
        prop_assert_eq!(seen.names.first().map(String::as_str), Some("a"));
        prop_assert_eq!(seen.names.last().map(String::as_str), Some("b"), "{:?}: {}", seen, damaged);
    }
}
