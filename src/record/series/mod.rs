//! Series: how a recording counts events that have an event time.
//!
//! The first event of a series is stored as a new one. A repeat is counted here, and either written
//! immediately or *held*: the recording has counted it, and a later write passes the count to the
//! store. That write happens when the series is refreshed, when it ends, during a flush, or when
//! the recording ends. A held event therefore gets its outcome with that write.
//!
//! A series ends when it has not been seen for some time, or when it is evicted to make way for
//! another one. In both cases, its held events are written. Everything happens on the recording's
//! own thread.

mod memory;
mod options;

pub(crate) use memory::{SeriesKey, SeriesMemory, SeriesWrite};
pub use options::{SeriesOptions, SeriesUpdate};
