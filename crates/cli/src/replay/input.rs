//! Events as they come out of a cluster: a list or lines, in any order, some of them unreadable.

use std::io::{BufRead, Read as _};

use eventcast::escape::escape_to;
use eventcast::{Event, Timestamp};
use serde_json::Value;

use crate::support::lines::{BadLine, Lines, json_error};

/// The number of problems that are shown one by one, and the length of each in characters.
pub(crate) const SHOWN: usize = 5;
const LENGTH: usize = 200;
/// The largest list, in bytes, because a list is read as a whole.
const MAX_LIST: u64 = 1 << 30;
/// The largest number of events that counts may be expanded to.
const MAX_EVENTS: usize = 5_000_000;

#[derive(Default)]
pub(crate) struct Input {
    /// The events, in the order of their times.
    pub(crate) events: Vec<(Timestamp, Event)>,
    pub(crate) problems: Vec<String>,
    pub(crate) unreadable: usize,
    /// The sum of the counts of the events, before they were set to 1.
    pub(crate) occurrences: u64,
    pub(crate) is_expanded: bool,
}

/// Reads all events. Fails if the input as a whole cannot be used. Problems with single events are
/// in the result. `source` names the input in an error.
pub(crate) fn read(mut reader: impl BufRead, source: &str, is_expanded: bool) -> Result<Input, String> {
    let mut input = Input { is_expanded, ..Input::default() };
    let cannot = |error: std::io::Error| format!("cannot read {source}: {error}");
    let mut lines = Lines::new(&mut reader);
    let mut first = lines.next().map_err(cannot)?;
    // Skip blank lines before the first one.
    while first.as_ref().is_some_and(|(_, line)| line.as_ref().is_ok_and(|line| line.trim().is_empty())) {
        first = lines.next().map_err(cannot)?;
    }
    let Some((number, line)) = first else { return Ok(input) };
    let starts_list = line.as_ref().is_ok_and(|line| is_incomplete(line));
    if starts_list {
        // A document over many lines.
        let mut text = line.unwrap_or_default().into_bytes();
        text.push(b'\n');
        let len = reader.by_ref().take(MAX_LIST + 1).read_to_end(&mut text).map_err(cannot)?;
        if len as u64 > MAX_LIST {
            return Err(format!(
                "cannot read a list of more than {} MiB: give its events line by line",
                MAX_LIST >> 20
            ));
        }
        // A byte that is not UTF-8 spoils only its own character.
        let text = String::from_utf8(text)
            .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned());
        let value =
            serde_json::from_str(&without_halves(text)).map_err(|error| format!("not JSON: {error}"))?;
        input.add_document("the document", value)?;
    } else {
        let mut next = Some((number, line));
        while let Some((number, line)) = next {
            match line {
                Ok(line) if line.trim().is_empty() => {}
                Ok(line) => match serde_json::from_str(&without_halves(line)) {
                    Ok(value) => input.add_document(&format!("line {number}"), value)?,
                    Err(error) => {
                        input
                            .problem(&format!("line {number}"), &format!("not JSON: {}", json_error(&error)));
                    }
                },
                Err(BadLine::TooLong) => input.problem(
                    &format!("line {number}"),
                    &format!("{}: break the list into lines, as with 'jq .'", BadLine::TooLong),
                ),
                Err(error) => input.problem(&format!("line {number}"), &error.to_string()),
            }
            next = lines.next().map_err(cannot)?;
        }
    }
    // The sort is stable: events of one moment stay in their order.
    input.events.sort_by_key(|(at, _)| *at);
    Ok(input)
}

/// Returns whether the line is the beginning of JSON that goes on in the next line.
fn is_incomplete(line: &str) -> bool {
    serde_json::from_str::<serde::de::IgnoredAny>(line).is_err_and(|error| error.is_eof())
}

/// Returns the same JSON with U+FFFD for each escaped half of a surrogate pair, as Go's decoder
/// reads it. Such a half is not a character, and with it nothing of the whole document could be
/// read.
fn without_halves(json: String) -> String {
    let unit = |escape: &[u8]| -> Option<u16> {
        let digits = escape.strip_prefix(b"\\u")?.get(..4)?;
        u16::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()
    };
    let mut bytes = json.into_bytes();
    let mut at = 0;
    while let Some(next) = bytes.get(at..).and_then(|rest| rest.iter().position(|byte| *byte == b'\\')) {
        at += next;
        let second = || unit(bytes.get(at + 6..).unwrap_or_default());
        at += match unit(&bytes[at..]) {
            Some(0xD800..=0xDBFF) if matches!(second(), Some(0xDC00..=0xDFFF)) => 12,
            Some(0xD800..=0xDFFF) => {
                bytes[at + 2..at + 6].copy_from_slice(b"fffd");
                6
            }
            // Two bytes, so that a backslash that is escaped does not begin another escape.
            _ => 2,
        };
    }
    // The bytes are still UTF-8: digits have become digits.
    String::from_utf8(bytes).unwrap_or_default()
}

impl Input {
    /// Adds a list of events, or one event.
    fn add_document(&mut self, place: &str, mut value: Value) -> Result<(), String> {
        let kind = value["kind"].as_str();
        let is_named_list = kind.is_some_and(|kind| kind.ends_with("List"));
        let is_list = kind.is_none() || is_named_list;
        match value.get_mut("items").filter(|_| is_list).map(Value::take) {
            Some(Value::Array(items)) => {
                for (index, item) in items.into_iter().enumerate() {
                    self.add(&format!("{place}, item {}", index + 1), item)?;
                }
                Ok(())
            }
            // Go writes an empty list so.
            Some(Value::Null) if is_named_list => Ok(()),
            _ => self.add(place, value),
        }
    }

    fn add(&mut self, place: &str, value: Value) -> Result<(), String> {
        let kind = value["kind"].as_str().unwrap_or("Event");
        if kind != "Event" {
            self.problem(place, &format!("a {kind}, not an Event"));
            return Ok(());
        }
        let says_so = value["kind"] == "Event" && value["apiVersion"].is_string();
        let event: Event = match serde_json::from_value(value) {
            Ok(event) => event,
            Err(error) => {
                self.problem(place, &format!("not an event: {error}"));
                return Ok(());
            }
        };
        if !says_so
            && event.reason.is_empty()
            && event.involved_object.kind.is_empty()
            && event.involved_object.name.is_empty()
        {
            self.problem(place, "not an event: it has neither an object nor a reason");
            return Ok(());
        }
        // The store's own time is the last resort: it is the time of the first write.
        let Some(last) = event.last_seen().or(event.metadata.creation_timestamp()) else {
            self.problem(place, "an event without a time");
            return Ok(());
        };
        self.occur(event, last)
    }

    /// Adds an event as often as it is to be replayed.
    fn occur(&mut self, mut event: Event, last: Timestamp) -> Result<(), String> {
        let count = event.series().map_or(event.count, |series| series.count).max(1).unsigned_abs();
        self.occurrences += u64::from(count);
        event.count = 1;
        event.set_series(None);
        let times = if self.is_expanded { count } else { 1 };
        if self.events.len() + times as usize > MAX_EVENTS {
            return Err(format!(
                "cannot expand: the counts add up to more than {MAX_EVENTS} events: replay a part, or \
                 leave --expand out"
            ));
        }
        let first = event.first_timestamp.or(event.event_time()).unwrap_or(last).min(last);
        let span = last.duration_since(first);
        for i in 1..times {
            // The last one is at the last time exactly.
            let at = last.saturating_sub(span / (times - 1) * (times - i));
            self.events.push((at, at_time(event.clone(), at)));
        }
        self.events.push((last, at_time(event, last)));
        Ok(())
    }

    fn problem(&mut self, place: &str, problem: &str) {
        self.unreadable += 1;
        if self.problems.len() < SHOWN {
            self.problems.push(format!("{place}: {}", escape_to(problem, LENGTH)));
        }
    }
}

fn at_time(mut event: Event, at: Timestamp) -> Event {
    event.first_timestamp = Some(at);
    event.last_timestamp = Some(at);
    event
}
