//! Where a byte of JSON stands: in a string, and in which objects and arrays.

use super::limits::MAX_DEPTH;

/// The key of an object whose elements are documents of their own.
const ITEMS: &[u8] = b"items";

/// What a document is whose last line lacks its end.
pub(super) const INCOMPLETE: &str = "the document is not complete: a value begins where none can";

/// What a byte outside of strings means.
#[derive(Debug, PartialEq)]
pub(super) enum Next {
    /// The value goes on.
    Goes,
    /// The value is deeper than a document may be.
    TooDeep,
    /// The byte is the last one of the value.
    Whole,
    /// The byte opens the array `items` of the outermost object.
    Items,
    /// The byte cannot stand here.
    Wrong(&'static str),
}

/// The objects and arrays that are open. Only the grammar is followed that says where a value ends,
/// and that a new one cannot begin here. Everything else is left to the parser.
#[derive(Debug, Default)]
pub(super) struct Nesting {
    depth: usize,
    /// A bit for each level, the innermost last: whether it is an array.
    arrays: u128,
    /// The last byte that is not whitespace. A string counts as its closing quote.
    last: u8,
    is_in_string: bool,
    is_escaped: bool,
    string_len: usize,
    /// How much of `items` a key of the outermost object has spelled so far.
    spelled: Option<usize>,
    is_items: bool,
}

impl Nesting {
    /// The place behind the array `items` of an object.
    pub(super) fn behind_items() -> Self {
        Self { depth: 1, last: b']', ..Self::default() }
    }

    pub(super) fn is_in_string(&self) -> bool {
        self.is_in_string
    }

    /// Returns the length of the string so far, in bytes as written.
    pub(super) fn string_len(&self) -> usize {
        self.string_len
    }

    /// Returns whether a string was the whole value.
    pub(super) fn is_whole(&self) -> bool {
        self.depth == 0 && !self.is_in_string
    }

    /// Reads on in a string. Returns the number of bytes that belong to it, and false if the next
    /// one cannot.
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

    /// Compares a part of a key with `items`.
    fn spell(&mut self, part: &[u8]) {
        let goes_on = |done: &usize| ITEMS[*done..].starts_with(part);
        self.spelled = self.spelled.filter(goes_on).map(|done| done + part.len());
    }

    /// Reads a byte outside of strings that is not whitespace.
    pub(super) fn next(&mut self, byte: u8) -> Next {
        match byte {
            b'"' => {
                self.is_in_string = true;
                self.string_len = 0;
                let is_key = self.depth == 1 && !self.is_in_array() && matches!(self.last, b'{' | b',');
                self.spelled = is_key.then_some(0);
                return Next::Goes;
            }
            b'{' | b'[' => return self.open(byte),
            b'}' | b']' => {
                if self.depth <= MAX_DEPTH && self.is_in_array() != (byte == b']') {
                    return Next::Wrong("a bracket that closes another kind of bracket");
                }
                self.depth -= 1;
                self.arrays >>= 1;
                self.last = byte;
                return if self.depth == 0 { Next::Whole } else { Next::Goes };
            }
            _ => {}
        }
        self.is_items &= byte == b':';
        self.last = byte;
        Next::Goes
    }

    /// Opens an array `items` that is not streamed.
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
        self.arrays = self.arrays << 1 | u128::from(byte == b'[');
        self.last = byte;
        self.is_items = false;
        if self.depth > MAX_DEPTH { Next::TooDeep } else { Next::Goes }
    }

    fn is_in_array(&self) -> bool {
        self.arrays & 1 == 1
    }
}
