//! The recorder: events and their JSON, the correlator, recordings and their retries, and all
//! output to terminals and logs.

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
