//! The watch side of the bus: the watcher builder, and the types that read a watcher's mailbox.

mod batches;
mod builder;
#[cfg(any(feature = "recorder", eventcast_loom))]
mod bulk;
mod conflate;
mod delivery;
mod ended;
mod event_watcher;
mod handler;
mod iter;
mod leaving;
mod positions;
mod registration;
#[cfg(feature = "select")]
mod select;
mod stream;
mod watcher;

pub use self::builder::WatchBuilder;
#[cfg(eventcast_loom)]
pub use self::bulk::{BulkEvents, BulkNext, BulkReader, EndStage, wake_reader};
#[cfg(all(feature = "recorder", not(eventcast_loom)))]
pub(crate) use self::bulk::{BulkNext, BulkReader, EndStage, wake_reader};
pub use self::delivery::{Batch, Delivery};
pub use self::event_watcher::EventWatcher;
pub use self::handler::{Runner, WatchHandle};
pub use self::iter::{Events, IntoIter, Iter, TryIter};
pub use self::watcher::Watcher;
