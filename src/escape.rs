//! Text from outside, made safe to show to a person.
//!
//! An event's message is written by whatever program failed, and ends on somebody's terminal or in a log. A control
//! character there can move the cursor, forge a line, or turn the reading direction round, so everything the library
//! writes for people goes through here. JSON and stores keep the text as it is.

use std::fmt::{self, Write as _};

/// Shows `text` with every control character escaped: C0 (newline, carriage return and tab among them), DEL, C1, the
/// line and paragraph separators, and the characters that change the writing direction. Everything else is as it was.
pub(crate) fn escaped(text: &str) -> Escaped<'_> {
    Escaped { text, limit: usize::MAX }
}

/// As [`escaped`], but at most `limit` characters long in all. What is cut ends in `...`; an escape sequence is shown
/// whole or not at all.
pub(crate) fn escaped_to(text: &str, limit: usize) -> Escaped<'_> {
    Escaped { text, limit }
}

/// What [`escaped`] returns: writes itself escaped.
#[derive(Clone, Copy)]
pub(crate) struct Escaped<'a> {
    text: &'a str,
    limit: usize,
}

/// What stands at the end of a text that was cut.
const MARK: &str = "...";

impl fmt::Display for Escaped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.limit == usize::MAX || shown_len(self.text, self.limit).is_some() {
            return write_escaped(f, self.text);
        }
        let mark = &MARK[..MARK.len().min(self.limit)];
        let mut room = self.limit - mark.len();
        for c in self.text.chars() {
            let len = char_len(c);
            if len > room {
                break;
            }
            room -= len;
            write_char(f, c)?;
        }
        f.write_str(mark)
    }
}

/// How many characters `text` shows, or `None` when that is more than `limit`.
fn shown_len(text: &str, limit: usize) -> Option<usize> {
    let mut shown = 0_usize;
    for c in text.chars() {
        shown += char_len(c);
        if shown > limit {
            return None;
        }
    }
    Some(shown)
}

fn char_len(c: char) -> usize {
    if needs_escape(c) { c.escape_default().len() } else { 1 }
}

fn write_char(f: &mut fmt::Formatter<'_>, c: char) -> fmt::Result {
    if needs_escape(c) { write!(f, "{}", c.escape_default()) } else { f.write_char(c) }
}

fn write_escaped(f: &mut fmt::Formatter<'_>, text: &str) -> fmt::Result {
    let mut rest = text;
    while let Some(at) = rest.find(needs_escape) {
        let (clean, tail) = rest.split_at(at);
        f.write_str(clean)?;
        let mut chars = tail.chars();
        if let Some(c) = chars.next() {
            write_char(f, c)?;
        }
        rest = chars.as_str();
    }
    f.write_str(rest)
}

/// `char::is_control` is C0, DEL and C1. The directions are UAX #9's formatting characters.
fn needs_escape(c: char) -> bool {
    c.is_control()
        || matches!(
            c,
            '\u{2028}'
                | '\u{2029}'
                | '\u{061C}'
                | '\u{200E}'
                | '\u{200F}'
                | '\u{202A}'..='\u{202E}'
                | '\u{2066}'..='\u{2069}'
        )
}

#[cfg(test)]
mod tests {
    use super::{escaped, escaped_to};

    #[test]
    fn exactly_the_dangerous_characters_are_escaped() {
        let dangerous: Vec<u32> = (0..=0x1F)
            .chain(0x7F..=0x9F)
            .chain([0x2028, 0x2029, 0x061C, 0x200E, 0x200F])
            .chain(0x202A..=0x202E)
            .chain(0x2066..=0x2069)
            .collect();
        for code in 0..=0x0010_FFFF {
            let Some(c) = char::from_u32(code) else { continue };
            let shown = escaped(c.encode_utf8(&mut [0; 4])).to_string();
            if dangerous.contains(&code) {
                assert!(
                    shown.starts_with('\\') && shown.is_ascii() && !shown.contains(c),
                    "{code:x}: {shown}"
                );
            } else {
                assert_eq!(shown.chars().collect::<Vec<_>>(), [c], "{code:x}");
            }
        }
    }

    #[test]
    fn text_around_an_escape_stays() {
        assert_eq!(
            escaped("größe\u{1b}[2K\rweb-0 \\ \"ok\"\n").to_string(),
            "größe\\u{1b}[2K\\rweb-0 \\ \"ok\"\\n"
        );
        assert_eq!(escaped("").to_string(), "");
    }

    #[test]
    fn a_cut_text_is_never_longer_than_its_limit() {
        assert_eq!(escaped_to("abcdef", 6).to_string(), "abcdef");
        assert_eq!(escaped_to("abcdefg", 6).to_string(), "abc...");
        assert_eq!(escaped_to("äöüäöüä", 6).to_string(), "äöü...");
        // Whole escapes only, and they count as they are shown.
        assert_eq!(escaped_to("a\u{1b}b", 8).to_string(), "a\\u{1b}b");
        assert_eq!(escaped_to("a\u{1b}bc", 8).to_string(), "a...");
        for limit in 0..12 {
            let shown = escaped_to("\n\u{202e}xyz\u{7f}more", limit).to_string();
            assert!(shown.chars().count() <= limit, "{limit}: {shown}");
        }
    }
}
