//! Code shared by the benchmarks and the measuring programs. The shared code consists of the
//! contenders, the loads that are sent through the contenders, and the formatting of the results.
//! Every round checks that all events arrived in order, or counts the missing events.

#![allow(clippy::missing_panics_doc, reason = "a round that does not come out right must panic")]
#![allow(
    clippy::cast_precision_loss,
    clippy::cast_possible_wrap,
    clippy::cast_sign_loss,
    reason = "figures for people"
)]

pub mod correlation;
pub mod cost;
pub mod load;
pub mod ours;
pub mod quiet;
pub mod recorded;
pub mod rivals;
pub mod rounds;
pub mod table;
pub mod threads;
pub mod timed;
