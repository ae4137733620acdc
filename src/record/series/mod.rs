//! Series: how a recording counts events that have an event time.
//!
//! The first event of a series is stored as a new one. A repeat is counted here, and either written
//! at once or *held*: the recording has counted it, and a later write tells the store. That write
//! comes when the series is refreshed, when it ends, when somebody flushes, or when the recording
//! ends. An event that is held therefore has its outcome with that write.
//!
//! A series ends when it has not been seen for some time, or when it has to make room for another
//! one. Both write what is held. Everything happens on the recording's own thread.

mod memory;
mod options;

pub(crate) use memory::{SeriesKey, SeriesMemory, SeriesWrite};
pub use options::{SeriesOptions, SeriesUpdate};
