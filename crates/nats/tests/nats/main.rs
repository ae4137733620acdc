//! The bridge against real servers, which the tests start themselves on free ports.
//!
//! The server is the program that `NATS_SERVER_BIN` names, or `nats-server` on the `PATH`. Without
//! one the tests say that they are skipped. With `EVENTCAST_NATS=required` they fail.
//!
//! `EVENTCAST_NATS_SCALE=10` makes the long tests ten times as long.

mod admin;
mod bridge;
mod cluster;
mod faults;
mod incoming;
#[cfg(target_os = "linux")]
mod network;
mod outgoing;
mod reading;
mod server;
mod sink;

use eventcast_nats::{BuildError, NatsPublisher, NatsSubscriber, RemoteWatcher};

/// The public types can be sent to other threads and shared with them.
const _: () = {
    const fn is_send_and_sync<T: Send + Sync + 'static>() {}
    is_send_and_sync::<NatsPublisher>();
    is_send_and_sync::<NatsSubscriber>();
    is_send_and_sync::<BuildError>();
    const fn is_send<T: Send + 'static>() {}
    is_send::<RemoteWatcher<u64>>();
};
