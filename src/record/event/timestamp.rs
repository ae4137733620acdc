//! `Timestamp`: when something happened.

use std::error::Error;
use std::fmt;
use std::num::NonZeroU32;
use std::str::FromStr;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use jiff::SignedDuration;
use jiff::civil::{DateTime, date};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use crate::escape::escape_to;

/// A point in time: whole seconds since 1970-01-01 00:00:00 UTC, and nanoseconds.
///
/// A timestamp lies within the years that RFC 3339 can write, 0000 to 9999. It is shown in this
/// form, in UTC:
///
/// - Without a precision: with the fraction that it has.
/// - With a precision: with exactly that many digits, cut off and not rounded.
///
/// # Examples
///
/// ```
/// use eventcast::Timestamp;
/// use std::time::{Duration, SystemTime};
///
/// let at = Timestamp::from(SystemTime::UNIX_EPOCH + Duration::from_millis(1_700_000_000_250));
/// assert_eq!(at.to_string(), "2023-11-14T22:13:20.25Z");
/// assert_eq!(format!("{at:.0} {at:.6}"), "2023-11-14T22:13:20Z 2023-11-14T22:13:20.250000Z");
/// assert_eq!("2023-11-14T23:13:20.25+01:00".parse(), Ok(at));
/// ```
// The derived order compares the fields in this order.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp {
    seconds: i64,
    /// Nanoseconds after `seconds`, plus one: 1 to 1,000,000,000. Because this is never zero,
    /// `Option<Timestamp>` is not larger than `Timestamp`. An event has two of these options.
    nanos_and_one: NonZeroU32,
}

const NANOS_PER_SECOND: i128 = 1_000_000_000;

impl Timestamp {
    /// 0000-01-01T00:00:00Z.
    pub const MIN: Self = Self::raw(-62_167_219_200, 0);
    /// 9999-12-31T23:59:59.999999999Z.
    pub const MAX: Self = Self::raw(253_402_300_799, 999_999_999);
    /// 1970-01-01T00:00:00Z.
    pub const UNIX_EPOCH: Self = Self::raw(0, 0);
    /// The year 1, which Go's zero `time.Time` shows. In JSON it means that there is no time.
    pub(crate) const GO_ZERO: Self = Self::raw(-62_135_596_800, 0);

    const fn raw(seconds: i64, nanos: u32) -> Self {
        // The sum is never zero, because it saturates.
        let nanos_and_one = match NonZeroU32::new(nanos.saturating_add(1)) {
            Some(n) => n,
            None => NonZeroU32::MIN,
        };
        Self { seconds, nanos_and_one }
    }

    /// Creates a time that is `seconds` after 1970 and `nanoseconds` after that. Returns `None` if
    /// the nanoseconds make a second or more, or if the time is outside [`MIN`](Self::MIN) to
    /// [`MAX`](Self::MAX).
    pub fn new(seconds: i64, nanoseconds: u32) -> Option<Self> {
        let at = Self::raw(seconds, nanoseconds);
        (i128::from(nanoseconds) < NANOS_PER_SECOND && (Self::MIN..=Self::MAX).contains(&at)).then_some(at)
    }

    /// Returns the whole seconds since 1970, rounded down: -1 just before 1970.
    pub fn seconds(self) -> i64 {
        self.seconds
    }

    /// Returns the nanoseconds after [`seconds`](Self::seconds), below a thousand million.
    pub fn subsec_nanoseconds(self) -> u32 {
        self.nanos_and_one.get() - 1
    }

    /// Returns the nanoseconds since 1970.
    pub fn unix_nanoseconds(self) -> i128 {
        i128::from(self.seconds) * NANOS_PER_SECOND + i128::from(self.subsec_nanoseconds())
    }

    /// Returns the nanoseconds since 1970, for names. A time before 1970 keeps only its fraction,
    /// and the seconds stop at the beginning of the year 2200.
    pub(crate) fn name_number(self) -> u64 {
        let seconds = u64::try_from(self.seconds).unwrap_or(0).min(7_258_118_400);
        seconds * 1_000_000_000 + u64::from(self.subsec_nanoseconds())
    }

    /// Returns the time that is later by `duration`, at most [`MAX`](Self::MAX).
    pub fn saturating_add(self, duration: Duration) -> Self {
        Self::clamped(self.unix_nanoseconds().saturating_add(nanos_of(duration)))
    }

    /// Returns the time that is earlier by `duration`, at least [`MIN`](Self::MIN).
    pub fn saturating_sub(self, duration: Duration) -> Self {
        Self::clamped(self.unix_nanoseconds().saturating_sub(nanos_of(duration)))
    }

    /// Returns the duration from `earlier` to this time. Returns zero if `earlier` is later.
    pub fn duration_since(self, earlier: Self) -> Duration {
        if self <= earlier {
            return Duration::ZERO;
        }
        let seconds = self.seconds.abs_diff(earlier.seconds);
        Duration::new(seconds, self.subsec_nanoseconds())
            .saturating_sub(Duration::new(0, earlier.subsec_nanoseconds()))
    }

    /// Returns the time without its fraction of a second, as Kubernetes stores most times.
    pub fn whole_seconds(self) -> Self {
        Self::raw(self.seconds, 0)
    }

    fn clamped(nanos: i128) -> Self {
        let nanos = nanos.clamp(Self::MIN.unix_nanoseconds(), Self::MAX.unix_nanoseconds());
        let (seconds, nanos) = (nanos.div_euclid(NANOS_PER_SECOND), nanos.rem_euclid(NANOS_PER_SECOND));
        Self::raw(seconds as i64, nanos.unsigned_abs() as u32)
    }

    /// Appends the time with `digits` digits of the second's fraction.
    pub(super) fn push_to(self, out: &mut String, digits: usize) {
        out.push_str(self.to_seconds().as_str());
        if digits > 0 {
            // Writing to a string never fails.
            let _ = self.write_fraction(out, digits);
        }
        out.push('Z');
    }

    /// Returns `YYYY-MM-DDThh:mm:ss` in UTC.
    fn to_seconds(self) -> Ascii<19> {
        let (days, second) = (self.seconds.div_euclid(86_400), self.seconds.rem_euclid(86_400));
        let [year, month, day] = date_of(days);
        let [y0, y1] = two_digits(year / 100);
        let [y2, y3] = two_digits(year);
        let [month0, month1] = two_digits(month);
        let [day0, day1] = two_digits(day);
        let [h0, h1] = two_digits(second / 3600);
        let [m0, m1] = two_digits(second / 60 % 60);
        let [s0, s1] = two_digits(second % 60);
        Ascii([
            y0, y1, y2, y3, b'-', month0, month1, b'-', day0, day1, b'T', h0, h1, b':', m0, m1, b':', s0, s1,
        ])
    }

    /// Writes a point and `digits` digits. From the tenth digit on, these are zeros.
    fn write_fraction(self, out: &mut impl fmt::Write, digits: usize) -> fmt::Result {
        let zeros = digits.saturating_sub(9);
        let shown = digits - zeros;
        let fraction = (shown..9).fold(self.subsec_nanoseconds(), |fraction, _| fraction / 10);
        write!(out, ".{fraction:0shown$}{:0<zeros$}", "")
    }
}

/// Digits with their separators, in ASCII.
struct Ascii<const N: usize>([u8; N]);

impl<const N: usize> Ascii<N> {
    fn as_str(&self) -> &str {
        // The default is never used: ASCII is valid UTF-8.
        std::str::from_utf8(&self.0).unwrap_or_default()
    }
}

/// Returns the last two digits of a number that is not negative.
fn two_digits(number: i64) -> [u8; 2] {
    let number = number.unsigned_abs() % 100;
    [b'0' + (number / 10) as u8, b'0' + (number % 10) as u8]
}

/// Returns year, month and day in the proleptic Gregorian calendar, `days` days after 1970-01-01.
///
/// The calculation counts years from March, so that the leap day is the last day of a year, and
/// uses the cycle of 400 years in which the calendar repeats.
fn date_of(days: i64) -> [i64; 3] {
    let days = days + 719_468;
    let (cycle, day_of_cycle) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year_of_cycle =
        (day_of_cycle - day_of_cycle / 1460 + day_of_cycle / 36_524 - day_of_cycle / 146_096) / 365;
    let day_of_year = day_of_cycle - (365 * year_of_cycle + year_of_cycle / 4 - year_of_cycle / 100);
    // From March on, each five months have 153 days.
    let month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month + 2) / 5 + 1;
    let (month, next_year) = if month < 10 { (month + 3, 0) } else { (month - 9, 1) };
    [400 * cycle + year_of_cycle + next_year, month, day]
}

fn epoch() -> DateTime {
    date(1970, 1, 1).at(0, 0, 0, 0)
}

fn nanos_of(duration: Duration) -> i128 {
    i128::try_from(duration.as_nanos()).unwrap_or(i128::MAX)
}

/// Converts a system time. A time outside the years 0000 to 9999 becomes the nearest one inside.
impl From<SystemTime> for Timestamp {
    fn from(at: SystemTime) -> Self {
        match at.duration_since(UNIX_EPOCH) {
            // The usual case, without a division.
            Ok(after) => i64::try_from(after.as_secs())
                .ok()
                .and_then(|seconds| Self::new(seconds, after.subsec_nanos()))
                .unwrap_or(Self::MAX),
            Err(before) => Self::clamped(-nanos_of(before.duration())),
        }
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.to_seconds().as_str())?;
        // As many digits as the precision says, or up to the last digit that is not zero.
        let digits = f.precision().unwrap_or_else(|| {
            let fraction = self.subsec_nanoseconds();
            (0..9).find(|digits| fraction % 10_u32.pow(9 - digits) == 0).unwrap_or(9) as usize
        });
        if digits > 0 {
            self.write_fraction(f, digits)?;
        }
        f.write_str("Z")
    }
}

impl fmt::Debug for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Reads RFC 3339 as Go does: `T` and `Z` in upper case, an offset or `Z`, no leap second, and a
/// fraction of any length, of which nine digits count.
impl FromStr for Timestamp {
    type Err = TimestampError;

    fn from_str(text: &str) -> Result<Self, TimestampError> {
        parse(text).ok_or_else(|| TimestampError { text: escape_to(text, 64).to_string() })
    }
}

fn parse(text: &str) -> Option<Timestamp> {
    let (day, rest) = text.split_at_checked("YYYY-MM-DD".len())?;
    let (clock, rest) = rest.strip_prefix('T')?.split_at_checked("hh:mm:ss".len())?;
    let [year, month, day] = numbers(day, b'-', [4, 2, 2])?;
    let [hour, minute, second] = numbers(clock, b':', [2, 2, 2])?;
    let (nanos, zone) = match rest.strip_prefix('.') {
        Some(rest) => {
            let end = rest.bytes().position(|b| !b.is_ascii_digit())?;
            let (digits, zone) = rest.split_at(end);
            if digits.is_empty() {
                return None;
            }
            let nanos = digits.bytes().chain(std::iter::repeat(b'0')).take(9);
            (nanos.fold(0, |n, digit| n * 10 + i32::from(digit - b'0')), zone)
        }
        None => (0, rest),
    };
    let offset = match zone.split_at_checked(1)? {
        ("Z", "") => 0,
        (sign @ ("+" | "-"), offset) => {
            let [hours, minutes] = numbers(offset, b':', [2, 2])?;
            if hours > 23 || minutes > 59 {
                return None;
            }
            let seconds = i64::from(hours) * 3600 + i64::from(minutes) * 60;
            if sign == "-" { -seconds } else { seconds }
        }
        _ => return None,
    };
    let at =
        DateTime::new(year, month as i8, day as i8, hour as i8, minute as i8, second as i8, nanos).ok()?;
    let at = at.duration_since(epoch()).checked_sub(SignedDuration::from_secs(offset))?;
    let nanos = at.as_nanos();
    let found = Timestamp::clamped(nanos);
    (found.unix_nanoseconds() == nanos).then_some(found)
}

/// Reads numbers with `separator` between them. `digits` says how many digits each number has.
/// Returns `None` if the text is anything else.
fn numbers<const N: usize>(text: &str, separator: u8, digits: [usize; N]) -> Option<[i16; N]> {
    let mut bytes = text.bytes();
    let mut found = [0; N];
    for (i, (number, digits)) in found.iter_mut().zip(digits).enumerate() {
        if i > 0 && bytes.next()? != separator {
            return None;
        }
        for _ in 0..digits {
            let digit = bytes.next().filter(u8::is_ascii_digit)? - b'0';
            *number = *number * 10 + i16::from(digit);
        }
    }
    bytes.next().is_none().then_some(found)
}

/// The error for a text that is not an RFC 3339 time of the years 0000 to 9999.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TimestampError {
    /// The text, escaped and cut to 64 characters.
    text: String,
}

impl fmt::Display for TimestampError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "invalid time `{}`: expected RFC 3339 and a year from 0000 to 9999, such as 2024-01-31T08:15:00Z",
            self.text
        )
    }
}

impl Error for TimestampError {}

/// Writes RFC 3339 text, with the fraction that the time has.
impl Serialize for Timestamp {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Timestamp {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;

        impl de::Visitor<'_> for Visitor {
            type Value = Timestamp;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an RFC 3339 time")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Timestamp, E> {
                text.parse().map_err(E::custom)
            }
        }

        deserializer.deserialize_str(Visitor)
    }
}
