//! Utilities that several commands share. For example, they parse option values, write output, and
//! prepare text for a terminal.

pub(crate) mod bad_input;
pub(crate) mod bad_usage;
pub(crate) mod color;
pub(crate) mod duration;
pub(crate) mod event_table;
pub(crate) mod feature;
#[cfg(any(feature = "sqlite-system", feature = "top"))]
pub(crate) mod file;
pub(crate) mod lines;
#[cfg(any(unix, feature = "sqlite-system"))]
pub(crate) mod log_columns;
pub(crate) mod number;
pub(crate) mod output;
#[cfg(feature = "analysis")]
pub(crate) mod progress;
#[cfg(any(feature = "analysis", feature = "nats", feature = "sqlite-system", feature = "top"))]
pub(crate) mod signals;
pub(crate) mod store;
pub(crate) mod terminal;
pub(crate) mod text;
pub(crate) mod time;
