//! Makes untrusted text safe to print on a terminal.

use std::fmt::Write as _;

use eventcast::escape::{escape, needs_escape};
#[cfg(any(feature = "analysis", feature = "top"))]
use unicode_width::UnicodeWidthChar as _;

/// Returns the text in quotes. Invisible characters and characters that could affect a terminal are
/// escaped. Quotes and backslashes are not escaped.
pub(crate) fn quoted(text: &str) -> String {
    format!("'{}'", plain(text))
}

/// Like [`quoted`], but without the surrounding quotes.
pub(crate) fn plain(text: &str) -> String {
    escape(text).to_string()
}

/// Returns the longest prefix of the text that fits into the given number of terminal columns.
#[cfg(any(feature = "analysis", feature = "top"))]
pub(crate) fn cut(text: &str, columns: usize) -> &str {
    let mut used = 0;
    let fits = |(_, c): &(usize, char)| {
        used += c.width().unwrap_or(0);
        used <= columns
    };
    let end = text.char_indices().take_while(fits).last().map_or(0, |(at, c)| at + c.len_utf8());
    &text[..end]
}

/// Returns JSON with the same content, in which the characters that [`plain`] escapes are escaped.
/// JSON itself allows most of these characters unescaped.
pub(crate) fn harmless_json(json: &str) -> String {
    let mut shown = String::with_capacity(json.len());
    for c in json.chars() {
        // Outside of strings, newlines are the only such characters.
        if needs_escape(c) && c != '\n' {
            for unit in c.encode_utf16(&mut [0; 2]) {
                let _ = write!(shown, "\\u{unit:04x}");
            }
        } else {
            shown.push(c);
        }
    }
    shown
}

#[cfg(test)]
mod tests {
    #[cfg(any(feature = "analysis", feature = "top"))]
    use super::cut;
    use super::{harmless_json, plain, quoted};

    #[test]
    fn other_scripts_stay_and_what_is_obeyed_does_not() {
        assert_eq!(plain("e\u{301} हिन्दी 'x' \"y\" \\"), "e\u{301} हिन्दी 'x' \"y\" \\");
        assert_eq!(plain("\u{1b}[2J\r\n\u{9b}\u{202e}\u{2028}"), r"\u{1b}[2J\r\n\u{9b}\u{202e}\u{2028}");
    }

    #[cfg(any(feature = "analysis", feature = "top"))]
    #[test]
    fn a_cut_text_fits_into_its_columns() {
        for (columns, expected) in [(0, ""), (1, ""), (2, "起"), (3, "起"), (4, "起動"), (9, "起動e\u{301}")]
        {
            assert_eq!(cut("起動e\u{301}", columns), expected);
        }
        assert_eq!(cut("e\u{301}x", 1), "e\u{301}", "a mark stays with its letter");
    }

    #[test]
    fn json_keeps_its_content() {
        let json =
            serde_json::to_string_pretty(&["\u{9b}31m\u{202e}\u{7f}\u{1b} é \"\n \u{200b}\u{e0041}\u{fe0f}"])
                .unwrap();
        let shown = harmless_json(&json);
        assert!(
            !shown.contains(['\u{9b}', '\u{202e}', '\u{7f}', '\u{200b}', '\u{e0041}', '\u{fe0f}']),
            "{shown}"
        );
        assert_eq!(
            serde_json::from_str::<Vec<String>>(&shown).unwrap(),
            serde_json::from_str::<Vec<String>>(&json).unwrap()
        );
    }

    #[test]
    fn only_what_does_harm_is_escaped() {
        assert_eq!(quoted(r#"a 'b" \ 起動"#), r#"'a 'b" \ 起動'"#);
        assert_eq!(plain("\u{1b}[2J\r\n\u{202e}"), r"\u{1b}[2J\r\n\u{202e}");
    }
}
