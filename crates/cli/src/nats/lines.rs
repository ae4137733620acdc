//! A codec that treats events as raw JSON lines. The commands do not interpret these lines, so they
//! work with any bus's events.

use eventcast_nats::{Codec, CodecError, Framing, Json};

/// Passes JSON through unchanged.
pub(super) struct Raw;

impl Codec<String> for Raw {
    fn name(&self) -> &str {
        Codec::<String>::name(&Json)
    }

    fn framing(&self) -> Framing {
        Framing::Lines
    }

    fn encode(&self, event: &String, to: &mut Vec<u8>) -> Result<(), CodecError> {
        to.extend_from_slice(event.as_bytes());
        Ok(())
    }

    fn decode(&self, bytes: &[u8]) -> Result<String, CodecError> {
        Ok(std::str::from_utf8(bytes)?.to_owned())
    }
}
