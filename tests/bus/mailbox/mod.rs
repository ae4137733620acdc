//! G5, G6, G7: a watcher's queue. It is bounded, each policy loses the right events, the gap is at
//! its place, and losses are counted.

mod evict;
mod memory;
mod newest;
mod policies;
mod rounds;
mod waiting;
