//! Extends an [eventcast](https://docs.rs/eventcast) bus to other processes and machines, over NATS
//! JetStream.
//!
//! - [`NatsPublisher`] watches a bus and sends its events to a stream.
//! - [`NatsSubscriber`] reads a stream and publishes the events on a bus, or passes them to a
//!   [`RemoteWatcher`].
//! - [`NatsBridge`] combines a publisher and a subscriber, so that processes share the events on
//!   their buses.
//! - [`NatsSink`] stores recorded events in a stream that holds the latest state of each event.
//!
//! A publisher sends a message only after the server has acknowledged the previous message, or
//! after the events in the previous message have been counted as lost. A reader therefore receives
//! each publisher's events once and in order, even across server crashes and lost connections. If
//! events are missing, the reader receives the number of missing events in place of the events.
//!
//! # Two processes
//!
//! One process:
//!
//! ```no_run
//! use eventcast::Broadcaster;
//! use eventcast_nats::{NatsPublisher, StreamOptions, Subject};
//! use std::time::Duration;
//!
//! let bus = Broadcaster::<(String, f64)>::new()?;
//! let out = NatsPublisher::builder("nats://127.0.0.1:4222")
//!     .prefix("ticks")
//!     .ensure_stream("TICKS", StreamOptions::default())
//!     .subject(|(symbol, _): &(String, f64)| Subject::new("ticks").token(symbol))
//!     .attach(&bus)?;
//! bus.publisher().publish(("EUR".to_owned(), 1.08))?;
//! println!("{}", bus.shutdown());
//! println!("{}", out.shutdown_timeout(Duration::from_secs(10)));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! The other process:
//!
//! ```no_run
//! use eventcast::{Broadcaster, Delivery};
//! use eventcast_nats::{FilePosition, NatsSubscriber, Start};
//!
//! let bus = Broadcaster::<(String, f64)>::new()?;
//! let mut watcher = bus.watch()?;
//! let reader = NatsSubscriber::builder("nats://127.0.0.1:4222")
//!     .stream("TICKS")
//!     .start(Start::All)
//!     .resume(FilePosition::new("position.json"))
//!     .attach(&bus.publisher())?;
//! while let Ok(delivery) = watcher.recv() {
//!     match delivery {
//!         Delivery::Event((symbol, price)) => println!("{symbol} {price}"),
//!         Delivery::Lagged(missed) => println!("{missed} events missed"),
//!     }
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Acknowledged is not on disk
//!
//! By default, a server writes acknowledged messages to disk within two minutes. Acknowledged
//! messages survive if the server's process ends, but can be lost in a power failure.
//! `docs/nats.md` in the repository explains which server option changes this behaviour, which
//! guarantees are exact and which are at least once, and how each failure is handled.
//!
//! # TLS and keys
//!
//! The `tls-ring` feature enables TLS with ring. If a program prefers another TLS provider, the
//! program does not need this feature, and installs that provider with rustls'
//! `CryptoProvider::install_default`. Without a provider, an address with `tls://` is an error. If
//! a server requires TLS and there is no provider, the status reports the problem. The `nkeys`
//! feature enables authentication with an nkey or a credentials file.

#![cfg_attr(docsrs, feature(doc_cfg))]
#![forbid(unsafe_code)]
#![warn(clippy::dbg_macro, clippy::print_stderr, clippy::print_stdout, clippy::todo, clippy::unwrap_used)]

mod address;
mod bridge;
mod client;
mod codec;
mod duration;
mod error;
mod failure;
mod incoming;
mod options;
mod outgoing;
mod positions;
mod remote_status;
mod retry;
mod runtime;
mod sink;
mod status;
mod stop;
mod subject;
mod tls;
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
pub use crate::remote_status::RemoteStatus;
pub use crate::sink::{NatsSink, NatsSinkOptions};
pub use crate::subject::Subject;

/// Compiles the documents so that their examples stay correct.
#[cfg(doctest)]
mod documents {
    #[doc = include_str!("../README.md")]
    mod readme {}
    #[doc = include_str!("../../../docs/nats.md")]
    mod nats {}
}
