//! Series: how a recording counts events that have an event time.
//!
//! The first event of a series is stored as a new event. A repeat is counted here, and is either
//! written immediately or *held*. If it is held, the recording has counted it, and a later write
//! passes the count to the store. That write happens when the series is refreshed, when it ends,
//! during a flush, or when the recording ends. A held event therefore gets its outcome only with
//! that write.
//!
//! A series ends when it has not been seen for some time, or when it is evicted to make space for
//! another series. In both cases, its held events are written. All of this happens on the
//! recording's own thread.

mod memory;
mod options;

pub(crate) use memory::{SeriesKey, SeriesMemory, SeriesWrite};
pub use options::{SeriesOptions, SeriesUpdate};
