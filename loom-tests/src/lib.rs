//! What the models share. Everything compiles to nothing without `--cfg eventcast_loom`: run the models with
//! `cargo loom`, one of them with `cargo loom NAME`. With `--cfg eventcast_shuttle` (`cargo shuttle`) it is longer
//! programs under random schedules.
//!
//! Each model runs the library's own code, with its dispatcher as one of loom's threads; the others are the test's own.
//! There is no lock and no channel of the test's between them.

#[cfg(eventcast_loom)]
mod explore;
#[cfg(eventcast_shuttle)]
mod schedules;

#[cfg(eventcast_loom)]
pub use explore::{Gone, Payload, Sign, bus, bus_at, bus_of, explore, explore_with, numbers};
#[cfg(eventcast_shuttle)]
pub use schedules::{Ident, Log, schedules, small_bus};
