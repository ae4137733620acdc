//! The readers of a queue: watchers, watchers of events alone, runners, and `Select`.

mod ended;
mod event_watcher;
mod receive;
mod runners;
#[cfg(feature = "select")]
mod select;
#[cfg(target_os = "linux")]
mod threads;
