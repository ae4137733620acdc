//! Extracts the events from one document, which may be a plain event, a list or an envelope.

use std::borrow::Cow;

use serde_json::{Map, Value};

use super::error::EventReadErrorKind as Kind;
use super::halves::without_halves;
use crate::escape::escape;
use crate::record::event::core_v1::Event;

/// The maximum number of envelopes, lists and encoded strings that may be nested within each other.
const MAX_WRAPPERS: usize = 8;
/// The JSON members in which an envelope may hold an event. Audit records use `responseObject`.
const WRAPPERS: [&str; 4] = ["object", "event", "body", "responseObject"];

/// An event with a flag for whether the envelope reports the event's deletion, or an error that
/// describes the document if it is not an event.
pub(super) type Found = Result<(Event, bool), (Kind, String)>;

/// An iterator over the contents of a document. The contents are extracted one at a time, because
/// together they can occupy much more memory than their JSON.
#[derive(Default)]
pub(super) struct Contents {
    first: Option<Found>,
    /// The values that have not been examined yet. The last entry is examined next.
    rest: Vec<Part>,
}

struct Part {
    values: std::vec::IntoIter<Value>,
    is_deleted: bool,
    /// The number of envelopes, lists and encoded strings that enclose the values.
    depth: usize,
}

/// Returns an iterator over the contents of a document.
pub(super) fn read(json: &[u8]) -> Contents {
    let json = String::from_utf8_lossy(json);
    // Most documents are plain events, so the slower path runs only if reading the document as an
    // event fails.
    let mut contents = Contents::default();
    if let Some(event) = Event::from_json(&json).ok().filter(is_one) {
        contents.first = Some(Ok((event, false)));
        return contents;
    }
    match value(json) {
        Ok(value) => contents.add(vec![value], false, 0),
        Err(error) => contents.first = Some(Err((Kind::Malformed, error))),
    }
    contents
}

impl Iterator for Contents {
    type Item = Found;

    fn next(&mut self) -> Option<Found> {
        if let Some(first) = self.first.take() {
            return Some(first);
        }
        loop {
            let part = self.rest.last_mut()?;
            let (is_deleted, depth) = (part.is_deleted, part.depth);
            let Some(value) = part.values.next() else {
                self.rest.pop();
                continue;
            };
            if let Some(found) = self.examine(value, is_deleted, depth) {
                return Some(found);
            }
        }
    }
}

impl Contents {
    fn add(&mut self, values: Vec<Value>, is_deleted: bool, depth: usize) {
        self.rest.push(Part { values: values.into_iter(), is_deleted, depth });
    }

    /// If the value is an event, returns the event. If the value is a list, an envelope or a string
    /// that contains JSON, returns `None`, and the contents of the value are examined next. Also
    /// returns `None` for an empty list or a bookmark. For any other value, returns an error that
    /// describes the value.
    fn examine(&mut self, value: Value, is_deleted: bool, depth: usize) -> Option<Found> {
        let can_wrap = depth < MAX_WRAPPERS;
        let mut object = match value {
            Value::Object(object) => object,
            // In logs, an event is often encoded as a string.
            Value::String(text) if can_wrap && text.trim_start().starts_with('{') => {
                let Ok(value) = serde_json::from_str(&text) else { return Some(not_an_event("a text")) };
                self.add(vec![value], is_deleted, depth + 1);
                return None;
            }
            other => return Some(not_an_event(described(&other))),
        };
        if let Some(items) = items(&mut object) {
            match items {
                Value::Array(items) if can_wrap => {
                    self.add(items, is_deleted, depth + 1);
                    return None;
                }
                // Go's encoder may write an empty list as `null`.
                Value::Null => return None,
                _ => return Some(not_an_event("a list without items")),
            }
        }
        // A bookmark contains only a resource version.
        if text_of(&object, "type") == "BOOKMARK" && object.contains_key("object") {
            return None;
        }
        if let Some(inner) = wrapped(&mut object).filter(|_| can_wrap) {
            self.add(vec![inner], is_deleted || says_deleted(&object), depth + 1);
            return None;
        }
        Some(event(object, is_deleted))
    }
}

fn event(mut object: Map<String, Value>, is_deleted: bool) -> Found {
    if let Some(what) = something_else(&object) {
        return not_an_event(&what);
    }
    mend(&mut object);
    match serde_json::from_value::<Event>(Value::Object(object)) {
        Ok(event) if is_one(&event) => Ok((event, is_deleted)),
        Ok(_) => not_an_event("a document without 'involvedObject' and 'reason'"),
        Err(error) => Err((Kind::Invalid, format!("not an event: {error}"))),
    }
}

fn value(json: Cow<'_, str>) -> Result<Value, String> {
    serde_json::from_str(&json).or_else(|_| {
        let json = without_halves(json.into_owned());
        // The reader adds the document's line number to the message.
        serde_json::from_str(&json).map_err(|error| format!("not JSON: {error}"))
    })
}

/// Returns whether the document has enough of an event's fields to count as an event.
fn is_one(event: &Event) -> bool {
    let object = &event.involved_object;
    let says_so = event.kind() == "Event" && !event.api_version().is_empty();
    says_so || !event.reason.is_empty() || !object.kind.is_empty() || !object.name.is_empty()
}

fn not_an_event(what: &str) -> Found {
    Err((Kind::NotAnEvent, format!("{what}, not an Event")))
}

fn described(value: &Value) -> &'static str {
    match value {
        Value::Null => "a null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a text",
        Value::Array(_) => "an array",
        Value::Object(_) => "an object",
    }
}

fn text_of<'a>(object: &'a Map<String, Value>, key: &str) -> &'a str {
    object.get(key).and_then(Value::as_str).unwrap_or_default()
}

/// Removes and returns the items of a list. Returns `None` if the document is not a list.
fn items(object: &mut Map<String, Value>) -> Option<Value> {
    let kind = text_of(object, "kind");
    let is_list =
        kind.ends_with("List") || kind.is_empty() && object.get("items").is_some_and(Value::is_array);
    is_list.then(|| object.remove("items").unwrap_or_default())
}

/// Returns whether an envelope reports a deletion. Watches and exporters indicate a deletion with
/// `DELETED`, and audit records with the request's verb.
fn says_deleted(object: &Map<String, Value>) -> bool {
    let verbs = ["DELETED", "delete", "deletecollection"];
    ["type", "verb"]
        .iter()
        .any(|key| verbs.iter().any(|verb| text_of(object, key).eq_ignore_ascii_case(verb)))
}

/// Removes and returns the content of an envelope. Returns `None` if the document is not an
/// envelope.
fn wrapped(object: &mut Map<String, Value>) -> Option<Value> {
    let is_audit = text_of(object, "apiVersion").starts_with("audit.k8s.io/");
    let is_event = object.contains_key("involvedObject") || object.contains_key("regarding");
    if !is_audit && (is_event || !text_of(object, "kind").is_empty()) {
        return None;
    }
    let wrapper = WRAPPERS.iter().find(|key| match object.get(**key) {
        Some(Value::Object(_)) => true,
        Some(Value::String(text)) => text.trim_start().starts_with('{'),
        _ => false,
    })?;
    object.remove(*wrapper)
}

/// Describes the document if it is an audit record or has a kind other than `Event`. Returns `None`
/// for any other document.
fn something_else(object: &Map<String, Value>) -> Option<String> {
    if text_of(object, "apiVersion").starts_with("audit.k8s.io/") {
        return Some("an audit record without a response".to_owned());
    }
    match text_of(object, "kind") {
        "" | "Event" => None,
        "Status" => Some(format!("a Status ({:.100})", escape(text_of(object, "message")))),
        kind => Some(format!("a {:.64}", escape(kind))),
    }
}

/// Normalises values that log pipelines may have changed. These values are integers written as
/// `2.0` and unset times written as `{}`.
fn mend(object: &mut Map<String, Value>) {
    for (key, value) in object {
        match key.as_str() {
            "count" | "deprecatedCount" => mend_count(value),
            "series" | "metadata" => {
                if let Value::Object(inner) = value {
                    mend(inner);
                }
            }
            key if is_time(key) && value.as_object().is_some_and(Map::is_empty) => *value = Value::Null,
            _ => {}
        }
    }
}

fn is_time(key: &str) -> bool {
    key.ends_with("Timestamp") || matches!(key, "eventTime" | "lastObservedTime")
}

#[allow(clippy::cast_possible_truncation, reason = "only a number that stays the same is taken")]
fn mend_count(value: &mut Value) {
    let number = value.as_f64().filter(|_| value.is_f64());
    let is_whole = |number: &f64| number.fract() == 0.0 && number.abs() <= f64::from(i32::MAX);
    if let Some(number) = number.filter(is_whole) {
        *value = Value::from(number as i64);
    }
}
