//! Stores for events, the contract that a store implements, and the meaning of the errors that a
//! store returns.
//!
//! A sink performs operations and reports the result of each operation. The recording, not the
//! sink, decides when to retry an operation, how to handle an expired event, and what to cache.

mod async_adapter;
mod async_sink;
mod batch;
mod contract;
mod error;
mod identity;
mod json_lines;
mod memory;
mod mode;
mod needed_thread;
mod op;
mod order;
mod pages;
mod query;
pub mod rules;
mod table;

pub use crate::record::event::Stored;
pub use async_adapter::AsyncSink;
pub use async_sink::AsyncEventSink;
pub(crate) use batch::{OpId, Replies, Reply, in_call};
pub use batch::{SinkBatch, SinkCall};
pub use contract::EventSink;
pub use error::{SinkError, SinkErrorKind};
pub use json_lines::{JsonLinesOptions, JsonLinesSink, JsonLinesStats};
pub use memory::{MemoryEvents, MemorySink, MemorySinkOptions, MemorySinkStats};
pub use mode::SinkMode;
pub use needed_thread::NeededThread;
pub use op::{SinkOp, SinkOpError};
pub use order::WriteOrder;
pub use pages::{EventCursor, EventPage};
pub use query::{EventQuery, QueryLimit};
pub use table::EventTable;
