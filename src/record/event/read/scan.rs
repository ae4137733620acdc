//! Finds document boundaries in a stream of JSON. The caller is responsible for parsing the
//! documents.
//!
//! Lists are streamed. Each element of an array, or of an object's `items` array, is treated as a
//! separate document. Nested lists are streamed in the same way. Memory usage is therefore bounded
//! by the size of one document instead of the size of the whole list.

use super::error::EventReadErrorKind as Kind;
use super::limits::{MAX_DEPTH, MAX_DOCUMENT, MAX_STRING, MAX_VALUES};
use super::nesting::{INCOMPLETE, Nesting, Next};

/// The maximum number of input bytes that an error message includes.
const SHOWN: usize = 80;

/// The next part of the input.
#[derive(Debug)]
pub(super) enum Piece {
    /// A complete value. [`Scanner::document`] returns the value until the scanner is called again.
    Document,
    /// Input that is not a document.
    Fault(Fault),
}

/// Input that is not a document or not a complete document.
#[derive(Debug)]
pub(super) struct Fault {
    pub(super) kind: Kind,
    /// The line number, starting at 1.
    pub(super) line: u64,
    pub(super) text: String,
}

/// A list whose elements are treated as documents.
#[derive(Clone, Copy, Debug, PartialEq)]
enum List {
    Array {
        is_empty: bool,
        line: u64,
    },
    /// The `items` array of an object.
    Items,
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
enum State {
    /// Between documents.
    #[default]
    Between,
    /// Inside an object, an array or a string.
    Value,
    /// Inside an object, after its `items` array.
    Rest,
    /// Inside a number or a literal that is an element of a list.
    Scalar,
    /// Inside a line that is not JSON.
    Text,
    /// After a malformed document, until a line starts with the same indentation or with none.
    Broken,
}

#[derive(Debug, Default)]
pub(super) struct Scanner {
    state: State,
    lists: Vec<List>,
    nesting: Nesting,
    document: Vec<u8>,
    /// The limit that the document exceeds, if any. If a limit was exceeded, the document's bytes
    /// are not stored.
    dropped: Option<&'static str>,
    /// The current line number, starting at 1.
    line: u64,
    /// The line on which the document starts. If nothing precedes the document on that line, this
    /// also holds the document's indentation.
    begin: (u64, Option<usize>),
    /// The indentation of the current line, or `None` after the first character on that line that
    /// is neither whitespace nor a separator between documents.
    indent: Option<usize>,
    /// The offset of the document's second line, if that line may be a separate document.
    second_line: Option<usize>,
    /// The bytes to scan again before any new bytes, and the index at which to start scanning them.
    again: (Vec<u8>, usize),
    /// Whether a malformed document was found, after which unmatched brackets may follow.
    is_mending: bool,
    /// Whether the outermost open list is malformed and may therefore lack its closing bracket.
    is_list_broken: bool,
}

impl Scanner {
    pub(super) fn new() -> Self {
        Self { line: 1, begin: (1, None), indent: Some(0), ..Self::default() }
    }

    /// Returns the most recent document and its line number.
    pub(super) fn document(&self) -> (&[u8], u64) {
        (&self.document, self.begin.0)
    }

    pub(super) fn line(&self) -> u64 {
        self.line
    }

    /// Returns whether there are bytes left to scan again.
    pub(super) fn has_more(&self) -> bool {
        !self.again.0.is_empty()
    }

    /// Rescans the bytes in `again`, up to the end of the next part of the input.
    pub(super) fn scan_again(&mut self) -> Option<Piece> {
        let (bytes, at) = std::mem::take(&mut self.again);
        let (done, piece) = self.scan(&bytes[at..]);
        let at = at + done;
        if self.has_more() {
            // The scan split another document, whose lines must also be scanned again.
            self.again.0.extend_from_slice(&bytes[at..]);
        } else if at < bytes.len() {
            self.again = (bytes, at);
        }
        piece
    }

    /// Scans up to the end of the next part of the input. Returns the number of bytes consumed. If
    /// no part of the input is complete, all bytes are consumed.
    pub(super) fn scan(&mut self, bytes: &[u8]) -> (usize, Option<Piece>) {
        let mut at = 0;
        while at < bytes.len() {
            let rest = &bytes[at..];
            let (done, piece) = match self.state {
                State::Between => self.between(rest),
                State::Value | State::Rest => self.value(rest),
                State::Scalar => self.scalar(rest),
                State::Text => self.text(rest),
                State::Broken => (self.broken(rest), None),
            };
            at += done;
            if piece.is_some() {
                return (at, piece);
            }
        }
        (at, None)
    }

    /// Handles the end of the input. Returns the last part of the input, if any.
    pub(super) fn end(&mut self) -> Option<Piece> {
        let state = std::mem::replace(&mut self.state, State::Between);
        let is_open = !self.lists.is_empty();
        match state {
            State::Text => Some(self.no_json()),
            State::Value if self.can_split() => Some(self.split(&[])),
            State::Value => {
                let text = format!("the input ends inside a document that begins in line {}", self.begin.0);
                Some(fault(Kind::CutOff, self.line, text))
            }
            State::Broken => None,
            State::Between if !is_open || self.is_list_broken => None,
            State::Between | State::Rest | State::Scalar => {
                Some(fault(Kind::CutOff, self.line, "the input ends inside a list".into()))
            }
        }
    }

    fn between(&mut self, bytes: &[u8]) -> (usize, Option<Piece>) {
        for (at, &byte) in bytes.iter().enumerate() {
            match byte {
                b'\n' => self.new_line(),
                b' ' | b'\t' | b'\r' => self.indent = self.indent.map(|indent| indent + 1),
                // The bytes skipped here are commas, the record separator in JSON text sequences
                // (RFC 7464), and the three bytes of the byte order mark.
                b',' | 0x1e | 0xef | 0xbb | 0xbf => {}
                b'[' => {
                    self.found_element();
                    if self.lists.len() >= MAX_DEPTH {
                        let text = format!("a list is nested more than {MAX_DEPTH} deep");
                        return (at + 1, Some(self.fail(Kind::TooLarge, text)));
                    }
                    self.begin = (self.line, self.indent.take());
                    self.open_list(List::Array { is_empty: true, line: self.line });
                }
                b']' if !self.lists.is_empty() => {
                    self.indent = None;
                    if self.lists.pop() == Some(List::Items) {
                        self.state = State::Rest;
                        self.nesting = Nesting::behind_items();
                        return (at + 1, None);
                    }
                }
                b']' | b'}' if self.is_mending => self.indent = None,
                b'}' | b']' => {
                    self.indent = None;
                    self.begin_mending();
                    let text = format!("a '{}' without an opening bracket", char::from(byte));
                    return (at + 1, Some(fault(Kind::Malformed, self.line, text)));
                }
                _ => {
                    self.begin_document(byte);
                    return (at, None);
                }
            }
        }
        (bytes.len(), None)
    }

    fn begin_document(&mut self, byte: u8) {
        self.begin = (self.line, self.indent.take());
        self.document.clear();
        (self.dropped, self.second_line) = (None, None);
        self.nesting = Nesting::default();
        self.state = match byte {
            b'{' => State::Value,
            b'"' if !self.lists.is_empty() => State::Value,
            _ if !self.lists.is_empty() => State::Scalar,
            _ => State::Text,
        };
        // A scalar may turn out not to be an element of the list, so it does not count as an
        // element yet.
        if self.state == State::Value {
            self.found_element();
        }
    }

    fn found_element(&mut self) {
        if let Some(List::Array { is_empty, .. }) = self.lists.last_mut() {
            *is_empty = false;
        }
    }

    /// Scans an object or a string, or the remainder of an object.
    fn value(&mut self, bytes: &[u8]) -> (usize, Option<Piece>) {
        let mut at = 0;
        while let Some(&byte) = bytes.get(at) {
            if self.nesting.is_in_string {
                let (done, is_whole) = self.nesting.string(&bytes[at..]);
                at += done;
                if !is_whole {
                    return (at, Some(self.wrong("a string is not terminated on its line", &bytes[..at])));
                }
                if self.nesting.string_len > MAX_STRING {
                    self.dropped.get_or_insert("a string");
                }
                if self.nesting.is_whole() {
                    return self.whole(bytes, at);
                }
                continue;
            }
            match byte {
                b'\n' => self.new_line(),
                b' ' | b'\t' | b'\r' => self.indent = self.indent.map(|indent| indent + 1),
                _ => {
                    if byte == b'{' && self.is_second_line() {
                        self.second_line = Some(self.document.len() + at);
                    }
                    if let Some((done, piece)) = self.outside_string(byte, bytes, at) {
                        return (done, piece);
                    }
                }
            }
            at += 1;
        }
        self.keep(bytes);
        (bytes.len(), None)
    }

    /// Scans a byte of a value that is neither in a string nor whitespace. Returns `None` if the
    /// value continues, and otherwise the result that `value` is to return.
    fn outside_string(&mut self, byte: u8, bytes: &[u8], at: usize) -> Option<(usize, Option<Piece>)> {
        match self.nesting.next(byte) {
            Next::Goes => {
                if self.nesting.values > MAX_VALUES {
                    self.dropped.get_or_insert("the number of its values");
                }
            }
            Next::TooDeep => {
                self.dropped.get_or_insert("its depth");
            }
            Next::Whole => return Some(self.whole(bytes, at + 1)),
            Next::Items if self.lists.len() < MAX_DEPTH => {
                // The list's other members are not needed, so the bytes stored so far are
                // discarded.
                self.document.clear();
                self.second_line = None;
                self.open_list(List::Items);
                (self.state, self.indent) = (State::Between, None);
                return Some((at + 1, None));
            }
            Next::Items => self.nesting.open_items(),
            Next::Wrong(text) => return Some((at, Some(self.wrong(text, &bytes[..at])))),
        }
        self.indent = None;
        None
    }

    /// Ends a malformed document. `bytes` are the document's last bytes.
    fn wrong(&mut self, text: &str, bytes: &[u8]) -> Piece {
        if self.can_split() {
            return self.split(bytes);
        }
        let piece = self.fail(Kind::Malformed, text.to_owned());
        if text == INCOMPLETE && self.indent.is_some() {
            // A value is not allowed here, but nothing precedes the value on its line, so the value
            // is treated as the next document.
            self.resume();
        }
        piece
    }

    fn can_split(&self) -> bool {
        self.second_line.is_some() && self.dropped.is_none()
    }

    /// Splits a malformed document after its first line. The document's remaining lines are scanned
    /// again, because they may be separate documents. `bytes` contains the end of the malformed
    /// document.
    fn split(&mut self, bytes: &[u8]) -> Piece {
        let second = self.second_line.take().unwrap_or_default().min(self.document.len() + bytes.len());
        let mut again = std::mem::take(&mut self.document);
        again.extend_from_slice(bytes);
        again.drain(..second);
        self.again = (again, 0);
        let (line, indent) = self.begin;
        if indent != Some(0) {
            self.lists.clear();
        }
        (self.state, self.line, self.indent) = (State::Between, line + 1, Some(0));
        self.begin_mending();
        fault(Kind::Malformed, line, INCOMPLETE.to_owned())
    }

    /// Returns whether the current position is the start of an unindented second line in an
    /// unindented document. If such a document turns out to be malformed, its lines are treated as
    /// JSON lines, and the first line is treated as incomplete.
    fn is_second_line(&self) -> bool {
        let (line, indent) = self.begin;
        let is_next = self.state == State::Value && self.line == line + 1 && self.indent == Some(0);
        is_next && self.dropped.is_none() && indent.is_none_or(|indent| indent == 0)
    }

    /// Completes a value whose last byte is directly before the index `end`.
    fn whole(&mut self, bytes: &[u8], end: usize) -> (usize, Option<Piece>) {
        self.indent = None;
        self.keep(&bytes[..end]);
        if std::mem::replace(&mut self.state, State::Between) == State::Rest {
            return (end, None);
        }
        (end, Some(self.dropped.map_or(Piece::Document, |what| self.too_large(what))))
    }

    fn too_large(&self, what: &str) -> Piece {
        let (depth, string, document) = (MAX_DEPTH, MAX_STRING >> 20, MAX_DOCUMENT >> 20);
        let text = format!(
            "a document is too large, by {what}: at most {document} MiB, {MAX_VALUES} values, {depth} levels, \
             and {string} MiB in a string"
        );
        fault(Kind::TooLarge, self.begin.0, text)
    }

    /// Appends bytes to the stored document, unless the document exceeds a limit.
    fn keep(&mut self, bytes: &[u8]) {
        if self.state != State::Value || self.dropped.is_some() {
            return;
        }
        if self.document.len() + bytes.len() > MAX_DOCUMENT {
            self.dropped = Some("its length");
            self.document = Vec::new();
        } else {
            self.document.extend_from_slice(bytes);
        }
    }

    /// Scans a number or a literal in a list.
    fn scalar(&mut self, bytes: &[u8]) -> (usize, Option<Piece>) {
        let end = bytes.iter().position(|byte| b",]}[{\" \t\r\n".contains(byte));
        let part = &bytes[..end.unwrap_or(bytes.len())];
        let room = SHOWN.saturating_sub(self.document.len());
        self.document.extend_from_slice(&part[..part.len().min(room)]);
        if end.is_none() {
            return (part.len(), None);
        }
        if serde_json::from_slice::<serde::de::IgnoredAny>(&self.document).is_ok() {
            self.found_element();
            self.state = State::Between;
            return (part.len(), Some(Piece::Document));
        }
        // In log lines, a bracket at the start of the line often does not open a list.
        let is_log_line = self.lists[..] == [List::Array { is_empty: true, line: self.line }];
        if is_log_line {
            self.lists.clear();
            self.document.insert(0, b'[');
        }
        if is_log_line || self.begin.1.is_some() {
            // The whole line is treated as text.
            self.state = State::Text;
            return (part.len(), None);
        }
        self.state = State::Between;
        self.begin_mending();
        let text = format!("{} is not a JSON value", shown(&self.document));
        (part.len(), Some(fault(Kind::Malformed, self.begin.0, text)))
    }

    /// Scans a line that is not JSON.
    fn text(&mut self, bytes: &[u8]) -> (usize, Option<Piece>) {
        let end = bytes.iter().position(|byte| *byte == b'\n');
        let part = &bytes[..end.unwrap_or(bytes.len())];
        let room = SHOWN.saturating_sub(self.document.len());
        self.document.extend_from_slice(&part[..part.len().min(room)]);
        if end.is_none() {
            return (part.len(), None);
        }
        self.state = State::Between;
        // The newline is not consumed here, because `between` handles it.
        (part.len(), Some(self.no_json()))
    }

    /// Returns the fault for a line that is not JSON. Inside a list, such a line may be part of an
    /// event, so the line counts as malformed input.
    fn no_json(&mut self) -> Piece {
        let kind = if self.lists.is_empty() { Kind::Text } else { Kind::Malformed };
        if kind == Kind::Malformed {
            self.begin_mending();
        }
        fault(kind, self.begin.0, format!("{} is not JSON", shown(&self.document)))
    }

    /// Skips the rest of a malformed document. Returns the number of bytes consumed.
    fn broken(&mut self, bytes: &[u8]) -> usize {
        for (at, &byte) in bytes.iter().enumerate() {
            match byte {
                b'\n' => self.new_line(),
                b' ' | b'\t' | b'\r' => self.indent = self.indent.map(|indent| indent + 1),
                _ => {
                    let opens = matches!(byte, b'{' | b'[');
                    if opens
                        && self.indent.is_some()
                        && (self.indent == self.begin.1 || self.indent == Some(0))
                    {
                        self.resume();
                        return at;
                    }
                    self.indent = None;
                }
            }
        }
        bytes.len()
    }

    /// Resumes scanning at the current byte, where a document starts. If that document is not
    /// indented but the elements of the list are, the document does not belong to the list.
    fn resume(&mut self) {
        if self.indent == Some(0) && self.begin.1 != Some(0) {
            self.lists.clear();
        }
        self.state = State::Between;
    }

    fn fail(&mut self, kind: Kind, text: String) -> Piece {
        self.state = State::Broken;
        self.begin_mending();
        if kind == Kind::TooLarge {
            self.lists.clear();
        }
        fault(kind, self.begin.0, text)
    }

    fn begin_mending(&mut self) {
        self.is_mending = true;
        self.is_list_broken |= !self.lists.is_empty();
    }

    fn open_list(&mut self, list: List) {
        if self.lists.is_empty() {
            self.is_list_broken = false;
        }
        self.lists.push(list);
    }

    fn new_line(&mut self) {
        self.line += 1;
        self.indent = Some(0);
    }
}

fn fault(kind: Kind, line: u64, text: String) -> Piece {
    Piece::Fault(Fault { kind, line, text })
}

fn shown(bytes: &[u8]) -> String {
    format!("'{}'", String::from_utf8_lossy(bytes).trim_end())
}
