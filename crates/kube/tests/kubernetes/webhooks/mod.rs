//! Namespaces whose admission webhook misbehaves, alongside healthy namespaces.
//!
//! `load.rs` records events in many namespaces at a steady rate, and the server notes when it
//! stores each event. `healthy.rs` requires that events in healthy namespaces are stored as fast as
//! without a sick namespace, and `sick.rs` requires that a sick namespace loses only its own
//! events.

mod healthy;
mod load;
mod sick;
