//! Code shared by the benchmarks and the measuring programs. The shared code consists of the
//! contenders, the loads that are sent through the contenders, and the formatting of the results.
//! Every round checks that all events arrived in order, or counts the missing events.

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
