//! The headers of a message.
//!
//! | header | value |
//! |---|---|
//! | `Nats-Msg-Id` | `<origin>.<first>`, by which the server recognises a repeated message |
//! | `Eventcast-Origin` | 22 letters and digits, new each time a publisher starts |
//! | `Eventcast-Source` | free text: the host and the program |
//! | `Eventcast-First` | the position of the first event among all events of the origin |
//! | `Eventcast-Count` | the number of events |
//! | `Eventcast-Lost` | the number of events that were lost just before the first, if any |
//! | `Eventcast-Subject-First` | the number of the first event within its subject |
//! | `Eventcast-Codec` | the name of the codec |
//! | `Eventcast-End` | `1` on the last message of an orderly shutdown |
//!
//! The positions in these headers also count lost events.

use std::fmt;
use std::io;
use std::sync::Arc;

use async_nats::HeaderMap;
use async_nats::header::{HeaderName, HeaderValue};

const MESSAGE_ID: &str = "Nats-Msg-Id";
const ORIGIN: &str = "Eventcast-Origin";
const SOURCE: &str = "Eventcast-Source";
const FIRST: &str = "Eventcast-First";
const COUNT: &str = "Eventcast-Count";
const LOST: &str = "Eventcast-Lost";
const SUBJECT_FIRST: &str = "Eventcast-Subject-First";
const CODEC: &str = "Eventcast-Codec";
const END: &str = "Eventcast-End";

/// The maximum length of an origin that a reader accepts, in bytes.
const MAX_ORIGIN: usize = 64;
/// The length of the origins that this crate generates.
const ORIGIN_LEN: usize = 22;
/// The largest number that a header may contain. The sum of two such numbers does not overflow.
const MAX_NUMBER: u64 = u64::MAX / 4;

/// The identity of a publisher, which changes each time the publisher starts.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(crate) struct Origin(Arc<str>);

impl Origin {
    /// Returns 128 random bits as letters and digits.
    pub(crate) fn random() -> io::Result<Self> {
        const DIGITS: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
        let mut bytes = [0; 16];
        getrandom::fill(&mut bytes).map_err(|error| io::Error::other(error.to_string()))?;
        let mut value = u128::from_le_bytes(bytes);
        let digit = |_| {
            let digit = usize::try_from(value % 62).unwrap_or_default();
            value /= 62;
            char::from(DIGITS[digit])
        };
        Ok(Self((0..ORIGIN_LEN).map(digit).collect::<String>().into()))
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }

    pub(crate) fn shared(&self) -> Arc<str> {
        self.0.clone()
    }

    /// Parses an origin of 1 to 64 letters and digits.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let is_right =
            (1..=MAX_ORIGIN).contains(&text.len()) && text.bytes().all(|b| b.is_ascii_alphanumeric());
        is_right.then(|| Self(text.into()))
    }
}

impl fmt::Debug for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The headers of a message, except for the free text. These headers contain the positions of the
/// message's events.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Head {
    pub(crate) origin: Origin,
    /// The position of the message's first event among all events of the origin.
    pub(crate) first: u64,
    /// The number of events in the message.
    pub(crate) count: u64,
    /// The number of events that were lost just before the message's first event.
    pub(crate) lost: u64,
    /// The number of the message's first event among the sent events of this subject, or `None` if
    /// the publisher does not state it.
    pub(crate) subject_first: Option<u64>,
    pub(crate) codec: String,
    pub(crate) is_end: bool,
}

/// The reason why a message's headers are missing or invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Malformed {
    /// The message has no origin, so it was written by another program.
    Foreign,
    /// The header is missing, or its value is out of range.
    Header(&'static str),
}

impl Head {
    /// Returns the position after the message's last event.
    pub(crate) fn end(&self) -> u64 {
        self.first.saturating_add(self.count)
    }

    /// Returns the identity by which the server recognises a repeat of this message. Messages
    /// without events have a separate identity, because the message with the next event has the
    /// same position.
    pub(crate) fn message_id(&self) -> String {
        let kind = match (self.count, self.is_end) {
            (0, true) => ".end",
            (0, false) => ".gap",
            _ => "",
        };
        format!("{}.{}{kind}", self.origin.as_str(), self.first)
    }

    pub(crate) fn write(&self, source: &str) -> HeaderMap {
        let mut map = HeaderMap::new();
        // A static name is not copied.
        let mut insert = |name: &'static str, value: String| {
            map.insert(HeaderName::from_static(name), value);
        };
        insert(FIRST, self.first.to_string());
        insert(COUNT, self.count.to_string());
        if self.lost > 0 {
            insert(LOST, self.lost.to_string());
        }
        if let Some(first) = self.subject_first {
            insert(SUBJECT_FIRST, first.to_string());
        }
        insert(MESSAGE_ID, self.message_id());
        insert(ORIGIN, self.origin.as_str().to_owned());
        insert(CODEC, self.codec.clone());
        if !source.is_empty() {
            insert(SOURCE, source.to_owned());
        }
        if self.is_end {
            insert(END, "1".to_owned());
        }
        map
    }

    /// Reads the headers of an untrusted message whose payload has this many bytes.
    ///
    /// # Errors
    ///
    /// Returns an error if a header is missing or a value is out of range. An event takes at least
    /// one byte, so the payload limits the number of events. The sum of two values that were read
    /// does not overflow.
    pub(crate) fn read(map: Option<&HeaderMap>, payload: usize) -> Result<Self, Malformed> {
        let map = map.ok_or(Malformed::Foreign)?;
        let [origin, first, count, lost, subject_first, codec, end] = values(map);
        let number = |name: &'static str, value: Option<&str>| match value {
            None => Ok(None),
            Some(value) => parse_number(value).map(Some).ok_or(Malformed::Header(name)),
        };
        let origin = origin.ok_or(Malformed::Foreign)?;
        let head = Self {
            origin: Origin::parse(origin).ok_or(Malformed::Header(ORIGIN))?,
            first: number(FIRST, first)?.ok_or(Malformed::Header(FIRST))?,
            count: number(COUNT, count)?.ok_or(Malformed::Header(COUNT))?,
            lost: number(LOST, lost)?.unwrap_or(0),
            subject_first: number(SUBJECT_FIRST, subject_first)?,
            codec: codec.filter(|name| is_codec(name)).ok_or(Malformed::Header(CODEC))?.to_owned(),
            is_end: end.is_some(),
        };
        match head {
            head if head.lost > head.first => Err(Malformed::Header(LOST)),
            head if head.count > payload as u64 => Err(Malformed::Header(COUNT)),
            head => Ok(head),
        }
    }
}

/// Returns the values of the headers that [`Head::read`] needs. Unlike lookups in the map, a single
/// pass over the map neither copies nor hashes a name.
fn values(map: &HeaderMap) -> [Option<&str>; 7] {
    let mut values = [None; 7];
    for (name, all) in map.iter() {
        let at = match AsRef::<str>::as_ref(name) {
            ORIGIN => 0,
            FIRST => 1,
            COUNT => 2,
            LOST => 3,
            SUBJECT_FIRST => 4,
            CODEC => 5,
            END => 6,
            _ => continue,
        };
        values[at] = all.first().map(HeaderValue::as_str);
    }
    values
}

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Foreign => f.write_str("the message has no origin"),
            Self::Header(name) => write!(f, "the header {name} is missing or out of range"),
        }
    }
}

/// Returns whether a string is valid as the name of a codec.
pub(crate) fn is_codec(name: &str) -> bool {
    (1..=64).contains(&name.len()) && name.bytes().all(|byte| byte.is_ascii_graphic())
}

fn parse_number(text: &str) -> Option<u64> {
    let is_plain = text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|number| is_plain && *number <= MAX_NUMBER)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn head() -> Head {
        let origin = Origin::parse("abc").unwrap();
        let codec = "json-lines/1".to_owned();
        Head { origin, first: 7, count: 3, lost: 2, subject_first: Some(4), codec, is_end: false }
    }

    #[test]
    fn an_origin_is_new_each_time() {
        let (a, b) = (Origin::random().unwrap(), Origin::random().unwrap());
        assert_ne!(a, b);
        assert_eq!(a.as_str().len(), 22);
        assert_eq!(Origin::parse(a.as_str()), Some(a));
    }

    #[test]
    fn headers_are_read_back_unchanged() {
        let written = head().write("host/program");
        assert_eq!(written.get(MESSAGE_ID).unwrap().as_str(), "abc.7");
        assert_eq!(written.get(SOURCE).unwrap().as_str(), "host/program");
        assert_eq!(Head::read(Some(&written), 9), Ok(head()));
        let end = Head { count: 0, is_end: true, lost: 0, subject_first: None, ..head() };
        assert_eq!(Head::read(Some(&end.write("")), 0), Ok(end.clone()));
        assert_eq!(end.message_id(), "abc.7.end");
        assert_eq!(Head { is_end: false, ..end }.message_id(), "abc.7.gap");
    }

    #[test]
    fn hostile_headers_are_refused() {
        let with = |name: &'static str, value: &str| {
            let mut map = head().write("");
            map.insert(name, value);
            Head::read(Some(&map), 9)
        };
        for value in
            ["-1", "", "+1", "1e3", "18446744073709551615", "99999999999999999999999", "9223372036854775807"]
        {
            assert_eq!(with(FIRST, value), Err(Malformed::Header(FIRST)), "{value}");
            assert_eq!(with(COUNT, value), Err(Malformed::Header(COUNT)), "{value}");
        }
        assert_eq!(with(COUNT, "10"), Err(Malformed::Header(COUNT)));
        assert_eq!(with(LOST, "8"), Err(Malformed::Header(LOST)));
        for value in ["", "a b", "a.b", &"x".repeat(1 << 20)] {
            assert_eq!(with(ORIGIN, value), Err(Malformed::Header(ORIGIN)));
        }
        assert_eq!(with(CODEC, &"c".repeat(65)), Err(Malformed::Header(CODEC)));
        assert_eq!(Head::read(None, 9), Err(Malformed::Foreign));
        assert_eq!(Head::read(Some(&HeaderMap::new()), 9), Err(Malformed::Foreign));
    }

    proptest! {
        #[test]
        fn no_value_overflows(first in any::<u64>(), count in any::<u64>(), lost in any::<u64>()) {
            let written = Head { first, count, lost, ..head() }.write("");
            if let Ok(read) = Head::read(Some(&written), usize::MAX) {
                prop_assert!(read.first.checked_add(read.count).is_some());
                prop_assert!(read.lost <= read.first);
            }
        }
    }
}
