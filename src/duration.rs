//! Durations in configuration files, either as a string in jiff's friendly format, such as `250ms`
//! or `1m30s`, or as a number of seconds.
//!
//! This module is used by this crate's options, and can also be used by your own options:
//!
//! ```
//! use serde::{Deserialize, Serialize};
//! use std::time::Duration;
//!
//! #[derive(Serialize, Deserialize)]
//! struct Options {
//!     #[serde(with = "eventcast::duration")]
//!     pause: Duration,
//! }
//!
//! let options: Options = serde_json::from_str(r#"{"pause": "1m30s"}"#)?;
//! assert_eq!(options.pause, Duration::from_secs(90));
//! assert_eq!(serde_json::to_string(&options)?, r#"{"pause":"1m30s"}"#);
//! let error = serde_json::from_str::<Options>(r#"{"pause": "1d"}"#).err().unwrap();
//! assert!(error.to_string().starts_with("invalid duration `1d`: expected numbers with the units h, m, s,"));
//! # Ok::<(), serde_json::Error>(())
//! ```

use std::fmt;
use std::time::Duration;

use jiff::fmt::friendly::{Designator, Spacing, SpanParser, SpanPrinter};
use serde::{Deserializer, Serializer, de};

use crate::escape::escape;

const PARSER: SpanParser = SpanParser::new();
/// Prints durations without spaces, such as `1m30s`, and abbreviates microseconds to `us`.
const PRINTER: SpanPrinter = SpanPrinter::new().designator(Designator::HumanTime).spacing(Spacing::None);

/// Serializes a duration as a string, without loss of precision.
///
/// # Errors
///
/// Returns the serializer's error.
#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
pub fn serialize<S: Serializer>(duration: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&PRINTER.unsigned_duration_to_string(duration))
}

/// Deserializes a duration from a string or from a whole number of seconds.
///
/// # Errors
///
/// Returns an error if the string has a different format or a unit longer than an hour, or if the
/// number is negative.
pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
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
                let shown = escape(text);
                E::custom(format_args!(
                    "invalid duration `{shown:.64}`: expected numbers with the units h, m, s, ms, us or ns, such as \
                     250ms or 1m30s"
                ))
            })
        }
    }

    deserializer.deserialize_any(Visitor)
}

/// Parses a duration in jiff's friendly format. Returns `None` if the text has a different format.
pub(crate) fn parse(text: &str) -> Option<Duration> {
    PARSER.parse_unsigned_duration(text).ok()
}

#[cfg(test)]
mod tests {
    use super::{deserialize, serialize};
    use serde::de::IntoDeserializer as _;
    use serde::de::value::{Error, StrDeserializer};
    use std::time::Duration;

    fn read(text: &str) -> Result<Duration, String> {
        let deserializer: StrDeserializer<'_, Error> = text.into_deserializer();
        deserialize(deserializer).map_err(|error| error.to_string())
    }

    /// Displays the serialized duration. A formatter is also a serializer, which writes strings
    /// unchanged.
    struct Written(Duration);

    impl std::fmt::Display for Written {
        fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            serialize(&self.0, f)
        }
    }

    #[test]
    fn every_duration_is_read_as_it_was_written() {
        for (duration, expected) in [
            (Duration::ZERO, "0s"),
            (Duration::from_millis(250), "250ms"),
            (Duration::from_secs(10), "10s"),
            (Duration::from_secs(90), "1m30s"),
            (Duration::from_secs(3600), "1h"),
            (Duration::new(86_401, 2_003_004), "24h1s2ms3us4ns"),
            (Duration::MAX, "5124095576030431h15s999ms999us999ns"),
        ] {
            assert_eq!(Written(duration).to_string(), expected);
            assert_eq!(read(expected), Ok(duration), "{expected}");
        }
    }

    #[test]
    fn people_write_durations_in_several_ways() {
        for text in ["90s", "1m 30s", "1 min 30 sec", "1 minute, 30 seconds", "1.5m", "00:01:30"] {
            assert_eq!(read(text), Ok(Duration::from_secs(90)), "{text}");
        }
    }

    #[test]
    fn other_text_is_refused() {
        let overflow = ["18446744073709551616s", "5124095576030432h"];
        // A calendar unit has no fixed length.
        let calendar = ["1y", "1mo", "1w", "1d"];
        let other = ["", " ", "10", "s", "-1s", "1s ago", "1x", "1s2", "1 m s", "30s1m", "ä", "\u{1b}[2J"];
        for text in overflow.iter().chain(&calendar).chain(&other) {
            let error = read(text).unwrap_err();
            let shown = text.replace('\u{1b}', "\\u{1b}");
            assert!(error.starts_with(&format!("invalid duration `{shown:.64}`: expected ")), "{error}");
            assert!(error.ends_with(" h, m, s, ms, us or ns, such as 250ms or 1m30s"), "{error}");
        }
    }
}
