//! The options of the stream that a publisher creates if the stream does not exist.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::error::BuildError;

/// Options of the stream that a publisher creates if the stream does not exist. A publisher never
/// changes an existing stream.
///
/// # Examples
///
/// ```
/// use eventcast_nats::{Storage, StreamOptions};
/// use std::time::Duration;
///
/// let options: StreamOptions = serde_json::from_str(r#"{"storage": "memory", "max_age": "1h"}"#)?;
/// assert_eq!(options.storage, Storage::Memory);
/// assert_eq!(options.max_age, Duration::from_secs(3600));
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct StreamOptions {
    /// The storage that the server uses for the messages. Defaults to [`Storage::File`].
    pub storage: Storage,
    /// The age at which the server removes a message. Zero means no limit. Defaults to 24 h.
    #[serde(with = "crate::duration")]
    pub max_age: Duration,
    /// The maximum size of the stream in bytes. Zero means no limit. Defaults to 1 GiB.
    pub max_bytes: u64,
    /// The maximum number of messages in the stream. A message can hold many events. Zero means no
    /// limit. Defaults to 0.
    pub max_messages: u64,
    /// The number of servers that keep a copy of the stream, from 1 to 5. Defaults to 1.
    pub replicas: usize,
    /// How long the server can recognise that a message was sent again. Unless `max_age` is zero,
    /// this time must not be longer than `max_age`. Defaults to 2 min.
    #[serde(with = "crate::duration")]
    pub duplicate_window: Duration,
    /// Determines which messages the server discards if the stream is full. Defaults to
    /// [`Discard::Old`].
    pub discard: Discard,
}

/// The storage that a server uses for the messages of a stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Storage {
    /// The server stores the messages in files. The messages survive if the server's process ends.
    #[default]
    File,
    /// The server keeps the messages in memory.
    Memory,
}

/// Determines which messages the server discards if a stream is full.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Discard {
    /// The server removes the oldest messages.
    #[default]
    Old,
    /// The server refuses new messages.
    New,
}

impl Default for StreamOptions {
    fn default() -> Self {
        Self {
            storage: Storage::File,
            max_age: Duration::from_secs(24 * 3600),
            max_bytes: 1 << 30,
            max_messages: 0,
            replicas: 1,
            duplicate_window: Duration::from_secs(120),
            discard: Discard::Old,
        }
    }
}

impl StreamOptions {
    pub(crate) fn check(&self) -> Result<(), BuildError> {
        if !(1..=5).contains(&self.replicas) {
            return Err(BuildError::invalid("replicas", "1 to 5", self.replicas));
        }
        if !self.max_age.is_zero() && self.duplicate_window > self.max_age {
            let (allowed, got) = (format!("at most max_age, {:?}", self.max_age), self.duplicate_window);
            return Err(BuildError::invalid("duplicate_window", allowed, format!("{got:?}")));
        }
        Ok(())
    }
}
