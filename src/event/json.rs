//! JSON as Go's encoder writes it.

use std::io;

use serde::Serialize;
use serde_json::ser::{CompactFormatter, Formatter};

/// Appends `text` as a JSON string.
pub(super) fn push_string(out: &mut String, text: &str) {
    let mut bytes = Vec::with_capacity(text.len() + 2);
    // Writing a string into memory cannot fail.
    let _ = text.serialize(&mut serde_json::Serializer::with_formatter(&mut bytes, GoFormatter));
    out.push_str(&String::from_utf8_lossy(&bytes));
}

/// Compact, and with the escapes that make JSON safe inside HTML and JavaScript, which Go writes by default.
#[derive(Clone, Copy, Debug)]
pub(super) struct GoFormatter;

impl Formatter for GoFormatter {
    fn write_string_fragment<W: ?Sized + io::Write>(
        &mut self,
        writer: &mut W,
        fragment: &str,
    ) -> io::Result<()> {
        let mut rest = fragment;
        while let Some(at) = rest.find(is_escaped_by_go) {
            let (clean, tail) = rest.split_at(at);
            CompactFormatter.write_string_fragment(writer, clean)?;
            let mut chars = tail.chars();
            if let Some(c) = chars.next() {
                write!(writer, "\\u{:04x}", u32::from(c))?;
            }
            rest = chars.as_str();
        }
        CompactFormatter.write_string_fragment(writer, rest)
    }
}

fn is_escaped_by_go(c: char) -> bool {
    matches!(c, '<' | '>' | '&' | '\u{2028}' | '\u{2029}')
}
