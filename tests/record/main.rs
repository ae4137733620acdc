//! The recorder: events and their JSON, the correlator, recordings with their retries, and
//! everything that reaches a terminal or a log.

mod broadcaster;
mod correlator;
mod delivery;
mod event;
mod hostile;
mod recorder;
mod series;
mod stability;
mod support;
mod terminal;
#[cfg(feature = "tracing")]
mod warnings;
