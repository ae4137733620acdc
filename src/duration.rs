//! Durations in configuration files: text such as `250ms`, or a number of seconds. Fields use this
//! module by `#[serde(with = ...)]`.

use std::fmt::{self, Write as _};
use std::time::Duration;

use serde::{Deserializer, Serializer, de};

use crate::escape::escaped_to;

/// The units and their nanoseconds, the largest first.
const UNITS: [(&str, u128); 7] = [
    ("d", 86_400_000_000_000),
    ("h", 3_600_000_000_000),
    ("m", 60_000_000_000),
    ("s", 1_000_000_000),
    ("ms", 1_000_000),
    ("us", 1_000),
    ("ns", 1),
];

pub(crate) fn serialize<S: Serializer>(duration: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&text(*duration))
}

pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
    struct Visitor;

    impl de::Visitor<'_> for Visitor {
        type Value = Duration;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a duration such as \"10m\", or a number of seconds")
        }

        fn visit_u64<E: de::Error>(self, seconds: u64) -> Result<Duration, E> {
            Ok(Duration::from_secs(seconds))
        }

        fn visit_i64<E: de::Error>(self, seconds: i64) -> Result<Duration, E> {
            let unexpected = || E::invalid_value(de::Unexpected::Signed(seconds), &self);
            u64::try_from(seconds).map(Duration::from_secs).map_err(|_| unexpected())
        }

        fn visit_str<E: de::Error>(self, text: &str) -> Result<Duration, E> {
            parse(text).ok_or_else(|| {
                let shown = escaped_to(text, 64);
                E::custom(format_args!(
                    "invalid duration `{shown}`: expected a number and a unit, such as 250ms or 10m"
                ))
            })
        }
    }

    deserializer.deserialize_any(Visitor)
}

/// Returns a text such as `1m30s`. A unit whose count is zero is left out, and a zero duration is
/// `0s`.
fn text(duration: Duration) -> String {
    let mut text = String::new();
    let mut rest = duration.as_nanos();
    for (unit, nanos) in UNITS {
        if rest >= nanos {
            // Writing to a string cannot fail.
            let _ = write!(text, "{}{unit}", rest / nanos);
            rest %= nanos;
        }
    }
    if text.is_empty() {
        text.push_str("0s");
    }
    text
}

/// Parses whole numbers, each with its unit, with or without blanks. Returns `None` if the text has
/// another form, or if the sum is more than a `Duration` holds.
fn parse(text: &str) -> Option<Duration> {
    let mut rest = text.trim();
    let mut sum: u128 = 0;
    if rest.is_empty() {
        return None;
    }
    while !rest.is_empty() {
        let (number, tail) = rest.split_at(rest.find(|c: char| !c.is_ascii_digit())?);
        let tail = tail.trim_start();
        let (unit, tail) = tail.split_at(tail.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(tail.len()));
        let (_, nanos) = UNITS.iter().find(|(name, _)| *name == unit)?;
        sum = sum.checked_add(number.parse::<u128>().ok()?.checked_mul(*nanos)?)?;
        rest = tail.trim_start();
    }
    let second = 1_000_000_000;
    Some(Duration::new(u64::try_from(sum / second).ok()?, (sum % second) as u32))
}

#[cfg(test)]
mod tests {
    use super::{parse, text};
    use std::time::Duration;

    #[test]
    fn every_duration_is_read_as_it_was_written() {
        for (duration, expected) in [
            (Duration::ZERO, "0s"),
            (Duration::from_millis(250), "250ms"),
            (Duration::from_secs(10), "10s"),
            (Duration::from_secs(90), "1m30s"),
            (Duration::from_secs(3600), "1h"),
            (Duration::new(86_401, 2_000_003), "1d1s2ms3ns"),
            (Duration::MAX, "213503982334601d7h15s999ms999us999ns"),
        ] {
            assert_eq!(text(duration), expected);
            assert_eq!(parse(expected), Some(duration), "{expected}");
        }
    }

    #[test]
    fn blanks_are_allowed_and_other_text_is_not() {
        assert_eq!(parse(" 1m 30 s "), Some(Duration::from_secs(90)));
        for text in ["", " ", "10", "s", "-1s", "1.5s", "1x", "1s2", "1 m s", "ä", "213503982334602d"] {
            assert_eq!(parse(text), None, "{text}");
        }
        assert_eq!(parse(&format!("{}ns", "9".repeat(50))), None);
    }
}
