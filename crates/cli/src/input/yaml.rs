//! Reads events from YAML with one or more documents, such as `kubectl get events -o yaml`.

use std::io::{self, BufRead, Read as _};

use eventcast::event::{EventReadErrorKind as Kind, EventReader, ReadEvent};
use serde::de::DeserializeSeed as _;
use serde_json::Value;

use super::problems::{Problem, Reason};
use super::yaml_value::Elements;

/// The number of bytes to inspect when distinguishing YAML from JSON.
pub(crate) const HEAD: usize = 64 << 10;
/// The maximum length of a document, in bytes. A document's whole text is kept in memory, but its
/// events are parsed one at a time.
const MAX_DOCUMENT: u64 = 256 << 20;
/// Words that begin a log line if they are followed by a colon.
const LOG_WORDS: [&str; 7] = ["debug", "error", "fatal", "info", "trace", "warn", "warning"];

type Found<'a> = &'a mut dyn FnMut(Result<ReadEvent, Problem>);

/// Returns whether the input is YAML rather than JSON. In both formats, lines of plain text may
/// precede the document.
pub(crate) fn is_yaml(head: &[u8]) -> bool {
    let head = String::from_utf8_lossy(head);
    let mut lines = head.trim_start_matches('\u{feff}').lines();
    // YAML that contains events has no such line, because its flow-style values are indented.
    let has_json = lines.clone().any(opens_json);
    !has_json && lines.any(begins)
}

fn opens_json(line: &str) -> bool {
    // A bracket alone is not sufficient, because log lines often begin with a bracket.
    let is_list = |rest: &str| rest.is_empty() || rest.starts_with(['{', '[', ']', '"']);
    line.starts_with('{') || line.strip_prefix('[').is_some_and(|rest| is_list(rest.trim_start()))
}

/// Returns whether this line can be the first line of a YAML document with events.
fn begins(line: &str) -> bool {
    separates(line) || line.starts_with("%YAML") || begins_with_field(line.strip_prefix("- ").unwrap_or(line))
}

/// Returns whether the line starts with a field name, such as `apiVersion:`.
fn begins_with_field(line: &str) -> bool {
    let Some((name, rest)) = line.split_once(':') else { return false };
    let is_name = name.starts_with(|c: char| c.is_ascii_lowercase())
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    is_name && (rest.is_empty() || rest.starts_with([' ', '\r', '\n'])) && !LOG_WORDS.contains(&name)
}

/// Returns whether the line is a document separator or end marker.
fn separates(line: &str) -> bool {
    ["---", "..."].iter().any(|mark| {
        line.strip_prefix(mark).is_some_and(|rest| rest.is_empty() || rest.starts_with([' ', '\r', '\n']))
    })
}

pub(crate) fn read(mut reader: Box<dyn BufRead>, found: Found<'_>) -> io::Result<()> {
    let mut document = Document { text: Vec::new(), begin: 1, is_too_long: false };
    let (mut line, mut is_text, mut ends_line) = (0, true, true);
    loop {
        let start = document.text.len();
        // Reads one byte more than allowed, so that documents that are too long are detected.
        let room = (MAX_DOCUMENT + 1).saturating_sub(start as u64).max(1);
        let len = match reader.by_ref().take(room).read_until(b'\n', &mut document.text) {
            Ok(len) => len,
            Err(error) => {
                document.end(found);
                found(Err(Problem::new(Reason::Read(Kind::Io), line, &error.to_string())));
                return Ok(());
            }
        };
        if len == 0 {
            document.end(found);
            return Ok(());
        }
        let begins_line = std::mem::replace(&mut ends_line, document.text.last() == Some(&b'\n'));
        line += u64::from(begins_line);
        let text = String::from_utf8_lossy(&document.text[start..]).into_owned();
        let text = text.trim_start_matches('\u{feff}');
        if is_text && !begins(text) {
            // The YAML parser would treat this line as part of the first document.
            document.text.truncate(start);
            if !text.trim().is_empty() && !text.starts_with('#') {
                found(Err(Problem::new(
                    Reason::Read(Kind::Text),
                    line,
                    &format!("'{}' is not YAML", text.trim_end()),
                )));
            }
            document.begin = line + 1;
            continue;
        }
        is_text = false;
        if text.starts_with('%') && document.text[..start].trim_ascii().is_empty() {
            // Directives do not affect events, so they are skipped.
            document.text.truncate(start);
            continue;
        }
        if begins_line && separates(text) {
            let next = text.as_bytes()[3..].to_vec();
            document.text.truncate(start);
            document.end(found);
            document = Document { text: next, begin: line, is_too_long: false };
        }
        if document.text.len() as u64 > MAX_DOCUMENT {
            // From now on, only the end of the document matters.
            document.text = Vec::new();
            document.is_too_long = true;
        }
    }
}

struct Document {
    text: Vec<u8>,
    /// The number of the line in which the document begins.
    begin: u64,
    is_too_long: bool,
}

impl Document {
    fn end(&mut self, found: Found<'_>) {
        if self.is_too_long {
            let text = format!(
                "a YAML document is held in memory as a whole, and must be at most {} MiB: use JSON instead, as \
                 with 'kubectl get events -A -o json'",
                MAX_DOCUMENT >> 20
            );
            found(Err(Problem::new(Reason::Read(Kind::TooLarge), self.begin, &text)));
            return;
        }
        let text = String::from_utf8_lossy(&self.text);
        let mut seen = 0;
        let mut element = |value: &Value| {
            seen += 1;
            event_of(value, self.begin, &mut *found);
        };
        let mut elements = Elements::new(&mut element);
        let read = serde_saphyr::with_deserializer_from_str_with_options(&text, options(), |deserializer| {
            (&mut elements).deserialize(deserializer)
        });
        let is_cut_off = elements.is_cut_off;
        match read {
            Ok(()) if is_cut_off => {
                let text = "the input ends inside a list, because its 'kind' is missing";
                found(Err(Problem::new(Reason::Read(Kind::CutOff), self.begin, text)));
            }
            Ok(()) => {}
            Err(error) => {
                let after = if seen == 0 { String::new() } else { format!(" after {seen} of its events") };
                let error = error.to_string();
                let error = error.lines().next().unwrap_or_default();
                found(Err(Problem::new(
                    Reason::Read(Kind::Malformed),
                    self.begin,
                    &format!("not YAML{after}: {error}"),
                )));
            }
        }
    }
}

/// Returns the parser's options. As in YAML 1.2, `yes` and similar words are strings. The only
/// limits are `MAX_DOCUMENT` and the default limits on aliases, which prevent a small document from
/// expanding.
fn options() -> serde_saphyr::Options {
    let large = usize::MAX;
    serde_saphyr::options! {
        strict_booleans: true,
        with_snippet: false,
        duplicate_keys: serde_saphyr::options::DuplicateKeyPolicy::LastWins,
        budget: serde_saphyr::budget! {
            max_events: large,
            max_nodes: large,
            max_total_scalar_bytes: large,
        },
    }
}

/// Reads the events in a parsed document. The library handles lists and envelopes.
fn event_of(value: &Value, line: u64, found: Found<'_>) {
    let json = value.to_string();
    for event in EventReader::new(json.as_bytes()) {
        found(match event {
            Ok(mut event) => {
                event.line = line;
                Ok(event)
            }
            Err(error) => Err(Problem { line, ..Problem::from(error) }),
        });
    }
}
