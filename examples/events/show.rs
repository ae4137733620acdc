//! What is in the store, printed once.

use std::error::Error;
use std::fmt::Write as _;

use eventcast::{Event, EventQuery, ObjectReference, SqliteSink};

use super::args::Form;
use super::support::output::{complain, say};
use super::support::text::obeyed;

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

/// An event as JSON, on one line. JSON itself lets some characters stand that a terminal obeys; written as `\\uXXXX` they
/// are the same to every program that reads it.
pub(crate) fn json(event: &Event) -> String {
    let mut shown = String::new();
    for c in event.to_json().chars() {
        // They only occur within strings, and none needs two units of UTF-16.
        if obeyed(c) {
            // A string takes everything.
            let _ = write!(shown, "\\u{:04x}", u32::from(c));
        } else {
            shown.push(c);
        }
    }
    shown
}

/// A core/v1 `EventList`, an event on each line.
fn list(events: &[Event]) -> String {
    let items: Vec<String> = events.iter().map(json).collect();
    let items = items.join(",\n");
    format!("{{\"kind\":\"EventList\",\"apiVersion\":\"v1\",\"metadata\":{{}},\"items\":[\n{items}\n]}}\n")
}
