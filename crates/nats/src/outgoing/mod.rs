//! The outgoing side: a watcher of a bus whose events go to a stream, in order, one message at a
//! time.
//!
//! `assembler` makes messages of events, `send` brings one message to the server, `pump` is the
//! task that does both, and `publisher` is the program's handle of it.

mod assembler;
mod builder;
mod publisher;
mod pump;
mod send;
mod stats;

pub use builder::NatsPublisherBuilder;
pub use publisher::NatsPublisher;
pub use stats::{NatsPublisherStats, NatsReport};
