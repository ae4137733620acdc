//! The command `eventcast` as its users meet it: the tests run, watch and signal the program.

mod size;
mod correlate;
mod replay;
mod support;
