//! The outgoing side, which watches a bus and sends its events to a stream, in order, one message
//! at a time.
//!
//! `assembler` turns events into messages, and `send` sends one message to the server. `pump` is
//! the task that uses both, and `publisher` is the program's handle to this task.

mod assembler;
mod builder;
mod publisher;
mod pump;
mod send;
mod stats;

pub use builder::NatsPublisherBuilder;
pub use publisher::NatsPublisher;
pub use stats::{NatsPublisherStats, NatsReport};
