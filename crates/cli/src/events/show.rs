//! Prints the events in a store once, without waiting for new events.

use std::error::Error;
use std::io::{self, BufWriter, StdoutLock, Write as _};

use eventcast::Event;
use eventcast::sink::EventQuery;
use eventcast_sqlite::SqliteSink;

use super::args::{DescribeArgs, Form, GetArgs};
use crate::support::color::ColorArgs;
use crate::support::event_table::{event_table, stdout_width};
use crate::support::output::{complain, say};
use crate::support::store::expired_events;
use crate::support::text::harmless_json;

/// The number of events in a page. The first page determines the table's column widths.
const PART: usize = 1000;

pub(crate) fn get(store: &SqliteSink, args: &GetArgs) -> Result<(), Box<dyn Error>> {
    let query = args.limit.into_iter().fold(args.filter.query(), EventQuery::last);
    let is_empty = match args.form.form {
        Form::Json => list(store, &query)?,
        Form::Table => table(store, &query, args.form.color)?,
    };
    if !is_empty {
        return Ok(());
    }
    let expired = expired(store)?;
    // An empty list is a valid result, but expired events explain why the list is empty, so mention
    // them.
    if args.form.form == Form::Table || !expired.is_empty() {
        complain(&format!("eventcast: no events found{expired}"));
    }
    if let Some(hint) = args.filter.hint() {
        complain(&format!("eventcast: {hint}"));
    }
    Ok(())
}

pub(crate) fn describe(store: &SqliteSink, args: &DescribeArgs) -> Result<(), Box<dyn Error>> {
    let object = args.object.clone().in_namespace(args.namespace.clone().unwrap_or_default());
    let events = store.find(&EventQuery::default().object(object))?;
    // The `describe` command does not truncate messages, so that at least one command shows them in
    // full.
    say(&event_table(args.color).describe(&events))?;
    let expired = expired(store)?;
    if events.is_empty() && !expired.is_empty() {
        complain(&format!("eventcast: no events found{expired}"));
    }
    Ok(())
}

/// Returns the number of expired events in the store, as a parenthesized suffix with a leading
/// space. Returns an empty string if no events have expired.
fn expired(store: &SqliteSink) -> Result<String, Box<dyn Error>> {
    let count = store.stats()?.expired;
    Ok(if count == 0 { String::new() } else { format!(" ({})", expired_events(count)) })
}

/// Prints the table. Returns whether no events matched.
fn table(store: &SqliteSink, query: &EventQuery, color: ColorArgs) -> Result<bool, Box<dyn Error>> {
    let mut out = Out::new();
    let table = event_table(color).width(stdout_width());
    let mut table = table.namespaces(has_several_namespaces(store, query)?);
    let mut events = store.stream(query)?;
    let mut is_empty = true;
    loop {
        let part: Vec<Event> = events.by_ref().take(PART).collect::<Result<_, _>>()?;
        if part.is_empty() {
            break;
        }
        is_empty = false;
        if !out.write(&table.rows(&part))? {
            return Ok(false);
        }
    }
    out.flush()?;
    Ok(is_empty)
}

/// Returns whether the table needs a namespace column. Stops reading when it finds a second
/// namespace.
fn has_several_namespaces(store: &SqliteSink, query: &EventQuery) -> Result<bool, Box<dyn Error>> {
    let mut first = None;
    for event in store.stream(query)? {
        let namespace = event?.metadata.namespace;
        if *first.get_or_insert_with(|| namespace.clone()) != namespace {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Prints a core/v1 `EventList` with one event per line. Returns whether no events matched.
fn list(store: &SqliteSink, query: &EventQuery) -> Result<bool, Box<dyn Error>> {
    let mut out = Out::new();
    let mut before = "{\"kind\":\"EventList\",\"apiVersion\":\"v1\",\"metadata\":{},\"items\":[\n";
    for event in store.stream(query)? {
        if !out.write(before)? || !out.write(&harmless_json(&event?.to_json()))? {
            return Ok(false);
        }
        before = ",\n";
    }
    let is_empty = before != ",\n";
    if is_empty && !out.write(before)? {
        return Ok(true);
    }
    out.write("\n]}\n")?;
    out.flush()?;
    Ok(is_empty)
}

/// A buffered writer to stdout that reports when the reader has closed the pipe.
struct Out(BufWriter<StdoutLock<'static>>);

impl Out {
    fn new() -> Self {
        Self(BufWriter::new(io::stdout().lock()))
    }

    /// Writes the text. Returns whether stdout still has a reader.
    fn write(&mut self, text: &str) -> Result<bool, Box<dyn Error>> {
        is_read(self.0.write_all(text.as_bytes()))
    }

    fn flush(&mut self) -> Result<(), Box<dyn Error>> {
        is_read(self.0.flush()).map(|_| ())
    }
}

/// Returns whether the output still has a reader. If the reader has closed the pipe, as in
/// `| head`, this is not treated as a failure.
pub(crate) fn is_read(written: io::Result<()>) -> Result<bool, Box<dyn Error>> {
    match written {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(false),
        Err(error) => Err(format!("cannot write to stdout: {error}").into()),
    }
}
