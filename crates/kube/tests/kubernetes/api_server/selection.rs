//! Label and field selectors, by which a request selects events from a collection.

use serde_json::Value;

use super::access::decoded;
use super::status::{self, Answer};

/// A request's conditions, all of which an event must meet.
#[derive(Default)]
pub(crate) struct Selection {
    /// Label keys and their values.
    labels: Vec<(String, String)>,
    /// Field names and their values.
    fields: Vec<(String, String)>,
}

impl Selection {
    /// Parses the conditions in a request's query. Only equality is supported, as in `key=value`.
    pub(super) fn of(query: &str) -> Result<Self, Answer> {
        let mut selection = Self::default();
        for (name, value) in query.split('&').filter_map(|option| option.split_once('=')) {
            let conditions = match name {
                "labelSelector" => &mut selection.labels,
                "fieldSelector" => &mut selection.fields,
                _ => continue,
            };
            for condition in decoded(value).split(',').filter(|condition| !condition.is_empty()) {
                let Some((key, value)) = condition.split_once('=') else {
                    return Err(status::bad_request(&format!("unable to parse requirement: {condition}")));
                };
                conditions.push((key.to_owned(), value.to_owned()));
            }
        }
        match selection.fields.iter().find(|(name, _)| field(name, &Value::Null).is_none()) {
            Some((name, _)) => {
                Err(status::bad_request(&format!("field label not supported for Event: {name}")))
            }
            None => Ok(selection),
        }
    }

    /// Returns whether an event that uses core/v1's field names meets all conditions.
    pub(super) fn includes(&self, event: &Value) -> bool {
        let labels = &event["metadata"]["labels"];
        self.labels.iter().all(|(key, value)| labels[key] == value.as_str())
            && self.fields.iter().all(|(name, value)| field(name, event) == Some(value))
    }
}

/// Returns the value of a field by which a server can select events, or `None` if a server does not
/// support selecting by this field.
fn field<'e>(name: &str, event: &'e Value) -> Option<&'e str> {
    let value = match name.split_once('.') {
        Some(("metadata", part @ ("name" | "namespace"))) => &event["metadata"][part],
        Some(("involvedObject" | "regarding", part)) => &event["involvedObject"][part],
        None if ["reason", "type"].contains(&name) => &event[name],
        None if ["reportingComponent", "reportingController"].contains(&name) => &event["reportingComponent"],
        // An event without a source is selected by its controller.
        None if name == "source" => match &event["source"]["component"] {
            Value::Null => &event["reportingComponent"],
            component => component,
        },
        _ => return None,
    };
    Some(value.as_str().unwrap_or_default())
}
