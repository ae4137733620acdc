//! Random numbers that are reproducible from a seed.

/// A `SplitMix64` generator, which is small and random enough for this purpose.
pub(super) struct Dice(u64);

impl Dice {
    /// Creates the dice for one event. The same seed and number produce the same rolls.
    pub(super) fn new(seed: u64, number: u64) -> Self {
        let mut dice = Self(seed ^ number.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        dice.next();
        dice
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Returns a random number in `0..sides`.
    pub(super) fn roll(&mut self, sides: u64) -> u64 {
        self.next() % sides
    }
}
