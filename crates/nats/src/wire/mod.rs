//! The format of messages: headers that place the events, and a payload that holds them.

mod header;
mod payload;

pub(crate) use header::{Head, Malformed, Origin, is_codec};
pub(crate) use payload::{Payload, split};
