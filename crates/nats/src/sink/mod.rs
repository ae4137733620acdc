//! A stream as a store of recorded events, which holds the latest state of each event.

mod store;
mod write;

pub use store::{NatsSink, NatsSinkOptions};
