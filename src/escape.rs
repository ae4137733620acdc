//! Makes untrusted text safe to display.
//!
//! An event's message is written by the program that failed, and ends up on a user's terminal or in
//! a log. A control character in the message can move the cursor, forge a line, or reverse the
//! reading direction. All human-readable text that the library writes therefore goes through this
//! module. JSON output and stores keep the string unchanged.
//!
//! An invisible character can make two different names look alike, or hide a whole sentence. Every
//! character that has Unicode's `Default_Ignorable_Code_Point` property, whether assigned or not,
//! is therefore escaped too, and so are the interlinear annotation characters and the object
//! replacement character. Space characters that have a width are left unchanged.

use std::fmt;

/// Escapes a name, or any other string that a reader must not confuse with a similar-looking but
/// different string.
///
/// The following characters are escaped, in the form `\u{200b}`, or as `\n`, `\r` and `\t`:
///
/// - Control characters (C0, DEL and C1), and the line and paragraph separators.
/// - Characters that change the writing direction.
/// - Invisible characters: Unicode's `Default_Ignorable_Code_Point`, and U+FFF9 to U+FFFC.
///
/// All other characters, including backslashes, are left unchanged. This crate's tables, logs and
/// errors show strings in this form.
///
/// If the format has a precision, the result is truncated to that many characters, including the
/// `...` at the end. An escape sequence is written either completely or not at all.
///
/// # Examples
///
/// ```
/// use eventcast::escape::escape;
///
/// assert_eq!(escape("pod-\u{200b}0\u{1b}[2J").to_string(), r"pod-\u{200b}0\u{1b}[2J");
/// assert_eq!(escape("größe").to_string(), "größe");
/// assert_eq!(format!("{:.8}", escape("web-frontend")), "web-f...");
/// ```
pub fn escape(text: &str) -> Escaped<'_> {
    Escaped { text, in_message: false }
}

/// Escapes a message like [`escape`], but keeps some invisible characters, without which a message
/// would read differently:
///
/// - A joiner (U+200C, U+200D) between two letters, marks or symbols that are not both ASCII.
///   Persian, Indic scripts and emoji need joiners.
/// - A variation selector (U+FE0E, U+FE0F) after a symbol, or within a keycap sequence.
///
/// # Examples
///
/// ```
/// use eventcast::escape::escape_message;
///
/// let farmer = "\u{1f468}\u{200d}\u{1f33e}";
/// assert_eq!(escape_message(farmer).to_string(), farmer);
/// assert_eq!(escape_message("pod-\u{200d}0").to_string(), r"pod-\u{200d}0");
/// ```
#[cfg(feature = "recorder")]
pub fn escape_message(text: &str) -> Escaped<'_> {
    Escaped { in_message: true, ..escape(text) }
}

/// Returns whether [`escape`] escapes this character.
///
/// # Examples
///
/// ```
/// use eventcast::escape::needs_escape;
///
/// assert!(needs_escape('\n') && needs_escape('\u{202e}'));
/// assert!(!needs_escape('\\') && !needs_escape('ß'));
/// ```
pub fn needs_escape(c: char) -> bool {
    // `char::is_control` covers C0, DEL and C1. `is_ignorable` covers UAX #9's formatting
    // characters.
    c.is_control() || matches!(c, '\u{2028}' | '\u{2029}' | '\u{FFF9}'..='\u{FFFC}') || is_ignorable(c)
}

/// A string whose `Display` implementation escapes every character that a terminal interprets or
/// does not show.
///
/// Created by [`escape`] and `escape_message`. An `Escaped` borrows the string, and does not
/// allocate. The format's precision limits the number of characters. The format's width is ignored,
/// so to pad the result, convert it with `to_string` first.
#[derive(Clone, Copy, Debug)]
pub struct Escaped<'a> {
    text: &'a str,
    in_message: bool,
}

/// The marker at the end of a truncated string.
const MARK: &str = "...";

impl fmt::Display for Escaped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(limit) = f.precision() else { return self.write_to(f, self.text.len()) };
        let mark = &MARK[..MARK.len().min(limit)];
        // `fits` is the index up to which the text fits if the marker follows it.
        let (mut shown, mut fits) = (0_usize, 0);
        for (at, c) in self.text.char_indices() {
            shown += if self.escapes(at, c) { c.escape_default().len() } else { 1 };
            if shown > limit {
                self.write_to(f, fits)?;
                return f.write_str(mark);
            }
            if shown + mark.len() <= limit {
                fits = at + c.len_utf8();
            }
        }
        self.write_to(f, self.text.len())
    }
}

impl Escaped<'_> {
    /// Returns whether `c`, the character at index `at` of the text, is escaped.
    fn escapes(&self, at: usize, c: char) -> bool {
        let is_kept =
            || self.in_message && stays_in_message(&self.text[..at], c, &self.text[at + c.len_utf8()..]);
        !c.is_ascii_graphic() && needs_escape(c) && !is_kept()
    }

    /// Writes the escaped text up to the index `end`.
    fn write_to(&self, f: &mut fmt::Formatter<'_>, end: usize) -> fmt::Result {
        // The text before the index `written` has already been written.
        let mut written = 0;
        for (at, c) in self.text[..end].char_indices().filter(|(at, c)| self.escapes(*at, *c)) {
            write!(f, "{}{}", &self.text[written..at], c.escape_default())?;
            written = at + c.len_utf8();
        }
        f.write_str(&self.text[written..end])
    }
}

/// Returns whether `c` has Unicode's `Default_Ignorable_Code_Point` property. Fonts do not show
/// such characters.
fn is_ignorable(c: char) -> bool {
    matches!(
        c,
        '\u{00AD}'
            | '\u{034F}'
            | '\u{061C}'
            | '\u{115F}'..='\u{1160}'
            | '\u{17B4}'..='\u{17B5}'
            | '\u{180B}'..='\u{180F}'
            | '\u{200B}'..='\u{200F}'
            | '\u{202A}'..='\u{202E}'
            | '\u{2060}'..='\u{206F}'
            | '\u{3164}'
            | '\u{FE00}'..='\u{FE0F}'
            | '\u{FEFF}'
            | '\u{FFA0}'
            | '\u{FFF0}'..='\u{FFF8}'
            | '\u{1BCA0}'..='\u{1BCA3}'
            | '\u{1D173}'..='\u{1D17A}'
            | '\u{E0000}'..='\u{E0FFF}'
    )
}

/// Returns whether a message keeps the character `c` between `before` and `after`. See
/// [`escape_message`].
#[cfg(feature = "recorder")]
fn stays_in_message(before: &str, c: char, after: &str) -> bool {
    let mut backwards = before.chars().rev();
    let (last, next) = (backwards.next(), after.chars().next());
    match c {
        '\u{200C}' | '\u{200D}' => {
            // If a variation selector is kept, it belongs to the symbol before it.
            let last = match last {
                Some('\u{FE0E}' | '\u{FE0F}') => backwards.next().filter(|symbol| is_symbol(*symbol)),
                last => last,
            };
            let (Some(last), Some(next)) = (last, next) else { return false };
            is_joined(last) && is_joined(next) && !(last.is_ascii() && next.is_ascii())
        }
        '\u{FE0E}' | '\u{FE0F}' => match last {
            Some('0'..='9' | '#' | '*') => next == Some('\u{20E3}'),
            last => last.is_some_and(is_symbol),
        },
        _ => false,
    }
}

/// Returns `false`, because there are no messages without the recorder.
#[cfg(not(feature = "recorder"))]
fn stays_in_message(_: &str, _: char, _: &str) -> bool {
    false
}

/// Returns whether `c` is a letter, a mark on a letter (such as the virama in Indic scripts), or a
/// symbol.
#[cfg(feature = "recorder")]
fn is_joined(c: char) -> bool {
    let is_mark = || unicode_width::UnicodeWidthChar::width(c) == Some(0);
    !needs_escape(c) && (c.is_alphabetic() || is_symbol(c) || is_mark())
}

/// Returns whether `c` is in a block of arrows, symbols or emoji, or is one of the few emoji
/// outside these blocks.
#[cfg(feature = "recorder")]
fn is_symbol(c: char) -> bool {
    matches!(
        c,
        '\u{A9}' | '\u{AE}' | '\u{203C}' | '\u{2049}' | '\u{2122}' | '\u{2139}' | '\u{2190}'..='\u{2BFF}'
            | '\u{3030}' | '\u{303D}' | '\u{3297}' | '\u{3299}' | '\u{1F000}'..='\u{1FAFF}'
    )
}

#[cfg(test)]
mod tests {
    use super::escape;
    #[cfg(feature = "recorder")]
    use super::escape_message;
    use std::collections::HashSet;

    #[test]
    fn exactly_the_dangerous_characters_are_escaped() {
        // Control characters, then the ranges in `DerivedCoreProperties.txt` in file order, then
        // U+FFF9 to U+FFFC.
        let dangerous: HashSet<u32> = (0..=0x1F)
            .chain(0x7F..=0x9F)
            .chain([0x2028, 0x2029])
            .chain([0x00AD, 0x034F, 0x061C, 0x115F, 0x1160, 0x17B4, 0x17B5])
            .chain(0x180B..=0x180F)
            .chain(0x200B..=0x200F)
            .chain(0x202A..=0x202E)
            .chain(0x2060..=0x206F)
            .chain([0x3164])
            .chain(0xFE00..=0xFE0F)
            .chain([0xFEFF, 0xFFA0])
            .chain(0xFFF0..=0xFFF8)
            .chain(0x1BCA0..=0x1BCA3)
            .chain(0x1D173..=0x1D17A)
            .chain(0xE0000..=0xE0FFF)
            .chain(0xFFF9..=0xFFFC)
            .collect();
        for code in 0..=0x0010_FFFF {
            let Some(c) = char::from_u32(code) else { continue };
            let shown = escape(c.encode_utf8(&mut [0; 4])).to_string();
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
            escape("größe\u{1b}[2K\rweb-0 \\ \"ok\"\n").to_string(),
            "größe\\u{1b}[2K\\rweb-0 \\ \"ok\"\\n"
        );
        assert_eq!(escape("").to_string(), "");
    }

    #[test]
    fn a_cut_text_is_never_longer_than_its_limit() {
        assert_eq!(format!("{:.6}", escape("abcdef")), "abcdef");
        assert_eq!(format!("{:.6}", escape("abcdefg")), "abc...");
        assert_eq!(format!("{:.6}", escape("äöüäöüä")), "äöü...");
        // An escape sequence is written either completely or not at all, and each of its characters
        // counts.
        assert_eq!(format!("{:.8}", escape("a\u{1b}b")), "a\\u{1b}b");
        assert_eq!(format!("{:.8}", escape("a\u{1b}bc")), "a...");
        for limit in 0..12 {
            let shown = format!("{:.limit$}", escape("\n\u{202e}xyz\u{7f}more"));
            assert!(shown.chars().count() <= limit, "{limit}: {shown}");
        }
    }

    #[cfg(feature = "recorder")]
    #[test]
    fn a_cut_message_keeps_its_joiners() {
        let farmer = "\u{1f468}\u{200d}\u{1f33e}";
        assert_eq!(format!("{:.6}", escape_message(&format!("{farmer}abc"))), format!("{farmer}abc"));
        assert_eq!(format!("{:.6}", escape_message(&format!("{farmer}abcd"))), format!("{farmer}..."));
        assert_eq!(format!("{:.6}", escape(&format!("{farmer}abc"))), "\u{1f468}...");
    }
}
