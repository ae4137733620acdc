//! The events.k8s.io/v1 API, which serves the same events with different field names and stricter
//! checks.

use axum::http::Method;
use serde_json::{Value, json};

use super::status::{self, Answer};

/// The version of the API.
const VERSION: &str = "events.k8s.io/v1";

/// The fields whose names differ, as pairs of the name in core/v1 and the name in this API.
const NAMES: [(&str, &str); 7] = [
    ("involvedObject", "regarding"),
    ("message", "note"),
    ("reportingComponent", "reportingController"),
    ("source", "deprecatedSource"),
    ("firstTimestamp", "deprecatedFirstTimestamp"),
    ("lastTimestamp", "deprecatedLastTimestamp"),
    ("count", "deprecatedCount"),
];

pub(crate) fn discovery() -> Answer {
    Answer::new(200, json!({"kind": "APIResourceList", "groupVersion": VERSION, "resources": []}))
}

/// Converts a request body to core/v1's field names, or returns the response that refuses the
/// request.
pub(crate) fn to_core(method: &Method, body: &[u8]) -> Result<Vec<u8>, Answer> {
    let Ok(mut event) = serde_json::from_slice::<Value>(body) else { return Ok(body.to_vec()) };
    if let Some(core) = NAMES.iter().find(|(core, _)| !event[core].is_null()) {
        return Err(status::bad_request(&format!("strict decoding error: unknown field \"{}\"", core.0)));
    }
    let is_whole = *method == Method::POST || *method == Method::PUT;
    if is_whole {
        if event["apiVersion"] != VERSION {
            return Err(status::bad_request("no kind Event is registered for this version"));
        }
        event["apiVersion"] = json!("v1");
    }
    for (core, name) in NAMES {
        rename(&mut event, name, core);
    }
    match refused(&event).filter(|_| is_whole) {
        Some(answer) => Err(answer),
        None => Ok(event.to_string().into_bytes()),
    }
}

/// Converts a response that contains an event or a list of events to this API's field names.
pub(crate) fn from_core(mut answer: Answer) -> Answer {
    match answer.body["kind"].as_str() {
        Some("Event") => renamed(&mut answer.body),
        Some("EventList") => {
            answer.body["apiVersion"] = json!(VERSION);
            answer.body["items"].as_array_mut().into_iter().flatten().for_each(renamed);
        }
        _ => {}
    }
    answer
}

fn renamed(event: &mut Value) {
    event["apiVersion"] = json!(VERSION);
    for (core, name) in NAMES {
        rename(event, core, name);
    }
}

fn rename(event: &mut Value, from: &str, to: &str) {
    let Some(fields) = event.as_object_mut() else { return };
    if let Some(value) = fields.remove(from) {
        fields.insert(to.to_owned(), value);
    }
}

/// Returns the refusal if an event violates one of this API's stricter rules, or `None` otherwise.
fn refused(event: &Value) -> Option<Answer> {
    let name = event["metadata"]["name"].as_str().unwrap_or_default();
    let type_ = event["type"].as_str().unwrap_or_default();
    let series = &event["series"];
    let (field, why) = if !event["eventTime"].is_string() {
        ("eventTime", "Required value")
    } else if type_ != "Normal" && type_ != "Warning" {
        ("type", "Invalid value: has invalid value")
    } else if series.is_object() && series["count"].as_i64().unwrap_or_default() < 2 {
        ("series.count", "Invalid value: should be at least 2")
    } else if series.is_object() && !series["lastObservedTime"].is_string() {
        ("series.lastObservedTime", "Required value")
    } else if event["count"].as_i64().unwrap_or_default() != 0 {
        ("count", "Invalid value: needs to be unset")
    } else if event["source"].as_object().is_some_and(|source| !source.is_empty()) {
        ("source", "Invalid value: needs to be unset")
    } else {
        let field = ["firstTimestamp", "lastTimestamp"].into_iter().find(|field| event[field].is_string())?;
        (field, "Invalid value: needs to be unset")
    };
    Some(status::invalid(name, field, why))
}
