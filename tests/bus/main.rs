//! The bus: its guarantees as `docs/guarantees.md` numbers them, its faults, and thousands of
//! rounds of mixed operations. The folders match `src/bus`, except for the ends of a bus (`end`),
//! user code that panics or calls back (`user_code`), tasks on several executors (`tasks`), the
//! behaviour of an inline bus (`inline`) and the random rounds (`stress`). None of this needs the
//! feature `recorder`.

mod channel;
#[cfg(feature = "serde")]
mod config;
mod dispatch;
mod end;
mod incoming;
mod inline;
mod mailbox;
#[cfg(feature = "metrics")]
mod metrics;
mod options;
#[cfg(feature = "serde")]
mod plain_data;
mod sanitizer;
mod statistics;
mod stress;
mod support;
mod tasks;
mod user_code;
mod watch;
mod weak;
