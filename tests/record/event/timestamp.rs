//! Timestamps.

use std::time::{Duration, SystemTime};

use eventcast::Timestamp;

use super::json::at;

#[test]
fn times_are_shown_and_read_as_rfc_3339() {
    for (text, seconds, nanos) in [
        ("1970-01-01T00:00:00Z", 0, 0),
        ("1969-12-31T23:59:59.999999999Z", -1, 999_999_999),
        ("2024-02-29T12:00:00.5Z", 1_709_208_000, 500_000_000),
        ("2000-03-01T00:00:00Z", 951_868_800, 0),
        ("0000-01-01T00:00:00Z", -62_167_219_200, 0),
        ("9999-12-31T23:59:59.999999999Z", 253_402_300_799, 999_999_999),
    ] {
        let time = Timestamp::new(seconds, nanos).unwrap();
        assert_eq!(time.to_string(), text);
        assert_eq!(at(text), time);
    }
    assert_eq!(at("2024-01-31T23:30:00-01:15"), at("2024-02-01T00:45:00Z"));
    assert_eq!(at("2024-01-31T23:30:00.1234567899999Z").subsec_nanos(), 123_456_789);
    assert_eq!(format!("{:.3}", at("2024-01-31T23:30:00.9999Z")), "2024-01-31T23:30:00.999Z");
}

#[test]
fn an_error_about_a_time_shows_its_text_escaped() {
    for text in [
        "",
        "2024-01-31",
        "2024-01-31T23:30:00",
        "2024-01-31 23:30:00Z",
        "2024-01-31t23:30:00z",
        "2024-1-31T23:30:00Z",
        "2024-02-30T23:30:00Z",
        "2023-02-29T23:30:00Z",
        "2024-01-31T24:00:00Z",
        "2024-01-31T23:60:00Z",
        "2024-01-31T23:59:60Z",
        "2024-01-31T23:30:00.Z",
        "2024-01-31T23:30:00.5",
        "2024-01-31T23:30:00+24:00",
        "2024-01-31T23:30:00+01:60",
        "2024-01-31T23:30:00+0100",
        "2024-01-31T23:30:00Zx",
        "2024-01-31T23:30:00é",
        "+024-01-31T23:30:00Z",
        "10000-01-01T00:00:00Z",
        "0000-01-01T00:00:00+00:01",
        "9999-12-31T23:59:59-00:01",
        "2024-01-31T23:30:00Z[UTC]",
    ] {
        assert!(text.parse::<Timestamp>().is_err(), "{text}");
    }
    let error = "\u{1b}[2Know".parse::<Timestamp>().unwrap_err().to_string();
    assert!(error.starts_with(r"invalid time `\u{1b}[2Know`: "), "{error}");
}

#[test]
fn times_from_the_system_are_exact_and_stay_in_range() {
    let second = Duration::from_secs(1);
    assert_eq!(Timestamp::from(SystemTime::UNIX_EPOCH - Duration::from_nanos(1)).as_secs(), -1);
    assert_eq!(Timestamp::from(SystemTime::UNIX_EPOCH + second / 4).subsec_nanos(), 250_000_000);
    assert_eq!(
        Timestamp::from(SystemTime::UNIX_EPOCH + Duration::from_secs(253_402_300_800)),
        Timestamp::MAX
    );
    assert_eq!(Timestamp::from(SystemTime::UNIX_EPOCH - Duration::from_secs(62_167_219_201)), Timestamp::MIN);
    assert_eq!(Timestamp::new(0, 1_000_000_000), None);
    assert_eq!(Timestamp::new(253_402_300_800, 0), None);
    assert_eq!(Timestamp::new(i64::MIN, 0), None);
}

#[test]
fn arithmetic_with_times_saturates() {
    let early = at("2024-01-01T00:00:00.9Z");
    let late = at("2024-01-01T00:00:02.1Z");
    assert_eq!(late.duration_since(early), Duration::from_millis(1200));
    assert_eq!(early.duration_since(late), Duration::ZERO);
    assert_eq!(early.saturating_add(Duration::from_millis(1200)), late);
    assert_eq!(late.saturating_sub(Duration::from_millis(1200)), early);
    assert_eq!(late.saturating_add(Duration::MAX), Timestamp::MAX);
    assert_eq!(late.saturating_sub(Duration::MAX), Timestamp::MIN);
    assert_eq!(late.trunc_to_second(), at("2024-01-01T00:00:02Z"));
    assert_eq!(Timestamp::MAX.duration_since(Timestamp::MIN), Duration::new(315_569_519_999, 999_999_999));
    assert_eq!(at("1969-12-31T23:59:59.5Z").as_nanos(), -500_000_000);
}

#[test]
fn a_time_has_as_many_digits_as_are_asked_for() {
    let at = Timestamp::new(0, 120_000_000).unwrap();
    for digits in 1..15_usize {
        let shown = format!("{at:.digits$}");
        assert_eq!(shown.len(), "1970-01-01T00:00:00.Z".len() + digits, "{shown}");
        assert_eq!(
            shown.parse(),
            Ok(Timestamp::new(0, if digits == 1 { 100_000_000 } else { 120_000_000 }).unwrap())
        );
    }
}

/// Compares each day from the year 0 to the year 9999 with a day count based on the calendar.
#[test]
fn every_day_has_its_date() {
    let mut days: i64 = -719_528;
    for year in 0..10_000 {
        let is_leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
        let lengths = [31, if is_leap { 29 } else { 28 }, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
        for (month, length) in (1..).zip(lengths) {
            // Tests the first and the last day of each month, and all days of every 97th year.
            for day in (1..=length).filter(|day| year % 97 == 0 || *day == 1 || *day == length) {
                let at = Timestamp::new((days + day - 1) * 86_400 + 3661, 0).unwrap();
                assert_eq!(at.to_string(), format!("{year:04}-{month:02}-{day:02}T01:01:01Z"));
            }
            days += length;
        }
    }
    assert_eq!(days, 2_932_897);
}
