//! The incoming side of the bus: publishers, their turns, and the gaps that they report.

mod buffered;
mod gaps;
mod publish;
mod turns;
