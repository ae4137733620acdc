//! Tracks the strings and brackets in a JSON value, byte by byte.

use super::limits::MAX_DEPTH;

/// The key of an array whose elements are treated as separate documents.
const ITEMS: &[u8] = b"items";

/// The error message for a document whose end is missing.
pub(super) const INCOMPLETE: &str = "incomplete document: a value begins where none is allowed";

/// The effect of a byte that is not inside a string.
#[derive(Debug, PartialEq)]
pub(super) enum Next {
    /// The value continues.
    Goes,
    /// The value exceeds the maximum depth.
    TooDeep,
    /// The value is complete.
    Whole,
    /// The byte opens the `items` array of the outermost object.
    Items,
    /// The byte is not allowed at this position.
    Wrong(&'static str),
}

/// Tracks the open objects and arrays. Checks only the rules of the grammar that determine where a
/// value ends and where a new value cannot start. The parser checks the remaining rules.
#[derive(Debug, Default)]
pub(super) struct Nesting {
    depth: usize,
    /// One bit per level, which is set if that level is an array. The lowest bit represents the
    /// innermost level.
    arrays: u128,
    /// The last byte read that is not whitespace. After a string, this is the closing quote.
    last: u8,
    /// A lower bound on the number of values read so far, which is the number of arrays, objects
    /// and commas.
    pub(super) values: usize,
    pub(super) is_in_string: bool,
    is_escaped: bool,
    /// The length, in input bytes, of the part of the current string that has been read so far.
    pub(super) string_len: usize,
    /// The number of bytes of `items` that the current key of the outermost object has matched so
    /// far.
    spelled: Option<usize>,
    is_items: bool,
}

impl Nesting {
    /// Returns the state inside an object, directly after the object's `items` array.
    pub(super) fn behind_items() -> Self {
        Self { depth: 1, last: b']', ..Self::default() }
    }

    /// Returns whether the value consists of a single string that is now complete.
    pub(super) fn is_whole(&self) -> bool {
        self.depth == 0 && !self.is_in_string
    }

    /// Scans a string. Returns the number of bytes that belong to the string. The second value is
    /// `false` if the following byte is not allowed in a string.
    pub(super) fn string(&mut self, bytes: &[u8]) -> (usize, bool) {
        let mut at = 0;
        while at < bytes.len() {
            if std::mem::take(&mut self.is_escaped) {
                if bytes[at] == b'\n' {
                    return (at, false);
                }
                self.spelled = None;
                at += 1;
                continue;
            }
            let len = bytes[at..].iter().position(|byte| matches!(byte, b'"' | b'\\' | b'\n'));
            let part = &bytes[at..len.map_or(bytes.len(), |len| at + len)];
            self.string_len += part.len();
            self.spell(part);
            at += part.len();
            match bytes.get(at) {
                None => break,
                Some(b'"') => {
                    self.is_in_string = false;
                    self.last = b'"';
                    self.is_items = self.spelled.take() == Some(ITEMS.len());
                    return (at + 1, true);
                }
                Some(b'\\') => self.is_escaped = true,
                Some(_) => return (at, false),
            }
            at += 1;
        }
        (at, true)
    }

    /// Compares the next part of a key with `items`.
    fn spell(&mut self, part: &[u8]) {
        let goes_on = |done: &usize| ITEMS[*done..].starts_with(part);
        self.spelled = self.spelled.filter(goes_on).map(|done| done + part.len());
    }

    /// Scans a byte that is neither in a string nor whitespace.
    pub(super) fn next(&mut self, byte: u8) -> Next {
        match byte {
            b'"' => {
                self.is_in_string = true;
                self.string_len = 0;
                // A key may follow a stray line of text, so any preceding byte other than a colon
                // is accepted.
                let is_key = self.depth == 1 && !self.is_in_array() && self.last != b':';
                self.spelled = is_key.then_some(0);
                return Next::Goes;
            }
            b'{' | b'[' => return self.open(byte),
            b'}' | b']' => {
                if self.depth <= MAX_DEPTH && self.is_in_array() != (byte == b']') {
                    return Next::Wrong("a closing bracket does not match the opening one");
                }
                self.depth -= 1;
                self.arrays >>= 1;
                self.last = byte;
                return if self.depth == 0 { Next::Whole } else { Next::Goes };
            }
            _ => {}
        }
        self.values += usize::from(byte == b',');
        self.is_items &= byte == b':';
        self.last = byte;
        Next::Goes
    }

    /// Opens an `items` array whose elements are not streamed.
    pub(super) fn open_items(&mut self) {
        self.is_items = false;
        self.open(b'[');
    }

    fn open(&mut self, byte: u8) -> Next {
        let is_first = self.depth == 0;
        if !is_first && self.last != b':' && !(self.is_in_array() && matches!(self.last, b'[' | b',')) {
            return Next::Wrong(INCOMPLETE);
        }
        if byte == b'[' && self.is_items && self.depth == 1 {
            return Next::Items;
        }
        self.depth += 1;
        self.values += 1;
        self.arrays = self.arrays << 1 | u128::from(byte == b'[');
        self.last = byte;
        self.is_items = false;
        if self.depth > MAX_DEPTH { Next::TooDeep } else { Next::Goes }
    }

    fn is_in_array(&self) -> bool {
        self.arrays & 1 == 1
    }
}
