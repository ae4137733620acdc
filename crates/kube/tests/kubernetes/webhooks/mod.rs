//! Namespaces whose admission webhook misbehaves, beside healthy ones.
//!
//! `load.rs` records events in many namespaces at a steady rate, and the server notes when it
//! stores each one. `healthy.rs` requires that the events of healthy namespaces are stored as fast
//! as without a sick one, and `sick.rs` that a sick namespace loses only its own events.

mod healthy;
mod load;
mod sick;
