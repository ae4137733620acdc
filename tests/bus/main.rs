//! Tests of the bus: its guarantees as numbered in `docs/guarantees.md`, its faults, and thousands
//! of rounds of mixed operations. The folders match `src/bus`, except for the end of a bus (`end`),
//! user code that panics or calls back (`user_code`), tasks on several executors (`tasks`), the
//! behaviour of an inline bus (`inline`) and the random rounds (`stress`). None of these tests
//! needs the `recorder` feature.

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
mod slow;
mod statistics;
mod stress;
mod support;
mod tasks;
mod user_code;
mod watch;
mod weak;
