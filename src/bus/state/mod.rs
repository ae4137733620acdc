//! The state of one bus and of each of its watchers, independent of the event type.

mod bus;
mod end_reason;
mod gate;
mod name;
mod owner;
mod registry;
mod sent;
mod shutdown;
mod threads;
mod watcher;

pub(crate) use self::bus::{BusState, Drive};
pub use self::end_reason::EndReason;
pub(crate) use self::gate::{Duty, Refusal};
pub(crate) use self::name::Name;
pub(crate) use self::sent::Sent;
pub(crate) use self::shutdown::Patience;
pub(crate) use self::threads::Threads;
pub(crate) use self::watcher::WatcherState;
