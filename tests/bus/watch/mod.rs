//! The readers of a queue (watchers, event-only watchers, runners, and `Select`), and their number.

mod ended;
mod event_watcher;
mod leaving;
mod names;
mod presence;
mod receive;
mod runners;
#[cfg(feature = "select")]
mod select;
#[cfg(target_os = "linux")]
mod threads;
