//! The state of one bus and of each of its watchers, for events of any type.

mod gate;
mod lifecycle;
mod registry;
mod watcher;

pub(crate) use self::gate::{Duty, Refusal};
pub(crate) use self::lifecycle::Lifecycle;
pub(crate) use self::watcher::{Sent, WatcherState};
