//! Tests the `eventcast` command from the user's point of view. The tests run the program, watch
//! its output and send it signals.

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
mod top;
mod usage;
