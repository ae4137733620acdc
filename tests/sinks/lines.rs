//! Helpers for line files, used by the tests of the JSON lines sink.
#![allow(dead_code, reason = "each test uses a part of it")]

use eventcast::sink::{JsonLinesOptions, JsonLinesSink};
use eventcast::{Event, EventSink};
use tempfile::TempDir;

use crate::support::contents;

pub(crate) const FILE: &str = "events.jsonl";

pub(crate) fn event(name: &str, count: i32) -> Event {
    let mut event = Event::default();
    event.metadata.name = name.to_owned().into();
    event.metadata.namespace = "default".into();
    event.message = "a\nline \u{2028} or\r two \u{85}".into();
    event.count = count;
    event
}

/// Returns the names and counts of the events in a text. Each line must be an event.
#[track_caller]
pub(crate) fn read(text: &[u8]) -> Vec<(String, i32)> {
    let text = std::str::from_utf8(text).unwrap();
    assert!(text.is_empty() || text.ends_with('\n'), "{text:?}");
    let lines =
        text.lines().map(|line| Event::from_json(line).unwrap_or_else(|error| panic!("{line}: {error}")));
    lines.map(|event| (event.metadata.name.to_string(), event.count)).collect()
}

/// Returns the files in a folder, each with the names of its events.
#[track_caller]
pub(crate) fn files(folder: &TempDir) -> Vec<(String, String)> {
    let names = |text: &[u8]| read(text).into_iter().map(|(name, _)| name).collect::<Vec<_>>().join(" ");
    contents(folder).iter().map(|(file, text)| (file.clone(), names(text))).collect()
}

pub(crate) fn pairs<const N: usize>(files: [(&str, &str); N]) -> Vec<(String, String)> {
    files.map(|(file, names)| (file.to_owned(), names.to_owned())).to_vec()
}

/// Returns the length of an event's line if its name is short. Twice this length is the limit for
/// two such lines.
pub(crate) fn line() -> u64 {
    event("a", 1).to_json().len() as u64 + 1
}

pub(crate) fn two_lines(keep: u32) -> JsonLinesOptions {
    JsonLinesOptions::default().max_bytes(2 * line()).keep(keep)
}

#[track_caller]
pub(crate) fn create(sink: &JsonLinesSink, names: &str) {
    for name in names.split(' ') {
        assert_eq!(sink.create(&event(name, 1)).unwrap(), event(name, 1));
    }
}

#[track_caller]
pub(crate) fn files_in(text: &str) -> String {
    read(text.as_bytes()).into_iter().map(|(name, _)| name).collect::<Vec<_>>().join(" ")
}
