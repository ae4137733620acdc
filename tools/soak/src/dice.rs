//! Random choices that are reproducible from a seed.

use std::time::Duration;

/// The random numbers for one part of the program.
pub(crate) struct Dice(fastrand::Rng);

impl Dice {
    /// Creates the dice for one part of the program. The same seed and part give the same choices.
    pub(crate) fn new(seed: u64, part: u64) -> Self {
        // Because the factor is odd, different parts get different seeds.
        Self(fastrand::Rng::with_seed(seed ^ part.wrapping_mul(0x9e37_79b9_7f4a_7c15)))
    }

    /// Returns a random number in `0..sides`.
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
