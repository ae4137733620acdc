//! Names of events, as client-go makes them.

use super::text::Text;
use super::timestamp::Timestamp;

/// `<object>.<nanoseconds since 1970 in hexadecimal>`, which nobody has validated.
pub(crate) fn plain(object: &str, at: Timestamp) -> Text {
    let nanos = at.unix_nanoseconds();
    // Go writes a sign before the digits, Rust the two's complement.
    let sign = if nanos < 0 { "-" } else { "" };
    Text::from(format_args!("{object}.{sign}{:x}", nanos.unsigned_abs()))
}
