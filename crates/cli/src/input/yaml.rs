//! Reads events from YAML with one or more documents, such as `kubectl get events -o yaml`.

use std::io::{self, BufRead, Read as _};

use eventcast::event::{EventReader, ReadEvent};
use serde::de::{self, DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};

use super::problems::{Problem, Reason};

/// The number of bytes that are inspected to distinguish YAML from JSON.
pub(crate) const HEAD: usize = 64 << 10;
/// The maximum length of a document, in bytes. The document is held in memory as a whole, its
/// events one at a time.
const MAX_DOCUMENT: u64 = 256 << 20;
/// Fields of events and lists that can start a YAML document.
const FIELDS: [&str; 14] = [
    "apiVersion",
    "kind",
    "items",
    "metadata",
    "involvedObject",
    "regarding",
    "reason",
    "count",
    "eventTime",
    "firstTimestamp",
    "lastTimestamp",
    "action",
    "deprecatedCount",
    "series",
];

type Found<'a> = &'a mut dyn FnMut(Result<ReadEvent, Problem>);

/// Returns whether the first line that is either JSON or YAML is YAML. Other lines may precede it.
pub(crate) fn is_yaml(head: &[u8]) -> bool {
    let head = String::from_utf8_lossy(head);
    let mut lines = head.trim_start_matches('\u{feff}').lines();
    lines
        .find_map(
            |line| if line.starts_with(['{', '[']) { Some(false) } else { begins(line).then_some(true) },
        )
        .unwrap_or(false)
}

/// Returns whether a YAML document with events can start with this line.
fn begins(line: &str) -> bool {
    let field = line.strip_prefix("- ").unwrap_or(line).split_once(':');
    separates(line) || line.starts_with("%YAML") || field.is_some_and(|(name, _)| FIELDS.contains(&name))
}

/// Returns whether the line ends a document, and possibly starts the next one.
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
        // One byte more than allowed, to detect longer documents.
        let room = (MAX_DOCUMENT + 1).saturating_sub(start as u64).max(1);
        let len = match reader.by_ref().take(room).read_until(b'\n', &mut document.text) {
            Ok(len) => len,
            Err(error) => {
                document.end(found);
                found(Err(Problem::new(Reason::Failed, line, &error.to_string())));
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
            // YAML would parse it as part of the first document.
            document.text.truncate(start);
            if !text.trim().is_empty() && !text.starts_with('#') {
                found(Err(Problem::new(Reason::Text, line, &format!("'{}' is not YAML", text.trim_end()))));
            }
            document.begin = line + 1;
            continue;
        }
        is_text = false;
        if text.starts_with('%') && document.text[..start].trim_ascii().is_empty() {
            // Directives do not affect events.
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
            // Only the end of the document still matters.
            document.text = Vec::new();
            document.is_too_long = true;
        }
    }
}

struct Document {
    text: Vec<u8>,
    /// The line in which the document begins.
    begin: u64,
    is_too_long: bool,
}

impl Document {
    fn end(&mut self, found: Found<'_>) {
        if self.is_too_long {
            let text = format!(
                "a document of YAML is held as a whole, and must be at most {} MiB: write JSON, as with \
                 'kubectl get events -A -o json'",
                MAX_DOCUMENT >> 20
            );
            found(Err(Problem::new(Reason::TooLarge, self.begin, &text)));
            return;
        }
        let text = String::from_utf8_lossy(&self.text);
        let mut seen = 0;
        let mut element = |value: &Value| {
            seen += 1;
            event_of(value, self.begin, &mut *found);
        };
        let read = serde_saphyr::with_deserializer_from_str_with_options(&text, options(), |deserializer| {
            Elements(&mut element).deserialize(deserializer)
        });
        if let Err(error) = read {
            let behind = if seen == 0 { String::new() } else { format!(" behind {seen} of its events") };
            let error = error.to_string();
            let error = error.lines().next().unwrap_or_default();
            found(Err(Problem::new(Reason::Malformed, self.begin, &format!("not YAML{behind}: {error}"))));
        }
    }
}

/// Returns the parser's options: `yes` and similar words are strings as in YAML 1.2, and the only
/// limits are the length above and the default ones on aliases, so that a small document cannot
/// expand.
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

/// Reads the events of a parsed document. The library handles lists and envelopes.
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

/// Passes on the elements of lists while parsing, so that a parsed list is never held as a whole.
struct Elements<'a>(&'a mut dyn FnMut(&Value));

impl<'de> DeserializeSeed<'de> for Elements<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Elements<'_> {
    type Value = ();

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("an event or a list of events")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let (mut object, mut is_list) = (Map::new(), false);
        while let Some(key) = map.next_key::<String>()? {
            if key == "items" {
                is_list = true;
                map.next_value_seed(Elements(&mut *self.0))?;
            } else {
                object.insert(key, map.next_value()?);
            }
        }
        if !is_list {
            (self.0)(&Value::Object(object));
        }
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<(), A::Error> {
        while list.next_element_seed(Elements(&mut *self.0))?.is_some() {}
        Ok(())
    }

    fn visit_unit<E: de::Error>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_none<E: de::Error>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<(), E> {
        (self.0)(&Value::Array(vec![text.into()]));
        Ok(())
    }

    fn visit_bool<E: de::Error>(self, value: bool) -> Result<(), E> {
        (self.0)(&Value::Array(vec![value.into()]));
        Ok(())
    }

    fn visit_i64<E: de::Error>(self, value: i64) -> Result<(), E> {
        (self.0)(&Value::Array(vec![value.into()]));
        Ok(())
    }

    fn visit_u64<E: de::Error>(self, value: u64) -> Result<(), E> {
        (self.0)(&Value::Array(vec![value.into()]));
        Ok(())
    }

    fn visit_f64<E: de::Error>(self, value: f64) -> Result<(), E> {
        (self.0)(&Value::Array(vec![value.into()]));
        Ok(())
    }
}
