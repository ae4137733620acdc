//! The format of messages, which consist of headers with the positions of the events, and a payload
//! with the events.

mod header;
mod payload;

pub(crate) use header::{Head, Malformed, Origin, is_codec};
pub(crate) use payload::{Payload, split};
