//! What the benchmarks and the programs that measure share: the contenders, what goes through them, and how it is shown.
//! Every round checks that all arrived, in order, or says how much did not.

#![allow(clippy::missing_panics_doc, reason = "a round that does not come out right must panic")]

pub mod correlation;
pub mod cost;
pub mod load;
pub mod ours;
pub mod recorded;
pub mod rivals;
pub mod table;
pub mod threads;
pub mod timed;
