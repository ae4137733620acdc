//! Random choices that a seed repeats.

use std::time::Duration;

/// The random numbers of one part of the program.
pub(crate) struct Dice(fastrand::Rng);

impl Dice {
    /// Creates the dice of one part of the program. The same seed and part give the same choices.
    pub(crate) fn new(seed: u64, part: u64) -> Self {
        // An odd factor gives the parts of one seed different seeds.
        Self(fastrand::Rng::with_seed(seed ^ part.wrapping_mul(0x9e37_79b9_7f4a_7c15)))
    }

    /// Returns one of `0..sides`.
    pub(crate) fn roll(&mut self, sides: u64) -> u64 {
        self.0.u64(..sides)
    }

    pub(crate) fn once_in(&mut self, times: u64) -> bool {
        self.roll(times) == 0
    }

    pub(crate) fn micros(&mut self, at_most: u64) -> Duration {
        Duration::from_micros(self.roll(at_most))
    }
}
