//! Options of a bus and of its watchers: plain data, checked when a bus or a watcher is built.

mod bus;
mod check;
mod start;
mod watch;

pub use self::bus::BusOptions;
pub(super) use self::check::{check_incoming, check_name, check_queue_capacity};
pub use self::start::Start;
pub use self::watch::WatchOptions;
