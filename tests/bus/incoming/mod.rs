//! The incoming side of the bus: publishers, their turns, and the gaps that they report.

mod gaps;
mod publish;
mod turns;
