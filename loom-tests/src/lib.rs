//! The parts that the models share, besides `eventcast::testing`. Most of it compiles to nothing without
//! `--cfg eventcast_loom`: run the models with `cargo loom`, one of them with `cargo loom NAME`.
//!
//! Each model runs the library's own code, with its dispatcher as one of loom's threads; the others are the test's own.
//! There is no lock and no channel of the test's between them.

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
pub use parts::{bus, bus_at, bus_of, numbers, select};
pub use record::Record;
