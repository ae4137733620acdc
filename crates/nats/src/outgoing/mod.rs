//! The outgoing side, which watches a bus and sends its events to a stream, in order, one message
//! at a time.
//!
//! `assembler` turns events into messages, `send` sends one message to the server, `pump` is the
//! task that does both, and `publisher` is the program's handle to it.

mod assembler;
mod builder;
mod publisher;
mod pump;
mod send;
mod stats;

pub use builder::NatsPublisherBuilder;
pub use publisher::NatsPublisher;
pub use stats::{NatsPublisherStats, NatsReport};
