//! The bus: its guarantees as `docs/guarantees.md` numbers them, its faults, and thousands of
//! rounds of everything at once. All of this is there without the feature `recorder` too.

mod async_edges;
mod async_suite;
#[cfg(feature = "serde")]
mod config;
mod controls;
mod direct;
mod drop_oldest;
mod edges;
mod end;
mod ended;
mod event_watcher;
mod evict;
mod faults;
mod gaps;
mod handlers;
mod handles;
mod history;
mod inline;
#[cfg(feature = "metrics")]
mod metrics;
mod order;
mod overflow;
#[cfg(feature = "serde")]
mod plain_data;
mod policies;
mod regressions;
mod sanitizer;
#[cfg(feature = "select")]
mod select;
mod statistics;
mod stress;
mod support;
mod user_code;
mod waits_for_readers;
mod weak;
