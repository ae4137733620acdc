//! Tests the `eventcast` command from the user's point of view. The tests run, watch and signal the
//! program.

mod correlate;
mod events;
mod guard;
mod look;
mod manual;
mod nats;
mod reading;
mod replay;
mod size;
mod supervise;
mod support;
mod usage;
