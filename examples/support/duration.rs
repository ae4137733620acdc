//! Durations as people write them: `500us`, `500ms`, `5s`, `1.5m`, `2h`.

use std::time::Duration;

use super::text::quoted;

/// The end of the messages about a text that is not a duration.
const FORM: &str = "write a number and a unit, as in 500ms, 5s, 2m or 1h";

/// Reads one duration. Returns what is wrong with the text and what to write instead, if it is not
/// a duration.
pub(crate) fn parse(text: &str) -> Result<Duration, String> {
    let split = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(split);
    let seconds_per_unit = match unit {
        "us" => 0.000_001,
        "ms" => 0.001,
        "s" => 1.0,
        "m" => 60.0,
        "h" => 3600.0,
        "" if !number.is_empty() => {
            return Err(format!("{} has no unit: {FORM}", quoted(text)));
        }
        _ => return Err(format!("{} is not a duration: {FORM}", quoted(text))),
    };
    let number: f64 = number.parse().map_err(|_| format!("{} is not a duration: {FORM}", quoted(text)))?;
    Duration::try_from_secs_f64(number * seconds_per_unit)
        .map_err(|_| format!("{} is too long: write a shorter one, as in 500ms, 5s, 2m or 1h", quoted(text)))
}

/// Returns a duration in the largest unit that leaves it whole, down to milliseconds.
pub(crate) fn show(duration: Duration) -> String {
    let millis = duration.as_millis();
    match millis {
        0 => "0s".to_owned(),
        _ if millis % 3_600_000 == 0 => format!("{}h", millis / 3_600_000),
        _ if millis % 60_000 == 0 => format!("{}m", millis / 60_000),
        _ if millis % 1000 == 0 => format!("{}s", millis / 1000),
        _ => format!("{millis}ms"),
    }
}

#[cfg(test)]
mod tests {
    use super::{parse, show};
    use std::time::Duration;

    #[test]
    fn reads_what_people_write() {
        for (text, millis) in [
            ("0s", 0),
            ("2000us", 2),
            ("500ms", 500),
            ("5s", 5_000),
            ("0.5s", 500),
            (".25s", 250),
            ("1.5m", 90_000),
            ("2m", 120_000),
            ("1h", 3_600_000),
        ] {
            assert_eq!(parse(text), Ok(Duration::from_millis(millis)), "{text}");
        }
    }

    #[test]
    fn says_what_is_wrong() {
        for (text, part) in [
            ("5", "'5' has no unit"),
            ("", "'' is not a duration"),
            ("s", "'s' is not a duration"),
            ("-5s", "'-5s' is not a duration"),
            ("1.2.3s", "'1.2.3s' is not a duration"),
            ("5 s", "'5 s' is not a duration"),
            ("1e3s", "'1e3s' is not a duration"),
            ("infs", "'infs' is not a duration"),
            ("5d", "'5d' is not a duration"),
            ("99999999999999999999h", "is too long: write a shorter one"),
            ("\u{1b}[31m", r"'\u{1b}[31m' is not a duration"),
        ] {
            let error = parse(text).unwrap_err();
            assert!(error.contains(part), "{text}: {error}");
            assert!(error.ends_with("as in 500ms, 5s, 2m or 1h"), "{text}: {error}");
        }
    }

    #[test]
    fn shows_the_largest_whole_unit() {
        for text in ["0s", "100ms", "10s", "90s", "2m", "1h", "1500ms"] {
            assert_eq!(show(parse(text).unwrap()), text);
        }
    }
}
