//! The incoming side, which turns the messages in a stream into events on a bus or into a stream of
//! deliveries. The events are in order, and gaps are reported at the positions where events are
//! missing.
//!
//! `session` reads messages through a consumer on the server, `decode` converts messages to events,
//! `outlet` represents the destination of the events, and `reader` is the task that drives all of
//! them and keeps track of the positions. The events of several small messages reach a bus as one
//! batch.

mod builder;
mod decode;
mod items;
mod ledger;
mod outlet;
mod parts;
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
