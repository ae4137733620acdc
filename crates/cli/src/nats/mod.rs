//! The `publish` and `watch` commands, which share a bus between processes over a NATS server.
//!
//! Without the `nats` feature, the commands still exist, but only report that they require this
//! feature.

mod args;
#[cfg(feature = "nats")]
mod lines;
#[cfg(feature = "nats")]
mod publish;
#[cfg(feature = "nats")]
mod server;
#[cfg(feature = "nats")]
mod watch;

pub(crate) use args::{PublishArgs, WatchArgs};

#[cfg(not(feature = "nats"))]
use crate::support::feature::missing;

#[cfg(feature = "nats")]
pub(crate) use publish::publish;
#[cfg(feature = "nats")]
pub(crate) use watch::watch;

#[cfg(not(feature = "nats"))]
pub(crate) fn publish(_: &PublishArgs) -> Result<bool, Box<dyn std::error::Error>> {
    Err(missing("eventcast publish", "nats").into())
}

#[cfg(not(feature = "nats"))]
pub(crate) fn watch(_: &WatchArgs) -> Result<bool, Box<dyn std::error::Error>> {
    Err(missing("eventcast watch", "nats").into())
}
