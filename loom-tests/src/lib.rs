//! What the models share. Everything compiles to nothing without `--cfg eventcast_loom`: run the models with
//! `cargo loom`, one of them with `cargo loom NAME`.
//!
//! Each model runs the library's own code, with its dispatcher as one of loom's threads; the others are the test's own.
//! There is no lock and no channel of the test's between them.

#[cfg(eventcast_loom)]
mod explore;

#[cfg(eventcast_loom)]
pub use explore::{Payload, bus, bus_of, explore, explore_with, numbers};
