//! Extracts the events from one document: a plain event, a list, or an envelope.

use std::borrow::Cow;

use serde_json::{Map, Value};

use super::error::EventReadErrorKind as Kind;
use super::halves::without_halves;
use crate::escape::escape_to;
use crate::record::event::core_v1::Event;

/// The maximum number of nested envelopes.
const MAX_WRAPPERS: usize = 8;
/// The members in which envelopes hold an event. Audit records use `responseObject`.
const WRAPPERS: [&str; 4] = ["object", "event", "body", "responseObject"];

/// An event and whether the envelope reports its deletion, or what the document is instead.
pub(super) type Found = Result<(Event, bool), (Kind, String)>;

/// Calls `found` for each event in a document, and for anything else in it.
pub(super) fn read(json: &[u8], mut found: impl FnMut(Found)) {
    let json = String::from_utf8_lossy(json);
    // Most documents are plain events, so the slower path only runs if this fails.
    if let Ok(event) = Event::from_json(&json)
        && is_one(&event)
    {
        return found(Ok((event, false)));
    }
    match value(json) {
        Ok(value) => unwrap(value, false, MAX_WRAPPERS, &mut found),
        Err(error) => found(Err((Kind::Malformed, error))),
    }
}

fn value(json: Cow<'_, str>) -> Result<Value, String> {
    serde_json::from_str(&json).or_else(|_| {
        let json = without_halves(json.into_owned());
        // The reader adds the line number of the document.
        serde_json::from_str(&json).map_err(|error| format!("not JSON: {error}"))
    })
}

/// Returns whether the document has enough fields of an event to be one.
fn is_one(event: &Event) -> bool {
    let object = &event.involved_object;
    let says_so = event.kind() == "Event" && !event.api_version().is_empty();
    says_so || !event.reason.is_empty() || !object.kind.is_empty() || !object.name.is_empty()
}

fn unwrap(value: Value, is_deleted: bool, wrappers: usize, found: &mut dyn FnMut(Found)) {
    let mut object = match value {
        Value::Object(object) => object,
        // Logs often contain the event as a string.
        Value::String(text) if wrappers > 0 && text.trim_start().starts_with('{') => {
            return match serde_json::from_str(&text) {
                Ok(value) => unwrap(value, is_deleted, wrappers - 1, found),
                Err(_) => found(not_an_event("a text")),
            };
        }
        other => return found(not_an_event(&described(&other))),
    };
    if let Some(items) = items(&mut object) {
        return match items {
            Value::Array(items) if wrappers > 0 => {
                for item in items {
                    unwrap(item, is_deleted, wrappers - 1, found);
                }
            }
            // Go encodes an empty list like this.
            Value::Null => {}
            _ => found(not_an_event("a list without items")),
        };
    }
    let is_deleted = is_deleted || says_deleted(&object);
    if let Some(inner) = wrapped(&mut object).filter(|_| wrappers > 0) {
        return unwrap(inner, is_deleted, wrappers - 1, found);
    }
    if let Some(what) = something_else(&object) {
        return found(not_an_event(&what));
    }
    mend(&mut object);
    let event = serde_json::from_value::<Event>(Value::Object(object));
    found(match event {
        Ok(event) if is_one(&event) => Ok((event, is_deleted)),
        Ok(_) => not_an_event("a document without 'involvedObject' and 'reason'"),
        Err(error) => Err((Kind::Invalid, format!("not an event: {error}"))),
    });
}

fn not_an_event(what: &str) -> Found {
    Err((Kind::NotAnEvent, format!("{what}, not an Event")))
}

fn described(value: &Value) -> String {
    match value {
        Value::Null => "a null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a text",
        Value::Array(_) => "an array",
        Value::Object(_) => "an object",
    }
    .to_owned()
}

fn text_of<'a>(object: &'a Map<String, Value>, key: &str) -> &'a str {
    object.get(key).and_then(Value::as_str).unwrap_or_default()
}

/// Takes the items of a list.
fn items(object: &mut Map<String, Value>) -> Option<Value> {
    let kind = text_of(object, "kind");
    let is_list =
        kind.ends_with("List") || kind.is_empty() && object.get("items").is_some_and(Value::is_array);
    is_list.then(|| object.remove("items").unwrap_or_default())
}

/// Returns whether an envelope reports a deletion: `DELETED` in watches and exporters, the verb of
/// the request in audit records.
fn says_deleted(object: &Map<String, Value>) -> bool {
    let verbs = ["DELETED", "delete", "deletecollection"];
    ["type", "verb"]
        .iter()
        .any(|key| verbs.iter().any(|verb| text_of(object, key).eq_ignore_ascii_case(verb)))
}

/// Takes the content of an envelope. Returns `None` for a document that is not an envelope.
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

/// Describes a document whose kind is not an event.
fn something_else(object: &Map<String, Value>) -> Option<String> {
    if text_of(object, "apiVersion").starts_with("audit.k8s.io/") {
        return Some("an audit record without a response".to_owned());
    }
    match text_of(object, "kind") {
        "" | "Event" => None,
        "Status" => Some(format!("a Status ({})", escape_to(text_of(object, "message"), 100))),
        kind => Some(format!("a {}", escape_to(kind, 64))),
    }
}

/// Normalizes values that log pipelines change: integers written as `2.0`, and unset times written
/// as `{}`.
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
    if value.is_f64()
        && let Some(number) = value.as_f64()
        && number.fract() == 0.0
        && number.abs() <= f64::from(i32::MAX)
    {
        *value = Value::from(number as i64);
    }
}
