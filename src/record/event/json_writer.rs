//! Writes JSON with the same escapes as Go's encoder. The `wire` module determines what a document
//! contains.

use std::fmt::Write as _;

use serde::Serialize;

/// Serialises a document to JSON on one line, in the format of Go's encoder. `capacity` is the
/// expected length of the JSON in bytes.
pub(super) fn to_string(document: &impl Serialize, capacity: usize) -> String {
    let mut json = Vec::with_capacity(capacity);
    // Serialisation never fails, because a document consists of strings, numbers and times, and
    // writing to a vector always succeeds.
    let _ = serde_json::to_writer(&mut json, document);
    // The default is never used, because the serializer writes UTF-8.
    let json = String::from_utf8(json).unwrap_or_default();
    if may_need_escapes(json.as_bytes()) { escape(&json) } else { json }
}

/// Returns whether the JSON contains a byte that begins a character that may need an escape. The
/// byte 0xE2 begins U+2028 and U+2029, but also many other characters.
#[allow(clippy::needless_bitwise_bool, reason = "without branches the compiler looks at many bytes at once")]
fn may_need_escapes(json: &[u8]) -> bool {
    // If the fold used booleans instead of numbers, it would compile to a branch per byte.
    let needs = |byte: u8| (byte == b'<') | (byte == b'>') | (byte == b'&') | (byte == 0xE2);
    json.iter().fold(0, |found, byte| found | u8::from(needs(*byte))) != 0
}

/// Adds the escapes that make JSON safe to embed in HTML and JavaScript, which Go's encoder adds by
/// default. In JSON, the characters to be escaped occur only within strings.
fn escape(json: &str) -> String {
    let mut escaped = String::with_capacity(json.len() + json.len() / 4);
    let mut written = 0;
    for (at, found) in json.match_indices(['<', '>', '&', '\u{2028}', '\u{2029}']) {
        escaped.push_str(&json[written..at]);
        for c in found.chars() {
            // Writing to a string never fails.
            let _ = write!(escaped, "\\u{:04x}", u32::from(c));
        }
        written = at + found.len();
    }
    escaped.push_str(&json[written..]);
    escaped
}
