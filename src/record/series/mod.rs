//! Series, in which a recording counts repeated events that have an event time.
//!
//! The first event of a series is stored as a new event. A repeat is counted, and is either written
//! immediately or *held*. The count of a held event reaches the store only with a later write. That
//! write happens when the series is refreshed, when the series ends, during a flush, or when the
//! recording ends. The outcome of a held event is therefore known only after that write.
//!
//! A series ends if no event of the series has been seen for some time, or if the series is evicted
//! to make space for another series. In both cases, the held events of the series are written. The
//! code in this module runs on the recording's own thread.

mod memory;
mod options;

pub(crate) use memory::{SeriesKey, SeriesMemory, SeriesWrite};
pub use options::{SeriesOptions, SeriesUpdate};
