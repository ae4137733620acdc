//! Random programs, inputs and operations, the same ones each time. `EVENTCAST_CASES=100` tries a
//! hundred times as many, and `EVENTCAST_SEED=1` tries others.

mod cases;
#[cfg(feature = "recorder")]
mod correlator;
#[cfg(feature = "recorder")]
mod delivery;
#[cfg(feature = "recorder")]
mod events;
mod twin;
#[cfg(feature = "recorder")]
mod wild;
