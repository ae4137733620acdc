//! Defines `Timestamp`, which represents a point in time.

use std::fmt;
use std::num::NonZeroU32;
use std::str::FromStr;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use jiff::SignedDuration;
use jiff::civil::DateTime;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use crate::error::ParseError;
use crate::escape::escape;

/// A point in time, stored as whole seconds since 1970-01-01 00:00:00 UTC plus nanoseconds.
///
/// A timestamp is within the years that RFC 3339 can represent, which are 0000 to 9999. A timestamp
/// is displayed in RFC 3339 format, in UTC:
///
/// - If no precision is specified, the fraction has as many digits as needed.
/// - If a precision is specified, the fraction has exactly that number of digits, and is truncated
///   rather than rounded.
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
// The derived `Ord` compares the fields in the order of their declaration.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp {
    seconds: i64,
    /// The nanoseconds after `seconds`, plus one. The value is from 1 to 1,000,000,000. Because the
    /// value is never zero, `Option<Timestamp>` is not larger than `Timestamp`. An event contains
    /// two fields of the type `Option<Timestamp>`.
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
    /// The beginning of the year 1, which is the value of Go's zero `time.Time`. In JSON, this
    /// value represents a missing time.
    pub(crate) const GO_ZERO: Self = Self::raw(-62_135_596_800, 0);

    const fn raw(seconds: i64, nanos: u32) -> Self {
        // The sum is never zero, because it saturates.
        let nanos_and_one = match NonZeroU32::new(nanos.saturating_add(1)) {
            Some(n) => n,
            None => NonZeroU32::MIN,
        };
        Self { seconds, nanos_and_one }
    }

    /// Creates a timestamp from the `seconds` since the Unix epoch and the additional
    /// `nanoseconds`. Returns `None` if the nanoseconds amount to a second or more, or if the time
    /// is outside the range from [`MIN`](Self::MIN) to [`MAX`](Self::MAX).
    ///
    /// # Examples
    ///
    /// ```
    /// use eventcast::Timestamp;
    ///
    /// let at = Timestamp::new(1_700_000_000, 250_000_000).unwrap();
    /// assert_eq!(at.to_string(), "2023-11-14T22:13:20.25Z");
    /// assert_eq!(Timestamp::new(0, 0), Some(Timestamp::UNIX_EPOCH));
    /// assert_eq!(Timestamp::new(0, 1_000_000_000), None);
    /// assert_eq!(Timestamp::new(Timestamp::MAX.as_secs() + 1, 0), None);
    /// ```
    pub fn new(seconds: i64, nanoseconds: u32) -> Option<Self> {
        let at = Self::raw(seconds, nanoseconds);
        (i128::from(nanoseconds) < NANOS_PER_SECOND && (Self::MIN..=Self::MAX).contains(&at)).then_some(at)
    }

    /// Returns the whole seconds since the Unix epoch, rounded down. For a time just before the
    /// epoch, the result is -1.
    #[doc(alias = "as_second")]
    pub fn as_secs(self) -> i64 {
        self.seconds
    }

    /// Returns the nanoseconds after [`as_secs`](Self::as_secs). The result is less than
    /// 1,000,000,000.
    pub fn subsec_nanos(self) -> u32 {
        self.nanos_and_one.get() - 1
    }

    /// Returns the nanoseconds since the Unix epoch.
    ///
    /// # Examples
    ///
    /// ```
    /// use eventcast::Timestamp;
    ///
    /// let at: Timestamp = "1969-12-31T23:59:59.75Z".parse()?;
    /// assert_eq!((at.as_secs(), at.subsec_nanos()), (-1, 750_000_000));
    /// assert_eq!(at.as_nanos(), -250_000_000);
    /// # Ok::<(), eventcast::error::ParseError>(())
    /// ```
    pub fn as_nanos(self) -> i128 {
        i128::from(self.seconds) * NANOS_PER_SECOND + i128::from(self.subsec_nanos())
    }

    /// Creates a timestamp from the number of nanoseconds since the Unix epoch. This is the inverse
    /// of [`as_nanos`](Self::as_nanos).
    #[inline]
    pub(crate) fn from_nanos(nanoseconds: u64) -> Self {
        const SECOND: u64 = 1_000_000_000;
        // The default is never used, because there are fewer than 2^63 seconds.
        let seconds = i64::try_from(nanoseconds / SECOND).unwrap_or_default();
        Self::raw(seconds, (nanoseconds % SECOND) as u32)
    }

    /// Returns the nanoseconds since the Unix epoch, for use in event names. If the time is before
    /// the epoch, only its fraction of a second is used. The seconds are capped at the beginning of
    /// the year 2200.
    pub(crate) fn name_number(self) -> u64 {
        let seconds = u64::try_from(self.seconds).unwrap_or(0).min(7_258_118_400);
        seconds * 1_000_000_000 + u64::from(self.subsec_nanos())
    }

    /// Adds `duration` to this time, saturating at [`MAX`](Self::MAX).
    ///
    /// # Examples
    ///
    /// ```
    /// use eventcast::Timestamp;
    /// use std::time::Duration;
    ///
    /// let at = Timestamp::UNIX_EPOCH.saturating_add(Duration::from_secs(90));
    /// assert_eq!(at.to_string(), "1970-01-01T00:01:30Z");
    /// assert_eq!(at.saturating_add(Duration::MAX), Timestamp::MAX);
    /// ```
    pub fn saturating_add(self, duration: Duration) -> Self {
        Self::clamped(self.as_nanos().saturating_add(nanos_of(duration)))
    }

    /// Subtracts `duration` from this time, saturating at [`MIN`](Self::MIN).
    ///
    /// # Examples
    ///
    /// ```
    /// use eventcast::Timestamp;
    /// use std::time::Duration;
    ///
    /// let at = Timestamp::UNIX_EPOCH.saturating_sub(Duration::from_millis(1));
    /// assert_eq!(at.to_string(), "1969-12-31T23:59:59.999Z");
    /// assert_eq!(at.saturating_sub(Duration::MAX), Timestamp::MIN);
    /// ```
    pub fn saturating_sub(self, duration: Duration) -> Self {
        Self::clamped(self.as_nanos().saturating_sub(nanos_of(duration)))
    }

    /// Returns the duration from `earlier` to this time, or zero if `earlier` is later than this
    /// time.
    ///
    /// # Examples
    ///
    /// ```
    /// use eventcast::Timestamp;
    /// use std::time::Duration;
    ///
    /// let later = Timestamp::UNIX_EPOCH.saturating_add(Duration::from_millis(1500));
    /// assert_eq!(later.duration_since(Timestamp::UNIX_EPOCH), Duration::from_millis(1500));
    /// assert_eq!(Timestamp::UNIX_EPOCH.duration_since(later), Duration::ZERO);
    /// ```
    pub fn duration_since(self, earlier: Self) -> Duration {
        if self <= earlier {
            return Duration::ZERO;
        }
        let seconds = self.seconds.abs_diff(earlier.seconds);
        Duration::new(seconds, self.subsec_nanos()).saturating_sub(Duration::new(0, earlier.subsec_nanos()))
    }

    /// Truncates the time to whole seconds, the precision with which Kubernetes stores most times.
    ///
    /// # Examples
    ///
    /// ```
    /// use eventcast::Timestamp;
    ///
    /// let at: Timestamp = "2024-01-31T08:15:00.9Z".parse()?;
    /// assert_eq!(at.trunc_to_second().to_string(), "2024-01-31T08:15:00Z");
    /// # Ok::<(), eventcast::error::ParseError>(())
    /// ```
    #[doc(alias("whole_seconds", "truncate"))]
    pub fn trunc_to_second(self) -> Self {
        Self::raw(self.seconds, 0)
    }

    fn clamped(nanos: i128) -> Self {
        let nanos = nanos.clamp(Self::MIN.as_nanos(), Self::MAX.as_nanos());
        let (seconds, nanos) = (nanos.div_euclid(NANOS_PER_SECOND), nanos.rem_euclid(NANOS_PER_SECOND));
        Self::raw(seconds as i64, nanos.unsigned_abs() as u32)
    }

    /// Returns the date and the time of day in UTC.
    fn to_civil(self) -> DateTime {
        // The default is never used, because a second has fewer than 2^31 nanoseconds.
        let nanos = i32::try_from(self.subsec_nanos()).unwrap_or_default();
        // The sum is exact, because jiff's calendar includes the years 0000 to 9999.
        EPOCH.saturating_add(SignedDuration::new(self.seconds, nanos))
    }
}

const EPOCH: DateTime = DateTime::constant(1970, 1, 1, 0, 0, 0, 0);

fn nanos_of(duration: Duration) -> i128 {
    i128::try_from(duration.as_nanos()).unwrap_or(i128::MAX)
}

/// Converts a system time. If the time is outside the years 0000 to 9999, the result is the nearest
/// time within that range.
impl From<SystemTime> for Timestamp {
    fn from(at: SystemTime) -> Self {
        match at.duration_since(UNIX_EPOCH) {
            // In this common case, the conversion does not need a division.
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
        let civil = self.to_civil();
        match f.precision() {
            None => write!(f, "{civil}Z"),
            // All digits after the ninth digit are zeros, which jiff does not write.
            Some(digits) => {
                let (shown, zeros) = (digits.min(9), digits.saturating_sub(9));
                write!(f, "{civil:.shown$}{:0<zeros$}Z", "")
            }
        }
    }
}

impl fmt::Debug for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Parses a time in RFC 3339 format by the same rules as Go. The string must contain an upper-case
/// `T`, and end with an upper-case `Z` or an offset. A leap second is rejected. The fraction may be
/// of any length, but only its first nine digits are used.
///
/// # Examples
///
/// ```
/// use eventcast::Timestamp;
///
/// let error = "2024-02-30T00:00:00Z".parse::<Timestamp>().unwrap_err();
/// assert!(error.to_string().starts_with("invalid time `2024-02-30T00:00:00Z`: expected RFC 3339"));
/// ```
impl FromStr for Timestamp {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        parse(text).ok_or_else(|| {
            let expected = "RFC 3339 and a year from 0000 to 9999, such as 2024-01-31T08:15:00Z";
            ParseError::new(format!("invalid time `{:.64}`: expected {expected}", escape(text)))
        })
    }
}

fn parse(text: &str) -> Option<Timestamp> {
    const CIVIL: &str = "0000-00-00T00:00:00";
    let (civil, rest) = text.split_at_checked(CIVIL.len())?;
    let [year, month, day, hour, minute, second] = numbers(civil, CIVIL)?;
    // jiff rejects a date that does not exist, and a leap second.
    let civil =
        DateTime::new(year, month as i8, day as i8, hour as i8, minute as i8, second as i8, 0).ok()?;
    let (nanos, zone) = match rest.strip_prefix('.') {
        Some(rest) => {
            let end = rest.bytes().position(|b| !b.is_ascii_digit())?;
            let (digits, zone) = rest.split_at(end);
            if digits.is_empty() {
                return None;
            }
            let nanos = digits.bytes().chain(std::iter::repeat(b'0')).take(9);
            (nanos.fold(0, |n, digit| n * 10 + u32::from(digit - b'0')), zone)
        }
        None => (0, rest),
    };
    let offset = match zone.split_at_checked(1)? {
        ("Z", "") => 0,
        (sign @ ("+" | "-"), offset) => {
            let [hours, minutes] = numbers(offset, "00:00").filter(|[h, m]| *h < 24 && *m < 60)?;
            let seconds = i64::from(hours) * 3600 + i64::from(minutes) * 60;
            if sign == "-" { -seconds } else { seconds }
        }
        _ => return None,
    };
    Timestamp::new(civil.duration_since(EPOCH).as_secs() - offset, nanos)
}

/// Returns the numbers in `text` if it has the same form as `form`, where a `0` represents a digit.
fn numbers<const N: usize>(text: &str, form: &str) -> Option<[i16; N]> {
    let mut numbers = [0; N];
    let mut at = 0;
    for (byte, expected) in text.bytes().zip(form.bytes()) {
        match byte {
            b'0'..=b'9' if expected == b'0' => numbers[at] = numbers[at] * 10 + i16::from(byte - b'0'),
            _ if byte == expected => at += 1,
            _ => return None,
        }
    }
    (text.len() == form.len()).then_some(numbers)
}

/// Serialises the time in RFC 3339 format, with as many fractional digits as needed.
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
