//! Carries an [eventcast](https://docs.rs/eventcast) bus to other processes and machines, over NATS
//! JetStream.

#![cfg_attr(docsrs, feature(doc_cfg))]
#![forbid(unsafe_code)]
#![warn(clippy::dbg_macro, clippy::print_stderr, clippy::print_stdout, clippy::todo, clippy::unwrap_used)]

mod bridge;
mod client;
mod codec;
mod duration;
mod error;
mod incoming;
mod options;
mod outgoing;
mod positions;
mod retry;
mod runtime;
mod sink;
mod state;
mod stop;
mod subject;
mod wire;

pub use crate::bridge::{NatsBridge, NatsBridgeBuilder, Routed};
pub use crate::codec::{Codec, CodecError, Framing, Json};
pub use crate::error::BuildError;
pub use crate::incoming::{
    FilePosition, MemoryPosition, NatsSubscriber, NatsSubscriberBuilder, NatsSubscriberStats, PositionStore,
    Remote, RemoteWatcher, SavedPosition,
};
pub use crate::options::{
    Auth, ConnectionOptions, Discard, OnFull, Overflow, PublisherOptions, RetryOptions, Start, Storage,
    StreamOptions, SubscriberOptions, TlsOptions,
};
pub use crate::outgoing::{NatsPublisher, NatsPublisherBuilder, NatsPublisherStats, NatsReport};
pub use crate::sink::{NatsSink, NatsSinkOptions};
pub use crate::state::BridgeState;
pub use crate::subject::Subject;
