//! Writing JSON as Go's encoder does, straight into a string.
//!
//! `wire` defines an event's document, and this module writes the same document. Every event that
//! is stored passes here, and a general serializer takes several times as long.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::core_v1::{Event, EventSeries};
use super::metadata::ObjectMeta;
use super::reference::{EventSource, ObjectReference};
use super::text::Text;
use super::timestamp::Timestamp;

/// Appends an event.
pub(super) fn push_event(out: &mut String, event: &Event) {
    let mut object = Object::open(out);
    object.text("kind", event.kind());
    object.text("apiVersion", event.api_version());
    push_metadata(object.value("metadata"), &event.metadata);
    push_reference(object.value("involvedObject"), &event.involved_object);
    object.text("reason", &event.reason);
    object.text("message", &event.message);
    push_source(object.value("source"), &event.source);
    object.time("firstTimestamp", event.first_timestamp, 0);
    object.time("lastTimestamp", event.last_timestamp, 0);
    object.number("count", event.count);
    object.text("type", &event.type_);
    object.time("eventTime", event.event_time(), 6);
    if let Some(series) = event.series() {
        push_series(object.value("series"), series);
    }
    object.text("action", event.action());
    if let Some(related) = event.related() {
        push_reference(object.value("related"), related);
    }
    push_text(object.value("reportingComponent"), &event.reporting_controller);
    push_text(object.value("reportingInstance"), &event.reporting_instance);
    object.close();
}

fn push_metadata(out: &mut String, metadata: &ObjectMeta) {
    let mut object = Object::open(out);
    object.text("name", &metadata.name);
    object.text("generateName", metadata.generate_name());
    object.text("namespace", &metadata.namespace);
    object.text("selfLink", metadata.self_link());
    object.text("uid", metadata.uid());
    object.text("resourceVersion", metadata.resource_version());
    if let Some(at) = metadata.creation_timestamp().filter(|at| *at != Timestamp::GO_ZERO) {
        object.time("creationTimestamp", Some(at), 0);
    }
    object.texts("labels", metadata.labels());
    object.texts("annotations", metadata.annotations());
    object.close();
}

fn push_reference(out: &mut String, reference: &ObjectReference) {
    let mut object = Object::open(out);
    object.text("kind", &reference.kind);
    object.text("namespace", &reference.namespace);
    object.text("name", &reference.name);
    object.text("uid", &reference.uid);
    object.text("apiVersion", &reference.api_version);
    object.text("resourceVersion", &reference.resource_version);
    object.text("fieldPath", &reference.field_path);
    object.close();
}

fn push_source(out: &mut String, source: &EventSource) {
    let mut object = Object::open(out);
    object.text("component", &source.component);
    object.text("host", &source.host);
    object.close();
}

fn push_series(out: &mut String, series: EventSeries) {
    let mut object = Object::open(out);
    object.number("count", series.count);
    object.time("lastObservedTime", series.last_observed_time, 6);
    object.close();
}

/// An object that is being written. Empty and zero values are left out, as Go's `omitempty` does.
pub(super) struct Object<'a> {
    out: &'a mut String,
    before: char,
}

impl<'a> Object<'a> {
    pub(super) fn open(out: &'a mut String) -> Self {
        Self { out, before: '{' }
    }

    pub(super) fn close(self) {
        self.out.push_str(if self.before == '{' { "{}" } else { "}" });
    }

    /// Writes a name, and returns the string to which the caller appends the value. The name must
    /// not need escapes.
    pub(super) fn value(&mut self, name: &str) -> &mut String {
        self.out.push(self.before);
        self.before = ',';
        self.out.push('"');
        self.out.push_str(name);
        self.out.push_str("\":");
        self.out
    }

    pub(super) fn text(&mut self, name: &str, text: &str) {
        if !text.is_empty() {
            push_text(self.value(name), text);
        }
    }

    pub(super) fn number(&mut self, name: &str, number: i32) {
        if number != 0 {
            push_number(self.value(name), number);
        }
    }

    /// Writes a time with `digits` digits of the second's fraction. Writes `null` if there is no
    /// time, or if Go takes the time for none.
    pub(super) fn time(&mut self, name: &str, at: Option<Timestamp>, digits: usize) {
        let out = self.value(name);
        match at.filter(|at| *at != Timestamp::GO_ZERO) {
            None => out.push_str("null"),
            Some(at) => {
                out.push('"');
                at.push_to(out, digits);
                out.push('"');
            }
        }
    }

    fn texts(&mut self, name: &str, texts: &BTreeMap<Text, Text>) {
        if texts.is_empty() {
            return;
        }
        let out = self.value(name);
        let mut before = '{';
        for (key, text) in texts {
            out.push(before);
            before = ',';
            push_text(out, key);
            out.push(':');
            push_text(out, text);
        }
        out.push('}');
    }
}

fn push_number(out: &mut String, number: i32) {
    let mut digits = [0; 10];
    let mut rest = number.unsigned_abs();
    let mut len = 0;
    for digit in digits.iter_mut().rev() {
        *digit = b'0' + (rest % 10) as u8;
        rest /= 10;
        len += 1;
        if rest == 0 {
            break;
        }
    }
    if number < 0 {
        out.push('-');
    }
    // The default is never used: digits are valid UTF-8.
    out.push_str(std::str::from_utf8(&digits[digits.len() - len..]).unwrap_or_default());
}

/// Appends a text in quotes, with the escapes of JSON and those that make the text safe inside HTML
/// and JavaScript. Go writes all of these by default.
pub(super) fn push_text(out: &mut String, text: &str) {
    out.push('"');
    let mut rest = text;
    loop {
        let (clean, tail) = rest.split_at(clean_len(rest.as_bytes()));
        out.push_str(clean);
        let mut chars = tail.chars();
        let Some(c) = chars.next() else { break };
        push_escaped(out, c);
        rest = chars.as_str();
    }
    out.push('"');
}

fn push_escaped(out: &mut String, c: char) {
    let short = match c {
        '"' => "\\\"",
        '\\' => "\\\\",
        '\n' => "\\n",
        '\r' => "\\r",
        '\t' => "\\t",
        '\u{8}' => "\\b",
        '\u{c}' => "\\f",
        '\0'..='\u{1f}' | '<' | '>' | '&' | '\u{2028}' | '\u{2029}' => {
            let _ = write!(out, "\\u{:04x}", u32::from(c));
            return;
        }
        c => return out.push(c),
    };
    out.push_str(short);
}

/// Returns the number of bytes before the first byte that may need an escape. Such a byte always
/// begins a character.
fn clean_len(bytes: &[u8]) -> usize {
    /// The bytes of one test: enough for the compiler to look at many bytes in one instruction.
    const CHUNK: usize = 64;
    let is_clean =
        |chunk: &[u8; CHUNK]| !chunk.iter().fold(false, |found, byte| found | may_need_escape(*byte));
    let mut rest = bytes;
    while let Some((_, after)) = rest.split_first_chunk().filter(|(chunk, _)| is_clean(chunk)) {
        rest = after;
    }
    let in_rest = rest.iter().position(|byte| MAY_NEED_ESCAPE[usize::from(*byte)]).unwrap_or(rest.len());
    bytes.len() - rest.len() + in_rest
}

/// Returns whether a character that begins with this byte may need an escape. 0xE2 begins U+2028
/// and U+2029, and many other characters.
#[allow(clippy::needless_bitwise_bool, reason = "without branches the compiler looks at many bytes at once")]
const fn may_need_escape(byte: u8) -> bool {
    (byte < b' ')
        | (byte == b'"')
        | (byte == b'\\')
        | (byte == b'<')
        | (byte == b'>')
        | (byte == b'&')
        | (byte == 0xE2)
}

/// The results of `may_need_escape`, for bytes one by one.
static MAY_NEED_ESCAPE: [bool; 256] = {
    let mut table = [false; 256];
    let mut byte = 0;
    while byte < 256 {
        table[byte] = may_need_escape(byte as u8);
        byte += 1;
    }
    table
};
