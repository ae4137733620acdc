//! Functions that serialise and deserialise single fields, for use in serde attributes.

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer, Serializer};

use super::text::Text;
use super::timestamp::Timestamp;

pub(super) fn is_empty(text: &str) -> bool {
    text.is_empty()
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde's signature")]
pub(super) fn is_zero(count: &i32) -> bool {
    *count == 0
}

/// Returns whether the time is missing or has the value that Go treats as unset.
#[allow(clippy::trivially_copy_pass_by_ref, clippy::ref_option, reason = "serde's signature")]
pub(super) fn is_unset(at: &Option<Timestamp>) -> bool {
    at.is_none_or(|at| at == Timestamp::GO_ZERO)
}

/// Deserialises a value. If the value is `null`, returns the default.
pub(super) fn nullable<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de> + Default,
{
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

pub(super) fn texts<'de, D: Deserializer<'de>>(deserializer: D) -> Result<BTreeMap<Text, Text>, D::Error> {
    let found: Option<BTreeMap<Text, Option<Text>>> = Option::deserialize(deserializer)?;
    Ok(found.unwrap_or_default().into_iter().map(|(key, text)| (key, text.unwrap_or_default())).collect())
}

/// Serialises a time in the format of metav1's `Time`, in whole seconds. Deserialising a time keeps
/// its fraction, if any.
#[allow(clippy::trivially_copy_pass_by_ref, clippy::ref_option, reason = "serde's signature")]
pub(super) fn write_seconds<S: Serializer>(at: &Option<Timestamp>, serializer: S) -> Result<S::Ok, S::Error> {
    write_time(*at, 0, serializer)
}

/// Serialises a time in the format of metav1's `MicroTime`, which always has six fractional digits.
/// Deserialising a time keeps its fraction, if any.
#[allow(clippy::trivially_copy_pass_by_ref, clippy::ref_option, reason = "serde's signature")]
pub(super) fn write_micros<S: Serializer>(at: &Option<Timestamp>, serializer: S) -> Result<S::Ok, S::Error> {
    write_time(*at, 6, serializer)
}

pub(super) fn write_time<S: Serializer>(
    at: Option<Timestamp>,
    digits: usize,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    match at.filter(|at| *at != Timestamp::GO_ZERO) {
        Some(at) => serializer.collect_str(&format_args!("{at:.digits$}")),
        None => serializer.serialize_none(),
    }
}

pub(super) fn read_time<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Timestamp>, D::Error> {
    let found: Option<Timestamp> = Option::deserialize(deserializer)?;
    Ok(found.filter(|at| *at != Timestamp::GO_ZERO))
}
