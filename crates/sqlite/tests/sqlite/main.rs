//! Tests of the store in a SQLite file.

mod crash;
mod documents;
mod files;
mod options;
mod processes;
mod series_crash;
mod store;
mod stores;
mod terminal;
mod twin;

// The following tests and helpers are shared with the tests of the main library's stores.
#[path = "../../../../tests/fuzz/cases.rs"]
#[allow(dead_code, reason = "other tests use more of it")]
mod cases;
#[path = "../../../../tests/sinks/events_v1_rules/mod.rs"]
mod events_v1_rules;
#[path = "../../../../tests/record/hostile.rs"]
#[allow(dead_code, reason = "other tests use more of it")]
mod hostile;
#[path = "../../../../tests/sinks/memory_queries/readings.rs"]
#[allow(clippy::manual_is_multiple_of, reason = "the library is also for an older Rust")]
mod readings;
#[path = "../../../../tests/sinks/support.rs"]
#[allow(dead_code, reason = "other tests use more of it")]
mod support;
#[path = "../../../../tests/fuzz/wild.rs"]
#[allow(dead_code, reason = "other tests use more of it")]
mod wild;
