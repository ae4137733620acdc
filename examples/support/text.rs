//! Text from outside in messages for a terminal.

use std::fmt::Write as _;

/// In quotes, with everything escaped that could do something to a terminal; quotes and backslashes stay as typed.
pub(crate) fn quoted(text: &str) -> String {
    format!("'{}'", plain(text))
}

/// As [`quoted`], without the quotes around it.
pub(crate) fn plain(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\'' | '"' | '\\' => shown.push(c),
            c => shown.extend(c.escape_debug()),
        }
    }
    shown
}

/// Text that is shown as it is, in any script, but for what could do something to a terminal.
pub(crate) fn harmless(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        if obeyed(c) { shown.extend(c.escape_default()) } else { shown.push(c) }
    }
    shown
}

/// JSON with the same content and without what could do something to a terminal: JSON itself lets some of that stand.
pub(crate) fn harmless_json(json: &str) -> String {
    let mut shown = String::with_capacity(json.len());
    for c in json.chars() {
        // Outside of strings there are only the newlines between lines; and none needs two units of UTF-16.
        if obeyed(c) && c != '\n' {
            let _ = write!(shown, "\\u{:04x}", u32::from(c));
        } else {
            shown.push(c);
        }
    }
    shown
}

/// Whether a terminal obeys this character instead of showing it: controls, line separators, writing directions.
fn obeyed(c: char) -> bool {
    let separators_and_directions = ['\u{061c}', '\u{200e}', '\u{200f}', '\u{2028}', '\u{2029}'];
    c.is_control()
        || separators_and_directions.contains(&c)
        || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use super::{harmless, harmless_json, plain, quoted};

    #[test]
    fn other_scripts_stay_and_what_is_obeyed_does_not() {
        assert_eq!(harmless("e\u{301} हिन्दी 'x' \"y\" \\"), "e\u{301} हिन्दी 'x' \"y\" \\");
        assert_eq!(harmless("\u{1b}[2J\r\n\u{9b}\u{202e}\u{2028}"), r"\u{1b}[2J\r\n\u{9b}\u{202e}\u{2028}");
    }

    #[test]
    fn json_keeps_its_content() {
        let json = serde_json::to_string_pretty(&["\u{9b}31m\u{202e}\u{7f}\u{1b} é \"\n"]).unwrap();
        let shown = harmless_json(&json);
        assert!(!shown.contains(['\u{9b}', '\u{202e}', '\u{7f}']), "{shown}");
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
