//! G5, G6, G7: a watcher's queue. The queue is bounded, each policy loses the right events, the gap
//! is in the right place, and losses are counted.

mod conflate;
mod evict;
mod memory;
mod newest;
mod policies;
mod rounds;
mod waiting;
