//! Tests with random programs, inputs and operations, which are the same in each run.
//! `EVENTCAST_CASES=100` runs a hundred times as many cases, and `EVENTCAST_SEED=1` runs different
//! cases.

mod cases;
mod conflate;
#[cfg(feature = "recorder")]
mod correlator;
#[cfg(feature = "recorder")]
mod delivery;
#[cfg(feature = "recorder")]
mod events;
mod twin;
#[cfg(feature = "recorder")]
mod wild;
