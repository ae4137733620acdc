//! `EventReader`: events from the output of other programs.

mod damage;
mod forms;

use eventcast::event::{EventReadErrorKind, EventReader};

/// Returns an event with this name as single-line JSON.
fn event(name: &str) -> String {
    format!(
        r#"{{"kind":"Event","apiVersion":"v1","metadata":{{"name":"{name}"}},"reason":"Started","message":"a \"{{[\" b"}}"#
    )
}

fn pretty(json: &str) -> String {
    serde_json::to_string_pretty(&serde_json::from_str::<serde_json::Value>(json).unwrap()).unwrap()
}

/// The result of reading an input: the names of the events, and the kind and line of each error.
#[derive(Debug, Default, PartialEq)]
struct Seen {
    names: Vec<String>,
    errors: Vec<(EventReadErrorKind, u64)>,
}

fn read(input: impl AsRef<[u8]>) -> Seen {
    let mut seen = Seen::default();
    for found in EventReader::new(input.as_ref()) {
        match found {
            Ok(read) => seen.names.push(read.event.metadata.name.to_string()),
            Err(error) => seen.errors.push((error.kind(), error.line())),
        }
    }
    seen
}

/// Returns the names of the events in an input that must contain nothing else.
fn names(input: impl AsRef<[u8]>) -> Vec<String> {
    let input = input.as_ref();
    let seen = read(input);
    assert_eq!(seen.errors, [], "{}", String::from_utf8_lossy(input));
    seen.names
}
