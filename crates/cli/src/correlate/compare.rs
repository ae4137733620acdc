//! Compares the correlator's decisions with the expected decisions and reports the differences.

use std::fmt;

use eventcast::escape::escape;
use serde_json::{Map, Value};

use super::vectors::Answer;
use crate::support::text::plain;

/// The maximum number of differences to show, and the maximum length of each value in characters.
const SHOWN: usize = 10;
const LENGTH: usize = 200;

#[derive(Default)]
pub(crate) struct Comparison {
    events: usize,
    different: usize,
    shown: Vec<String>,
}

impl Comparison {
    pub(crate) fn add(&mut self, line: usize, expected: &Value, answer: &Answer) {
        let got: Value = serde_json::from_str(&answer.to_json()).unwrap_or_default();
        let (expected, got) = (comparable(expected), comparable(&got));
        let mut found = Vec::new();
        differences("", &expected, &got, &mut found);
        self.events += 1;
        self.different += usize::from(!found.is_empty());
        let room = SHOWN.saturating_sub(self.shown.len());
        self.shown.extend(found.into_iter().take(room).map(|text| format!("line {line}: {text}")));
    }

    pub(crate) fn is_equal(&self) -> bool {
        self.different == 0
    }
}

impl fmt::Display for Comparison {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for line in &self.shown {
            writeln!(f, "{line}")?;
        }
        writeln!(f, "{} events, {} of them differ", self.events, self.different)
    }
}

/// Returns the decision without the fields that may differ between the expected and the actual
/// decision. In an event, absent, null, empty and zero values are equivalent. In an aggregate
/// event, the fields that client-go does not keep are ignored.
fn comparable(answer: &Value) -> Value {
    let mut answer = answer.clone();
    if let Some(event) = answer.get_mut("event") {
        let is_combined = event["message"]
            .as_str()
            .is_some_and(|message| message.starts_with("(combined from similar events)"));
        if let Some(metadata) = event.get_mut("metadata").and_then(Value::as_object_mut) {
            metadata.remove("creationTimestamp");
            if is_combined {
                metadata.remove("resourceVersion");
            }
        }
        strip(event);
    }
    answer
}

fn strip(value: &mut Value) {
    if let Value::Object(fields) = value {
        fields.values_mut().for_each(strip);
        fields.retain(|_, value| !is_nothing(value));
    }
}

fn is_nothing(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::Object(fields) => fields.is_empty(),
        _ => false,
    }
}

fn differences(path: &str, expected: &Value, got: &Value, found: &mut Vec<String>) {
    if let (Value::Object(expected), Value::Object(got)) = (expected, got) {
        let mut names: Vec<&String> = expected.keys().chain(got.keys()).collect();
        names.sort_unstable();
        names.dedup();
        let field = |fields: &Map<String, Value>, name| fields.get(name).cloned().unwrap_or_default();
        for name in names {
            let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
            differences(&path, &field(expected, name), &field(got, name), found);
        }
    } else if expected != got {
        found.push(format!("{}: expected {}, got {}", plain(path), shown(expected), shown(got)));
    }
}

fn shown(value: &Value) -> String {
    format!("{:.LENGTH$}", escape(&value.to_string()))
}
