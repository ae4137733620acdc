//! The parts that several examples share: flags, durations, output, text for a terminal, choices.
#![allow(dead_code, reason = "each example uses its part")]

pub(crate) mod dice;
pub(crate) mod duration;
pub(crate) mod flags;
pub(crate) mod number;
pub(crate) mod output;
pub(crate) mod table;
pub(crate) mod text;
