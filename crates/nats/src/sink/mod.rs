//! A sink that stores recorded events in a stream, which holds the latest state of each event.

mod store;
mod write;

pub use store::{NatsSink, NatsSinkOptions};
