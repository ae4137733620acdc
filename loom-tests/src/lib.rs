//! Code shared by the models, in addition to `eventcast::testing`. Without `--cfg eventcast_loom`,
//! most of this crate is not compiled. `cargo loom` runs all models, and `cargo loom NAME` runs the
//! models whose name contains NAME.
//!
//! Each model runs the library's real code. The dispatcher is one of the model's threads, and the
//! model spawns the others. The model does not add any locks or channels between the threads.

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
