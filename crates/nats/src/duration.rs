//! Durations in configuration files, in the form that eventcast's own options have: text such as
//! `250ms` or `1m30s`, or a number of seconds. Fields use this module by `#[serde(with = ...)]`.

use std::fmt;
use std::time::Duration;

use eventcast::escape::escape_to;
use jiff::fmt::friendly::{Designator, Spacing, SpanParser, SpanPrinter};
use serde::{Deserializer, Serializer, de};

const PARSER: SpanParser = SpanParser::new();
/// The form without blanks, and with `us` for microseconds: `1m30s`.
const PRINTER: SpanPrinter = SpanPrinter::new().designator(Designator::HumanTime).spacing(Spacing::None);

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
pub(crate) fn serialize<S: Serializer>(duration: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&PRINTER.unsigned_duration_to_string(duration))
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
            PARSER.parse_unsigned_duration(text).map_err(|_| {
                let shown = escape_to(text, 64);
                E::custom(format_args!("invalid duration `{shown}`: expected a form such as 250ms or 1m30s"))
            })
        }
    }

    deserializer.deserialize_any(Visitor)
}

/// The same for a field that may be left out.
pub(crate) mod option {
    use std::time::Duration;

    use serde::{Deserialize, Deserializer, Serializer};

    #[derive(Deserialize)]
    struct Wrapped(#[serde(with = "super")] Duration);

    #[allow(clippy::ref_option, reason = "serde passes such a reference")]
    pub(crate) fn serialize<S: Serializer>(
        duration: &Option<Duration>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        match duration {
            Some(duration) => super::serialize(duration, serializer),
            None => serializer.serialize_none(),
        }
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<Duration>, D::Error> {
        Ok(Option::<Wrapped>::deserialize(deserializer)?.map(|Wrapped(duration)| duration))
    }
}
