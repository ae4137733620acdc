//! The recorder: events and their JSON, the correlator, recordings with their retries, and
//! everything that reaches a terminal or a log.

mod correlator;
mod correlator_beyond;
mod correlator_properties;
mod correlator_vectors;
mod delivery;
mod event;
mod event_broadcaster;
mod event_json;
mod event_reader;
mod event_time;
mod events_v1;
mod fault_clock;
mod groups;
mod hostile;
mod inline_attacked;
mod recorder;
mod recorder_bus;
mod recorder_regressions;
mod recording;
mod recording_end;
mod recording_stress;
mod recording_writes;
mod series;
mod stability;
mod support;
mod terminal;
#[cfg(feature = "tracing")]
mod warnings;
