//! Reads the lines of untrusted input, with line numbers, a length limit and UTF-8 validation.

use std::fmt;
use std::io::{self, BufRead, Read as _};

/// The maximum length of a line, in bytes. Servers limit an event to about a megabyte.
const MAX_LINE: u64 = 16 << 20;

/// Formats an error in a line's JSON. The line number is omitted, because the caller adds it.
pub(crate) fn json_error(error: &serde_json::Error) -> String {
    error.to_string().replace(" at line 1 column ", " at column ")
}

pub(crate) struct Lines<R> {
    reader: R,
    number: usize,
}

/// A line number, counted from 1, together with the line or the error in the line.
pub(crate) type Line = (usize, Result<String, BadLine>);

/// The reason why a line cannot be read.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum BadLine {
    TooLong,
    /// The position of the first byte that is not valid UTF-8, counted from 1.
    NotUtf8(usize),
}

impl fmt::Display for BadLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooLong => write!(f, "a line must be at most {} MiB", MAX_LINE >> 20),
            Self::NotUtf8(byte) => write!(f, "invalid UTF-8 at byte {byte}"),
        }
    }
}

impl<R: BufRead> Lines<R> {
    pub(crate) fn new(reader: R) -> Self {
        Self { reader, number: 0 }
    }

    /// Returns the next line without its newline, or `None` if there are no more lines.
    pub(crate) fn next(&mut self) -> io::Result<Option<Line>> {
        let mut bytes = Vec::new();
        // Reads one byte more, to distinguish a line of exactly the maximum length from a longer
        // line.
        if self.reader.by_ref().take(MAX_LINE + 1).read_until(b'\n', &mut bytes)? == 0 {
            return Ok(None);
        }
        self.number += 1;
        let is_whole = bytes.last() == Some(&b'\n');
        if is_whole {
            bytes.pop();
        }
        if !is_whole && bytes.len() as u64 > MAX_LINE {
            self.skip_line()?;
            return Ok(Some((self.number, Err(BadLine::TooLong))));
        }
        let text =
            String::from_utf8(bytes).map_err(|error| BadLine::NotUtf8(error.utf8_error().valid_up_to() + 1));
        Ok(Some((self.number, text)))
    }

    fn skip_line(&mut self) -> io::Result<()> {
        loop {
            let buffer = self.reader.fill_buf()?;
            let end = buffer.iter().position(|byte| *byte == b'\n');
            let (len, is_over) = (end.map_or(buffer.len(), |at| at + 1), end.is_some() || buffer.is_empty());
            self.reader.consume(len);
            if is_over {
                return Ok(());
            }
        }
    }
}
