//! Subjects, which are the addresses of messages and consist of tokens separated by dots.

use std::fmt;

use eventcast::Event;
use eventcast::topics::SubjectPattern;

use crate::error::BuildError;

/// The maximum number of tokens in a subject.
const MAX_TOKENS: usize = 16;
/// The maximum length of a subject in bytes.
const MAX_BYTES: usize = 255;

/// The subject of an event, which consists of a prefix and tokens, separated by dots.
///
/// A token may be any string. Each byte except `A` to `Z`, `a` to `z`, `0` to `9`, `_` and `-` is
/// encoded as `%` and two hexadecimal digits, and an empty token is encoded as `%`. Unless tokens
/// are left out, two different lists of tokens therefore never produce the same subject, and a
/// token with a dot remains one token.
///
/// A subject has at most 16 tokens and 255 bytes. Tokens that do not fit are left out, and no token
/// is truncated.
///
/// # Examples
///
/// ```
/// use eventcast_nats::Subject;
///
/// let subject = Subject::new("events").token("kube-system").token("web.example.com").token("");
/// assert_eq!(subject.as_str(), "events.kube-system.web%2Eexample%2Ecom.%");
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[must_use = "a subject does nothing by itself"]
pub struct Subject {
    text: String,
    tokens: usize,
}

impl Subject {
    /// Creates a subject that begins with `prefix`. Dots in the prefix separate tokens, and each of
    /// these tokens is escaped.
    ///
    /// # Examples
    ///
    /// ```
    /// use eventcast_nats::Subject;
    ///
    /// assert_eq!(Subject::new("shop.orders").as_str(), "shop.orders");
    /// assert_eq!(Subject::new("shop orders").as_str(), "shop%20orders");
    /// ```
    pub fn new(prefix: &str) -> Self {
        prefix.split('.').fold(Self { text: String::with_capacity(64), tokens: 0 }, Self::push)
    }

    /// Creates the subject of a recorded event, which consists of the prefix, the object's
    /// namespace, the event's type, the object's kind and the event's reason. A reader can select
    /// all warnings with the filter `events.*.Warning.>`.
    ///
    /// # Examples
    ///
    /// ```
    /// use eventcast::{Event, ObjectReference};
    /// use eventcast_nats::Subject;
    ///
    /// let mut event = Event::default();
    /// event.involved_object = ObjectReference::new("Disk", "sda");
    /// event.type_ = "Warning".into();
    /// event.reason = "AlmostFull".into();
    /// assert_eq!(Subject::of_event("events", &event).as_str(), "events.%.Warning.Disk.AlmostFull");
    /// ```
    pub fn of_event(prefix: &str, event: &Event) -> Self {
        let tokens =
            [&event.involved_object.namespace, &event.type_, &event.involved_object.kind, &event.reason];
        tokens.into_iter().fold(Self::new(prefix), |subject, token| subject.token(token))
    }

    /// Escapes a token, and appends it to the subject.
    ///
    /// # Examples
    ///
    /// ```
    /// use eventcast_nats::Subject;
    ///
    /// assert_eq!(Subject::new("ticks").token("A/B").as_str(), "ticks.A%2FB");
    /// ```
    pub fn token(self, text: &str) -> Self {
        self.push(text)
    }

    /// Returns the subject in the form used by NATS.
    ///
    /// # Examples
    ///
    /// ```
    /// use eventcast_nats::Subject;
    ///
    /// assert_eq!(Subject::new("ticks").token("EUR").as_str(), "ticks.EUR");
    /// ```
    pub fn as_str(&self) -> &str {
        &self.text
    }

    fn push(mut self, token: &str) -> Self {
        let before = self.text.len();
        if self.tokens > 0 {
            self.text.push('.');
        }
        escape_token(token, &mut self.text);
        if self.tokens == MAX_TOKENS || self.text.len() > MAX_BYTES {
            self.text.truncate(before);
        } else {
            self.tokens += 1;
        }
        self
    }
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// Appends an escaped token to a string.
fn escape_token(token: &str, to: &mut String) {
    if token.is_empty() {
        to.push('%');
    }
    for byte in token.bytes() {
        if byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-' {
            to.push(char::from(byte));
        } else {
            let digit = |value: u8| char::from(b"0123456789ABCDEF"[usize::from(value & 15)]);
            to.extend(['%', digit(byte >> 4), digit(byte)]);
        }
    }
}

/// Checks a subject prefix.
pub(crate) fn check_prefix(prefix: &str) -> Result<(), BuildError> {
    let is_right = Subject::new(prefix).as_str() == prefix;
    if is_right {
        Ok(())
    } else {
        Err(BuildError::invalid("prefix", "tokens separated by dots", quoted(prefix)))
    }
}

/// Checks a subject filter, which may contain the wildcards `*` and `>`.
pub(crate) fn check_filter(filter: &str) -> Result<(), BuildError> {
    let is_right = SubjectPattern::new(filter).is_ok()
        && filter.bytes().all(|byte| byte.is_ascii_graphic())
        && filter.len() <= MAX_BYTES
        && filter.split('.').count() <= MAX_TOKENS;
    if is_right {
        Ok(())
    } else {
        Err(BuildError::invalid("filter", "a subject, with * for a token and > at the end", quoted(filter)))
    }
}

/// Checks the name of a stream.
pub(crate) fn check_stream(name: &str) -> Result<(), BuildError> {
    let is_right = !name.is_empty()
        && name.len() <= MAX_BYTES
        && name.bytes().all(|b| b.is_ascii_graphic() && !matches!(b, b'.' | b'*' | b'>' | b'/' | b'\\'));
    if is_right {
        Ok(())
    } else {
        Err(BuildError::invalid("stream", "a name without dots, spaces, *, >, / and \\", quoted(name)))
    }
}

/// Returns the beginning of a string, escaped and enclosed in backquotes.
fn quoted(text: &str) -> String {
    format!("`{:.64}`", eventcast::escape::escape(text))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn tokens_are_escaped_and_bounded() {
        let subject = Subject::new("events").token("a.b").token("*").token(">").token("ä").token("");
        assert_eq!(subject.as_str(), "events.a%2Eb.%2A.%3E.%C3%A4.%");
        let many = (0..40).fold(Subject::new("p"), |subject, _| subject.token("t"));
        assert_eq!(many.as_str().split('.').count(), 16);
        let long = Subject::new("p").token(&"x".repeat(300)).token("short");
        assert_eq!(long.as_str(), "p.short");
    }

    #[test]
    fn options_are_checked() {
        assert!(check_prefix("events.a-b").is_ok());
        for wrong in ["", "a..b", "a b", "a.*", ">"] {
            assert!(check_prefix(wrong).is_err(), "{wrong}");
        }
        for right in ["a", "a.*.c", "a.>", ">", "*", "*.b.>", "a.%2E"] {
            assert!(check_filter(right).is_ok(), "{right}");
        }
        for wrong in ["", "a..b", "a b", "a.>.b", "a.b*", "a\r\n"] {
            assert!(check_filter(wrong).is_err(), "{wrong}");
        }
        assert!(check_stream("EVENTS_1").is_ok());
        for wrong in ["", "a.b", "a b", "a*", "a/b"] {
            assert!(check_stream(wrong).is_err(), "{wrong}");
        }
    }

    proptest! {
        #[test]
        fn different_tokens_make_different_subjects(a in ".{0,12}", b in ".{0,12}") {
            let subject = |token: &str| Subject::new("p").token(token).to_string();
            prop_assert_eq!(subject(&a) == subject(&b), a == b);
            prop_assert!(check_filter(&subject(&a)).is_ok() && !subject(&a).contains(['*', '>']));
            prop_assert_eq!(subject(&a).split('.').count(), 2);
        }
    }
}
