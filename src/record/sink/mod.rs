//! The stores of events: what a store must be able to do, and what its errors mean.
//!
//! A sink performs one operation at a time, and says how the operation went. The recording, not the
//! sink, decides when to try again, what to do about an event that has expired, and what to
//! remember.

mod api_rules;
mod async_sink;
mod blocking;
mod contract;
mod error;
mod filter;
mod identity;
mod json_lines;
mod memory;
mod needed_thread;
mod order;
mod pages;
mod query;
#[cfg(feature = "sqlite-system")]
mod sqlite;
mod strict_rules;
mod table;
mod tee;

pub use crate::record::event::Stored;
pub use async_sink::AsyncEventSink;
pub use blocking::Blocking;
pub use contract::{EventSink, SinkOp};
pub use error::{SinkError, SinkErrorKind};
pub use filter::Filter;
pub use json_lines::{JsonLinesOptions, JsonLinesSink, JsonLinesStats};
pub use memory::{MemoryEvents, MemorySink, MemorySinkOptions, MemorySinkStats};
pub use needed_thread::NeededThread;
pub use order::WriteOrder;
pub use query::EventQuery;
#[cfg(feature = "sqlite-system")]
pub use sqlite::{
    SqliteChanges, SqliteError, SqliteErrorKind, SqliteEvents, SqliteSink, SqliteSinkOptions,
    SqliteSinkStats, SqliteSynchronous,
};
pub use table::EventTable;
pub use tee::{Tee, TeeStats};
