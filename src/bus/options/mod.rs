//! The options of a bus and its watchers. All options are plain data, and are validated when the
//! bus or watcher is built.

mod bus;
mod check;
mod start;
mod watch;

pub use self::bus::BusOptions;
pub(super) use self::check::{check_incoming, check_name, check_queue_capacity};
pub use self::start::Start;
pub use self::watch::WatchOptions;
