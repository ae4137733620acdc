//! The sinks that are part of the library: the in-memory sink, the JSON lines sink, and async
//! sinks.

mod async_sink;
mod contract;
mod errors;
mod events_v1_rules;
mod json_lines;
mod json_lines_rotation;
mod lines;
mod memory;
mod memory_queries;
mod needed_thread;
mod rules;
mod stores;
mod support;
mod table;
