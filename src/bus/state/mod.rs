//! The state of one bus and of each of its watchers, whatever the events are.

mod gate;
mod lifecycle;
mod registry;
mod watcher;

pub(crate) use self::gate::Refusal;
pub(crate) use self::lifecycle::Lifecycle;
pub(crate) use self::watcher::{Sent, WatcherState};
