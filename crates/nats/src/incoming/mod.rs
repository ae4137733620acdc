//! The incoming side: a stream's messages as events of a bus, or as a stream of deliveries, in
//! order, with the gaps in place.
//!
//! `session` reads messages with a consumer of the server, `outlet` is where the events go, and
//! `reader` is the task that does both and keeps the positions.

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
