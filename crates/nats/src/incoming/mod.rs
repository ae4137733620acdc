//! The incoming side: turns the messages of a stream into events of a bus, or into a stream of
//! deliveries, in order and with gaps in place.
//!
//! `session` reads messages through a consumer on the server, `outlet` is where the events go, and
//! `reader` is the task that drives both and keeps track of the positions.

mod builder;
mod ledger;
mod outlet;
mod reader;
mod remote_event;
mod remote_watcher;
mod session;
mod start;
mod stats;
mod store;
mod subscriber;

pub use builder::NatsSubscriberBuilder;
pub use remote_event::Remote;
pub use remote_watcher::RemoteWatcher;
pub use stats::NatsSubscriberStats;
pub use store::{FilePosition, MemoryPosition, PositionStore, SavedPosition};
pub use subscriber::NatsSubscriber;
