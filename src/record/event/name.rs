//! Generates event names in client-go's format, `<object>.<nanoseconds since 1970 in hexadecimal>`.

use crate::clock::Clock;

use super::text::Text;
use super::timestamp::Timestamp;

/// The maximum length, in bytes, of a Kubernetes object name or a DNS subdomain.
pub(crate) const MAX_NAME: usize = 253;

/// Returns a name for an event about `object`. The name is unique among the names generated with
/// this clock.
pub(crate) fn fresh(clock: &Clock, object: &str, now: Timestamp) -> Text {
    numbered(clock, object, number(clock, object, now))
}

/// Reserves a number for the name of an event about `object`. The clock does not return the same
/// number for any other event about this object.
#[inline]
pub(crate) fn number(clock: &Clock, object: &str, now: Timestamp) -> u64 {
    clock.numbers().take(hash(object), now.name_number())
}

/// Returns the name for an event about `object`, built from a number that [`number`] returned. If
/// that name would not be a DNS subdomain, which Kubernetes requires, this function returns a name
/// in the form of a random UUID instead. The UUID is derived from the object, the number and a
/// seed.
pub(crate) fn numbered(clock: &Clock, object: &str, number: u64) -> Text {
    let mut buffer = [0; MAX_NAME];
    match render(&mut buffer, object, number) {
        // The part after the last dot is always a valid label, so only `object` needs to be
        // checked.
        Some(name) if is_subdomain(object) => Text::copied(name),
        _ => uuid(number, hash(object) ^ if clock.is_fake() { 0 } else { seed() }),
    }
}

/// Returns a seed for names that must look random. Another process is unlikely to use the same
/// seed.
fn seed() -> u64 {
    use std::sync::LazyLock;
    static SEED: LazyLock<u64> = LazyLock::new(|| ahash::RandomState::new().hash_one(0_u8));
    *SEED
}

/// Returns the name for an event about `object`, without validating the name.
pub(crate) fn plain(object: &str, nanoseconds: u64) -> Text {
    // Most names fit in the buffer, so only the `Text` itself is allocated.
    let mut buffer = [0; MAX_NAME];
    match render(&mut buffer, object, nanoseconds) {
        Some(name) => Text::copied(name),
        None => format_args!("{object}.{nanoseconds:x}").into(),
    }
}

fn render<'a>(buffer: &'a mut [u8; MAX_NAME], object: &str, nanoseconds: u64) -> Option<&'a str> {
    let digits = (64 - nanoseconds.leading_zeros()).div_ceil(4).max(1) as usize;
    let len = object.len() + 1 + digits;
    let (name, _) = buffer.split_at_mut_checked(len)?;
    let (start, end) = name.split_at_mut(object.len());
    start.copy_from_slice(object.as_bytes());
    let (dot, number) = end.split_first_mut()?;
    *dot = b'.';
    write_hex(nanoseconds, number);
    std::str::from_utf8(name).ok()
}

/// Fills `digits` with the last hexadecimal digits of a number. `digits` must not be longer than 16
/// bytes.
pub(crate) fn write_hex(number: u64, digits: &mut [u8]) {
    let mut all = [0; 16];
    let (high, low) = all.split_at_mut(8);
    high.copy_from_slice(&hex((number >> 32) as u32));
    low.copy_from_slice(&hex(number as u32));
    digits.copy_from_slice(&all[all.len() - digits.len()..]);
}

/// Returns the eight hexadecimal digits of a number. All digits are computed together, in the bytes
/// of one word.
fn hex(number: u32) -> [u8; 8] {
    let mut word = u64::from(number);
    word = (word | word << 16) & 0x0000_FFFF_0000_FFFF;
    word = (word | word << 8) & 0x00FF_00FF_00FF_00FF;
    word = (word | word << 4) & 0x0F0F_0F0F_0F0F_0F0F;
    // One in the byte of each digit from `a` to `f`.
    let letters = (word + 0x0606_0606_0606_0606) >> 4 & 0x0101_0101_0101_0101;
    (word + 0x3030_3030_3030_3030 + letters * u64::from(b'a' - b'9' - 1)).to_be_bytes()
}

/// Returns whether `name` is a DNS subdomain of any length, which consists of labels separated by
/// dots.
///
/// A label consists of lower-case letters, digits and hyphens, and does not begin or end with a
/// hyphen. As in Kubernetes' own validation, a label may be longer than 63 characters.
#[allow(clippy::needless_bitwise_bool, reason = "without branches, sixteen bytes are looked at together")]
pub(crate) fn is_subdomain(name: &str) -> bool {
    let bytes = name.as_bytes();
    let is_alphanumeric = |byte: u8| byte.is_ascii_lowercase() | byte.is_ascii_digit();
    let is_allowed = |byte: u8| is_alphanumeric(byte) | (byte == b'-') | (byte == b'.');
    // A dot must not be next to another dot or a hyphen.
    let ends_badly = |byte: u8, next: u8| {
        (byte == b'.') & ((next == b'-') | (next == b'.')) | (byte == b'-') & (next == b'.')
    };
    bytes.iter().fold(true, |all, &byte| all & is_allowed(byte))
        && !bytes
            .iter()
            .zip(bytes.iter().skip(1))
            .fold(false, |any, (&byte, &next)| any | ends_badly(byte, next))
        && bytes.first().is_some_and(|&byte| is_alphanumeric(byte))
        && bytes.last().is_some_and(|&byte| is_alphanumeric(byte))
}

/// Hashes only a name's length, beginning and end, which is enough to distinguish most objects
/// within one program.
pub(crate) fn hash(object: &str) -> u64 {
    let bytes = object.as_bytes();
    let word = |bytes: Option<&[u8; 8]>| bytes.map_or(0, |bytes| u64::from_le_bytes(*bytes));
    let (first, last) = (bytes.first_chunk(), bytes.last_chunk());
    let whole = || bytes.iter().fold(0, |word, byte| word << 8 | u64::from(*byte));
    let short = first.map_or_else(whole, |first| u64::from_be_bytes(*first));
    mix(word(first).rotate_left(32) ^ word(last) ^ short ^ bytes.len() as u64)
}

/// Returns a version 4 UUID (RFC 9562), derived from two numbers.
fn uuid(number: u64, seed: u64) -> Text {
    let high = mix(number ^ seed);
    let low = mix(high.wrapping_add(seed));
    let high = high & !0xF000 | 0x4000;
    let low = low & !(0xC << 60) | 0x8 << 60;
    format_args!(
        "{:08x}-{:04x}-{:04x}-{:04x}-{:012x}",
        high >> 32,
        high >> 16 & 0xFFFF,
        high & 0xFFFF,
        low >> 48,
        low & 0xFFFF_FFFF_FFFF
    )
    .into()
}

/// Applies the finaliser of `SplitMix64`, which is a permutation with random-looking output.
fn mix(mut x: u64) -> u64 {
    x = x.wrapping_add(0x9E37_79B9_7F4A_7C15);
    x = (x ^ x >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    x = (x ^ x >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
    x ^ x >> 31
}
