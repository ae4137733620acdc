//! Text from outside in messages for a terminal.

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

#[cfg(test)]
mod tests {
    use super::{plain, quoted};

    #[test]
    fn only_what_does_harm_is_escaped() {
        assert_eq!(quoted(r#"a 'b" \ 起動"#), r#"'a 'b" \ 起動'"#);
        assert_eq!(plain("\u{1b}[2J\r\n\u{202e}"), r"\u{1b}[2J\r\n\u{202e}");
    }
}
