//! Codecs, which determine how events are converted to bytes and laid out in a message.

use std::error::Error;

use serde::Serialize;
use serde::de::DeserializeOwned;

/// The error type of codecs.
pub type CodecError = Box<dyn Error + Send + Sync>;

/// The layout of the events in a message's payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Framing {
    /// Events are separated by line feeds. The bytes of an event must not contain a line feed.
    Lines,
    /// Each event is preceded by its length, as four bytes in little-endian order.
    Lengths,
}

/// Converts events to bytes and back. Both sides of a stream must use the same codec, and each
/// message names the codec that encoded it.
///
/// If a codec panics, the panic is caught and the event counts as lost.
///
/// # Examples
///
/// ```
/// use eventcast_nats::{Codec, CodecError, Framing};
///
/// struct BigEndian;
///
/// impl Codec<u64> for BigEndian {
///     fn name(&self) -> &str {
///         "u64-be/1"
///     }
///     fn framing(&self) -> Framing {
///         Framing::Lengths
///     }
///     fn encode(&self, event: &u64, to: &mut Vec<u8>) -> Result<(), CodecError> {
///         to.extend(event.to_be_bytes());
///         Ok(())
///     }
///     fn decode(&self, bytes: &[u8]) -> Result<u64, CodecError> {
///         Ok(u64::from_be_bytes(bytes.try_into()?))
///     }
/// }
///
/// let mut bytes = Vec::new();
/// BigEndian.encode(&7, &mut bytes)?;
/// assert_eq!(BigEndian.decode(&bytes)?, 7);
/// # Ok::<(), CodecError>(())
/// ```
pub trait Codec<T>: Send + Sync + 'static {
    /// Returns the codec's name and version, such as `json-lines/1`. The string must consist of 1
    /// to 64 printable ASCII characters without blanks.
    fn name(&self) -> &str;

    /// Returns the layout of the events in a message.
    fn framing(&self) -> Framing;

    /// Appends the encoded bytes of an event.
    ///
    /// # Errors
    ///
    /// Returns an error if the event cannot be encoded. An event that cannot be encoded counts as
    /// lost.
    fn encode(&self, event: &T, to: &mut Vec<u8>) -> Result<(), CodecError>;

    /// Decodes an event.
    ///
    /// # Errors
    ///
    /// Returns an error if the bytes are not a valid event. An event that cannot be decoded becomes
    /// part of a gap.
    fn decode(&self, bytes: &[u8]) -> Result<T, CodecError>;
}

/// The `json-lines/1` codec, which encodes each event as one line of JSON.
///
/// # Examples
///
/// ```
/// use eventcast_nats::{Codec, Json};
///
/// let mut bytes = Vec::new();
/// Json.encode(&vec![1, 2], &mut bytes)?;
/// assert_eq!(bytes, b"[1,2]");
/// # Ok::<(), eventcast_nats::CodecError>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Json;

impl<T: Serialize + DeserializeOwned> Codec<T> for Json {
    fn name(&self) -> &'static str {
        "json-lines/1"
    }

    fn framing(&self) -> Framing {
        Framing::Lines
    }

    fn encode(&self, event: &T, to: &mut Vec<u8>) -> Result<(), CodecError> {
        Ok(serde_json::to_writer(to, event)?)
    }

    fn decode(&self, bytes: &[u8]) -> Result<T, CodecError> {
        Ok(serde_json::from_slice(bytes)?)
    }
}
