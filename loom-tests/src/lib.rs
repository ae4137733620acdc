//! The parts that the models share, besides `eventcast::testing`. Most of this crate compiles to
//! nothing without `--cfg eventcast_loom`. `cargo loom` runs all models, and `cargo loom NAME` runs
//! the models whose name contains NAME.
//!
//! Each model runs the library's own code. The dispatcher is one of loom's threads, and the test
//! starts the others. The test adds no locks or channels between them.

#[cfg(eventcast_loom)]
mod explore;
#[cfg(eventcast_loom)]
mod harness;
#[cfg(eventcast_loom)]
mod parts;
mod record;
pub mod table;

#[cfg(eventcast_loom)]
pub use explore::{explore, set_cell, spawn};
#[cfg(eventcast_loom)]
pub use harness::{Model, main};
#[cfg(eventcast_loom)]
pub use parts::{bus, bus_at, bus_of, direct_bus, history_bus, inline_bus, numbers, select};
pub use record::Record;
