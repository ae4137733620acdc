//! Replaces lone surrogates in JSON escapes.

/// Replaces each escaped lone surrogate with U+FFFD, like Go's decoder. Without this replacement, a
/// single lone surrogate would make the whole document unreadable.
pub(super) fn without_halves(json: String) -> String {
    let unit = |escape: &[u8]| -> Option<u16> {
        let digits = escape.strip_prefix(b"\\u")?.get(..4)?;
        u16::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()
    };
    let mut bytes = json.into_bytes();
    let mut at = 0;
    while let Some(next) = bytes.get(at..).and_then(|rest| rest.iter().position(|byte| *byte == b'\\')) {
        at += next;
        let second = || unit(bytes.get(at + 6..).unwrap_or_default());
        at += match unit(&bytes[at..]) {
            Some(0xD800..=0xDBFF) if matches!(second(), Some(0xDC00..=0xDFFF)) => 12,
            Some(0xD800..=0xDFFF) => {
                bytes[at + 2..at + 6].copy_from_slice(b"fffd");
                6
            }
            // Skips two bytes, so that an escaped backslash is not mistaken for the beginning of
            // another escape.
            _ => 2,
        };
    }
    // The bytes are still UTF-8, because hexadecimal digits were only replaced by other hexadecimal
    // digits.
    String::from_utf8(bytes).unwrap_or_default()
}
