//! Human-readable durations, such as `500us`, `250ms`, `5s`, `1m30s`, `1.5h` or `30d`. The format
//! is jiff's friendly format. The library's configuration uses the same format, but does not accept
//! days or weeks.

use std::time::Duration;

use jiff::SpanRelativeTo;
use jiff::fmt::friendly::{Designator, Spacing, SpanParser, SpanPrinter};

use super::text::quoted;

const PRINTER: SpanPrinter = SpanPrinter::new().designator(Designator::HumanTime).spacing(Spacing::None);

/// Parses the value of `option` as a duration. If the text is invalid, returns an error that
/// specifies what `option` must be.
pub(crate) fn parse(option: &str, text: &str) -> Result<Duration, String> {
    let parsed = SpanParser::new().parse_unsigned_duration(text).ok().or_else(|| with_days(text));
    parsed.ok_or_else(|| format!("{option} must be a duration such as 250ms or 1m30s, got {}", quoted(text)))
}

/// Parses a duration with weeks, or with days of 24 hours.
fn with_days(text: &str) -> Option<Duration> {
    let span = SpanParser::new().parse_span(text).ok()?;
    span.to_duration(SpanRelativeTo::days_are_24_hours()).ok()?.try_into().ok()
}

/// Like [`parse`], but rejects zero.
pub(crate) fn parse_positive(option: &str, text: &str) -> Result<Duration, String> {
    match parse(option, text)? {
        Duration::ZERO => Err(format!("{option} must be more than 0s, got {}", quoted(text))),
        duration => Ok(duration),
    }
}

/// Formats a duration in the form that [`parse`] accepts, in whole milliseconds.
pub(crate) fn show(duration: Duration) -> String {
    PRINTER.unsigned_duration_to_string(&Duration::from_millis(duration.as_millis() as u64))
}

/// Formats a number of seconds in its two largest units.
#[cfg(any(feature = "analysis", feature = "top"))]
pub(crate) fn rough(seconds: u64) -> String {
    match (seconds / 86_400, seconds / 3600 % 24, seconds / 60 % 60, seconds % 60) {
        (0, 0, 0, seconds) => format!("{seconds}s"),
        (0, 0, minutes, seconds) => format!("{minutes}m{seconds}s"),
        (0, hours, minutes, _) => format!("{hours}h{minutes}m"),
        (days, hours, ..) => format!("{days}d{hours}h"),
    }
}

#[cfg(test)]
mod tests {
    use super::{parse, parse_positive, show};
    use std::time::Duration;

    #[test]
    fn reads_what_people_write() {
        for (text, millis) in [
            ("0s", 0),
            ("2000us", 2),
            ("500ms", 500),
            ("0.5s", 500),
            ("5 s", 5_000),
            ("1m30s", 90_000),
            ("1.5m", 90_000),
            ("1h 5m", 3_900_000),
            ("1d12h", 129_600_000),
            ("2w", 1_209_600_000),
        ] {
            assert_eq!(parse("--for", text), Ok(Duration::from_millis(millis)), "{text}");
        }
    }

    #[test]
    fn errors_explain_invalid_durations() {
        for text in [
            "5",
            "",
            "s",
            "-5s",
            "1.2.3s",
            "1e3s",
            "infs",
            "-5d",
            "1.5d",
            "1mo",
            "1y",
            "99999999999999999999h",
        ] {
            let expected = format!("--for must be a duration such as 250ms or 1m30s, got '{text}'");
            assert_eq!(parse("--for", text), Err(expected));
        }
        assert!(parse("--for", "\u{1b}[31m").unwrap_err().ends_with(r"got '\u{1b}[31m'"));
    }

    #[test]
    fn zero_is_refused_by_name() {
        assert_eq!(parse_positive("--backoff", "1ms"), Ok(Duration::from_millis(1)));
        for zero in ["0s", "0ms"] {
            let expected = format!("--backoff must be more than 0s, got '{zero}'");
            assert_eq!(parse_positive("--backoff", zero), Err(expected));
        }
        assert!(parse_positive("--backoff", "soon").unwrap_err().contains("must be a duration"));
    }

    #[test]
    fn shows_what_it_reads() {
        for text in ["0s", "100ms", "10s", "1m30s", "2m", "1h", "1s500ms"] {
            assert_eq!(show(parse("--for", text).unwrap()), text);
        }
    }
}
