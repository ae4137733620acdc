//! What the models share. Everything compiles to nothing without `--cfg eventcast_loom`: run the models with
//! `cargo loom`.

#[cfg(eventcast_loom)]
mod explore;

#[cfg(eventcast_loom)]
pub use explore::{Payload, explore, explore_with};
