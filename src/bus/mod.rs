//! bus
mod batch;
mod broadcaster;
mod builder;
mod core;
mod current;
mod dispatcher;
mod gate;
mod handler;
mod hub;
mod inbox;
mod options;
mod outbox;
mod publisher;
mod queue;
mod sleeper;
mod watcher;

pub use self::broadcaster::Broadcaster;
pub use self::builder::WatchBuilder;
pub use self::handler::{Runner, WatchHandle};
pub use self::options::{BusOptions, OverflowPolicy};
pub use self::publisher::Publisher;
pub use self::watcher::{Batch, Delivery, Events, IntoIter, Iter, StopHandle, Watcher};
