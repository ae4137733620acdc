//! The costs: allocations, memory, and the processor time of an idle bus. A counting allocator is
//! used for all of these tests. Tests that measure the memory of the whole process run in a
//! separate process.

mod bus;
#[cfg(feature = "recorder")]
mod correlator;
mod counting;
mod direct;
mod history;
mod inline;
mod large_events;
mod many_watchers;
mod pull;
#[cfg(feature = "recorder")]
mod reader;
#[cfg(feature = "recorder")]
mod recorder;
#[cfg(feature = "topics")]
mod topics;
