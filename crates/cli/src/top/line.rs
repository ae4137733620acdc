//! Parses the statistics in a line.

use std::fmt;
use std::time::Duration;

use eventcast::stats::DropCounts;
use eventcast::{OverflowPolicy, Timestamp};
use serde::de::value::{MapAccessDeserializer, SeqAccessDeserializer};
use serde::de::{MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::Value;

/// The maximum length of a name, in bytes. A longer name is truncated.
const MAX_NAME: usize = 256;

/// The statistics in a line.
#[derive(Debug)]
pub(crate) struct Line {
    /// The name of the bus. Empty if the line has no name.
    pub(crate) name: String,
    /// The time in seconds since 1970.
    pub(crate) time: Option<f64>,
    pub(crate) bus: Bus,
}

/// The part of a bus's statistics that is shown. The first two keys distinguish a bus's statistics
/// from other JSON.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Bus {
    pub(crate) accepted: u64,
    #[serde(deserialize_with = "watchers")]
    pub(crate) watchers: Vec<Watcher>,
    #[serde(default)]
    pub(crate) pending: u64,
    #[serde(default)]
    pub(crate) unheard: u64,
    #[serde(default)]
    pub(crate) rejected_full: u64,
    #[serde(default)]
    pub(crate) rejected_closed: u64,
    #[serde(default)]
    pub(crate) departed: Option<Watcher>,
}

/// The part of a watcher's statistics that is shown.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Watcher {
    #[serde(deserialize_with = "short_name")]
    pub(crate) name: String,
    pub(crate) policy: Option<OverflowPolicy>,
    pub(crate) offered: u64,
    pub(crate) delivered: u64,
    #[serde(default)]
    pub(crate) dropped: DropCounts,
    #[serde(default)]
    pub(crate) queued: u64,
    #[serde(default)]
    pub(crate) lag: u64,
    #[serde(default)]
    pub(crate) high_water: u64,
    /// The age of the oldest event in the queue. Zero if the age is unknown.
    #[serde(default, deserialize_with = "age")]
    pub(crate) oldest_age: Duration,
}

impl Watcher {
    /// Returns the number of lost events. Events that were replaced by newer ones are not lost.
    pub(crate) fn lost(&self) -> u64 {
        self.dropped.total() - self.dropped.conflated
    }
}

/// The reason why a line is skipped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Skip {
    /// The line begins like a JSON object, but is not complete.
    Torn,
    /// The line is not a bus's statistics.
    Foreign,
    /// The line, or the number of buses or watchers, exceeds a limit.
    TooLarge,
}

/// The keys around the statistics of a bus.
#[derive(Deserialize)]
struct Envelope {
    bus: Option<Bus>,
    name: Option<String>,
    time: Option<Value>,
}

/// Parses a line without its newline.
pub(crate) fn parse(line: &[u8]) -> Result<Line, Skip> {
    let line = line.trim_ascii();
    // A derived implementation would also accept an array of the fields' values.
    if !line.starts_with(b"{") {
        return Err(Skip::Foreign);
    }
    let skip = |error: serde_json::Error| if error.is_data() { Skip::Foreign } else { Skip::Torn };
    let Envelope { bus, name, time } = serde_json::from_slice(line).map_err(skip)?;
    let bus = bus.map_or_else(|| serde_json::from_slice(line).map_err(skip), Ok)?;
    let name = name.map(shortened).unwrap_or_default();
    Ok(Line { name, time: time.as_ref().and_then(seconds), bus })
}

/// Converts a time to seconds since 1970.
fn seconds(time: &Value) -> Option<f64> {
    match time {
        Value::Number(seconds) => seconds.as_f64(),
        Value::String(text) => {
            let at: Timestamp = text.parse().ok()?;
            (at >= Timestamp::UNIX_EPOCH).then(|| at.duration_since(Timestamp::UNIX_EPOCH).as_secs_f64())
        }
        _ => None,
    }
}

/// Truncates a name to its maximum length.
fn shortened(mut name: String) -> String {
    let end = (0..=MAX_NAME.min(name.len())).rfind(|end| name.is_char_boundary(*end));
    name.truncate(end.unwrap_or(0));
    name.shrink_to_fit();
    name
}

fn short_name<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    String::deserialize(deserializer).map(shortened)
}

/// Deserializes an age. An age in an unknown form counts as unknown.
fn age<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
    let value = Value::deserialize(deserializer)?;
    Ok(eventcast::duration::deserialize(value).unwrap_or_default())
}

/// Deserializes the watchers of a bus, or the sum over all watchers of topics.
fn watchers<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Watcher>, D::Error> {
    struct Watchers;

    impl<'de> Visitor<'de> for Watchers {
        type Value = Vec<Watcher>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("the statistics of watchers")
        }

        fn visit_seq<A: SeqAccess<'de>>(self, watchers: A) -> Result<Self::Value, A::Error> {
            Vec::deserialize(SeqAccessDeserializer::new(watchers))
        }

        fn visit_map<A: MapAccess<'de>>(self, sum: A) -> Result<Self::Value, A::Error> {
            let mut sum = Watcher::deserialize(MapAccessDeserializer::new(sum))?;
            "(all topics)".clone_into(&mut sum.name);
            Ok(vec![sum])
        }
    }

    deserializer.deserialize_any(Watchers)
}

#[cfg(test)]
mod tests {
    use super::{Skip, parse};

    #[test]
    fn a_line_needs_the_keys_of_a_bus() {
        for (line, skip) in [
            ("{}", Skip::Foreign),
            ("[]", Skip::Foreign),
            ("[null, null, null]", Skip::Foreign),
            ("12 lines", Skip::Foreign),
            (r#"{"accepted": 1}"#, Skip::Foreign),
            (r#"{"watchers": []}"#, Skip::Foreign),
            (r#"{"accepted": -1, "watchers": []}"#, Skip::Foreign),
            (r#"{"accepted": 1, "watchers": 7}"#, Skip::Foreign),
            (r#"{"accepted": 1, "watchers": [{}]}"#, Skip::Foreign),
            (r#"{"bus": {}}"#, Skip::Foreign),
            (r#"{"accepted": 1, "watchers": ["#, Skip::Torn),
            (r#"{"accepted": 1, "wat{"accepted": 1, "watchers": []}"#, Skip::Torn),
            ("{", Skip::Torn),
            ("{\u{0}", Skip::Torn),
        ] {
            assert_eq!(parse(line.as_bytes()).unwrap_err(), skip, "{line}");
        }
        assert!(parse(br#" {"accepted": 1, "watchers": [], "new key": [{}]} "#).is_ok());
        assert!(parse(br#"{"bus": {"accepted": 1, "watchers": []}, "complete": true}"#).is_ok());
    }

    #[test]
    fn a_time_is_a_number_or_a_timestamp() {
        for (time, expected) in [
            ("1700000000", Some(1_700_000_000.0)),
            ("1700000000.5", Some(1_700_000_000.5)),
            ("\"2023-11-14T22:13:20.5Z\"", Some(1_700_000_000.5)),
            ("\"2023-11-14T23:13:20+01:00\"", Some(1_700_000_000.0)),
            ("\"yesterday\"", None),
            ("null", None),
            ("[]", None),
        ] {
            let line = format!(r#"{{"accepted": 1, "watchers": [], "time": {time}}}"#);
            assert_eq!(parse(line.as_bytes()).unwrap().time, expected, "{time}");
        }
    }

    #[test]
    fn an_unknown_age_is_zero() {
        for (age, millis) in [("\"1.5s\"", 1500), ("2", 2000), ("\"soon\"", 0), ("null", 0), ("-1", 0)] {
            let line = format!(
                r#"{{"accepted": 1, "watchers": [{{"name": "a", "offered": 0, "delivered": 0, "oldest_age": {age}}}]}}"#
            );
            let line = parse(line.as_bytes()).unwrap();
            assert_eq!(line.bus.watchers[0].oldest_age.as_millis(), millis, "{age}");
        }
    }

    #[test]
    fn the_watchers_of_topics_are_a_sum() {
        let text = r#"{"topics": 2, "created": 2, "accepted": 1, "unheard": 3, "rejected_full": 0,
            "watchers": {"name": "", "policy": null, "offered": 1, "delivered": 0, "queued": 1}}"#;
        let line = parse(text.as_bytes()).unwrap();
        let [sum] = &line.bus.watchers[..] else { panic!("{line:?}") };
        assert_eq!((&*sum.name, sum.offered, sum.queued), ("(all topics)", 1, 1));
    }

    #[test]
    fn a_long_name_is_truncated_between_two_characters() {
        let name = "é".repeat(1000) + "x";
        let line = format!(r#"{{"accepted": 1, "watchers": [], "name": "x{name}"}}"#);
        assert_eq!(parse(line.as_bytes()).unwrap().name, format!("x{}", "é".repeat(127)));
    }
}
