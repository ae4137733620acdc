//! The format of messages: headers with the positions of the events, and a payload that holds the
//! events.

mod header;
mod payload;

pub(crate) use header::{Head, Malformed, Origin, is_codec};
pub(crate) use payload::{Payload, split};
