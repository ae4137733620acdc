//! Reads and writes durations in configuration files, in the same format as in eventcast's own
//! options. Fields use this module through `#[serde(with = ...)]`.

pub(crate) use eventcast::duration::{deserialize, serialize};

/// Reads and writes optional durations.
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
