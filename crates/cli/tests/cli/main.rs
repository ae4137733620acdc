//! The command `eventcast` as its users meet it: the tests run, watch and signal the program.

mod correlate;
mod events;
mod guard;
mod look;
mod manual;
mod nats;
mod replay;
#[cfg(feature = "nats")]
#[path = "../../../nats/tests/nats/server.rs"]
#[allow(dead_code, unused_macros, unused_imports, reason = "the tests of the bridge use more of it")]
mod server;
mod size;
mod supervise;
mod support;
mod usage;
