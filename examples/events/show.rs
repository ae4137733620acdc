//! What is in the store, printed once.

use std::error::Error;

use eventcast::{Event, EventQuery, ObjectReference, SqliteSink};

use super::args::Form;
use super::support::output::{complain, say};
use super::support::text::harmless_json;

pub(crate) fn get(store: &SqliteSink, query: &EventQuery, form: Form) -> Result<(), Box<dyn Error>> {
    let events = store.find(query)?;
    match form {
        Form::Json => say(&list(&events)),
        Form::Table if events.is_empty() => {
            complain("events: none found");
            Ok(())
        }
        Form::Table => say(&store.table_of(query)?),
    }
}

pub(crate) fn describe(store: &SqliteSink, object: &ObjectReference) -> Result<(), Box<dyn Error>> {
    say(&store.describe(object)?)
}

/// A core/v1 `EventList`, an event on each line.
fn list(events: &[Event]) -> String {
    let items: Vec<String> = events.iter().map(|event| harmless_json(&event.to_json())).collect();
    let items = items.join(",\n");
    format!("{{\"kind\":\"EventList\",\"apiVersion\":\"v1\",\"metadata\":{{}},\"items\":[\n{items}\n]}}\n")
}
